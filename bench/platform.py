"""The control plane with everything: scheduler, controllers, fake nodes and Kueue; four nodes of eight GPUs.

It is the sandbox. Its API server is started again with an audit log and with a user for each program of the
benchmark, while the others go on.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.audit import POLICY_WITH_STATUS, AuditLog
from bench.process import until
from bench.server import NAMESPACES, Server, say
from bench.subject import PLUGINS, QUEUE, kaiwo_job
from bench.subjects import started
from kaiwo_sandbox import control_plane, lifecycle, process, state
from kaiwo_sandbox.nodes import amd_node
from kaiwo_sandbox.ports import wait_until_free
from kaiwo_sandbox.sandbox import Sandbox

if TYPE_CHECKING:
    from collections.abc import Iterator

NODES = 4
GPUS = NODES * 8
QUEUED = (*PLUGINS, "kueue", "node_pools")
"""What the operator runs with here."""

WORKLOADS = "/apis/kueue.x-k8s.io/v1beta2/workloads"
PODS = "/api/v1/pods"
_START_SECONDS = 60.0
_CLEAR_SECONDS = 300.0


class Platform(Server):
    """A sandbox with Kueue, Kaiwo's CRDs and queues for four namespaces. Use as a context manager.

    Attributes:
        server: the API server's process.
    """

    def _start(self) -> None:
        nodes = [amd_node(f"amd-{number}") for number in range(NODES)]
        sandbox = Sandbox.up(f"bench-{os.getpid()}", nodes=nodes, addons=("kueue",), owned=True, progress=say)
        self._programs.callback(sandbox.down)
        known = state.load(sandbox.directory)
        if known is None:
            raise RuntimeError(f"the sandbox in {sandbox.directory} has no state")
        self._layout = lifecycle.layout(sandbox.directory, known)
        self.url = self._layout.url
        self.write_access(sandbox.directory / "tokens.csv")
        process.recorded(sandbox.directory)["kube-apiserver"].kill()
        wait_until_free(known.ports["apiserver"])
        command = control_plane.apiserver(Path(known.programs["kube-apiserver"]), self._layout)
        self.server = self.run("kube-apiserver", [*command, *self.audited(POLICY_WITH_STATUS)])
        until(self.ready, _START_SECONDS, self.server, "ready")
        self.audit = AuditLog(self.directory / "audit.log")
        self.install()
        self._make_queues()

    def _make_queues(self) -> None:
        """Let the operator make the default queue, and LocalQueues by a first KaiwoJob in each namespace."""
        with started(self, "operator", QUEUED) as program:
            for number, namespace in enumerate(NAMESPACES):
                path = f"/apis/kaiwo.silogen.ai/v1alpha1/namespaces/{namespace}/kaiwojobs"
                self.create(path, kaiwo_job(number, "first"))

            def complete() -> bool:
                found = self.request("GET", "/apis/kaiwo.silogen.ai/v1alpha1/kaiwojobs")["items"]
                return all(item.get("status", {}).get("status") == "COMPLETE" for item in found)

            until(complete, _CLEAR_SECONDS, program, f"queue {QUEUE} made and used in every namespace")
        self.clear()

    def clear(self) -> None:
        """Delete all KaiwoJobs and Jobs, and wait until Kueue and the nodes are done with them."""
        super().clear()
        deadline = time.monotonic() + _CLEAR_SECONDS
        while any(self.count(path) for path in (WORKLOADS, PODS)):
            if time.monotonic() > deadline:
                raise RuntimeError(f"Workloads or pods are left after {_CLEAR_SECONDS:.0f} s")
            time.sleep(1.0)
        self.audit.read()


def statuses(writes: list[Any], user: str) -> Iterator[tuple[Any, str]]:
    """A user's accepted status writes to KaiwoJobs, with the status that they set."""
    for write in writes:
        if write.user.username == user and write.target == "patch kaiwojobs/status" and write.ok:
            word = (write.body.get("status") or {}).get("status")
            if isinstance(word, str):
                yield write, word
