"""What the demo runs on: a sandbox with Kaiwo's CRDs, the operator, and servers to download from."""

from __future__ import annotations

import signal
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import yaml

from kaiwo_sandbox import process, readiness
from kaiwo_sandbox.addons.probes import is_ready
from kaiwo_sandbox.demo import download_servers, subcommands
from kaiwo_sandbox.demo.download_servers import DownloadServers
from kaiwo_sandbox.demo.program_images import program_images
from kaiwo_sandbox.demo.scenario import NAMESPACE, NODES
from kaiwo_sandbox.downloads.local_node import LocalNode
from kaiwo_sandbox.errors import SandboxError
from kaiwo_sandbox.ports import LOOPBACK, free_ports
from kaiwo_sandbox.sandbox import Sandbox

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from kaiwo_sandbox.api import Object
    from kaiwo_sandbox.demo.scenario import Scenario

SANDBOX = "demo"
"""Name of the demo's sandbox."""

OPERATOR = "kaiwo-operator"
"""Name of the operator among the programs of the sandbox."""

_KAIWO_API = "/apis/kaiwo.silogen.ai/v1alpha1"
_WORKLOADS = tuple(
    f"{_KAIWO_API}/namespaces/{NAMESPACE}/{plural}" for plural in ("kaiwojobs", "kaiwoservices")
)
_CONFIG = "/apis/config.kaiwo.silogen.ai/v1alpha1/kaiwoconfigs/kaiwo"
_QUEUE_CONFIG = f"{_KAIWO_API}/kaiwoqueueconfigs/kaiwo"
_READY_SECONDS = 60.0
_POLL_SECONDS = 0.2


class DemoEnvironment:
    """Everything that the demo starts. The operator is a program of the sandbox and ends with it.

    Args:
        scenario: the scenario to prepare for.
        sandbox: the running sandbox.
    """

    def __init__(self, scenario: Scenario, sandbox: Sandbox) -> None:
        self._scenario = scenario
        self.sandbox = sandbox
        self._files = sandbox.directory / "demo"
        self._servers: DownloadServers | None = None
        self._node: LocalNode | None = None

    @classmethod
    def start(cls, scenario: Scenario, *, owned: bool, progress: Callable[[str], None]) -> DemoEnvironment:
        """Start the control plane with its nodes.

        Args:
            scenario: the scenario to prepare for.
            owned: delete the sandbox when this process ends, even by SIGKILL.
            progress: receives lines about builds and downloads of the sandbox's programs.

        Raises:
            SandboxError: something did not start.
        """
        sandbox = Sandbox.up(
            SANDBOX,
            nodes="none" if scenario.real_node else str(NODES),
            addons=scenario.addons,
            real_node=scenario.real_node,
            owned=owned,
            progress=progress,
        )
        if scenario.real_node:
            for image in program_images():
                sandbox.add_image(image)
        environment = cls(scenario, sandbox)
        environment._files.mkdir(mode=0o700)
        environment._user_config.touch()
        return environment

    @property
    def _user_config(self) -> Path:
        """An empty configuration file in place of the user's."""
        return self._files / "kaiwoconfig.yaml"

    @property
    def operator_log(self) -> Path:
        """The log of the operator."""
        return self.sandbox.directory / "logs" / f"{OPERATOR}.log"

    @property
    def _variables(self) -> dict[str, str]:
        """The environment variables of Kaiwo's commands: this cluster and the scenario's plugins."""
        return {
            "KAIWO_PLUGINS": ",".join(self._scenario.plugins),
            "KAIWOCONFIG": str(self._user_config),
            "KUBECONFIG": str(self.sandbox.kubeconfig),
        }

    def install_crds(self) -> None:
        """Install Kaiwo's CRDs and wait until they are served.

        Raises:
            Failure: the CRDs cannot be rendered.
            SandboxError: the API server rejects or does not serve them.
        """
        rendered = subcommands.run(("manifests", "crds"), self._variables).stdout
        self.sandbox.create_crds([each for each in yaml.safe_load_all(rendered) if each])

    def configure(self) -> None:
        """Apply KaiwoConfig and KaiwoQueueConfig. The operator creates the defaults of those that it misses.

        Raises:
            SandboxApiError: the API server rejects one.
        """
        for path, file in ((_CONFIG, self._scenario.config), (_QUEUE_CONFIG, self._scenario.queues)):
            if file is not None:
                self.sandbox.api.apply(path, yaml.safe_load(file.read_text(encoding="utf-8")))

    def start_operator(self) -> None:
        """Start the operator and wait until it is ready.

        Raises:
            SandboxError: it exited or is not ready in time; the message has the end of its log.
        """
        [port] = free_ports(1)
        operator = process.start(
            OPERATOR,
            [str(subcommands.executable()), "operator", "run", "--metrics-address", f"{LOOPBACK}:{port}"],
            directory=self.sandbox.directory,
            environment={**subcommands.environment(), **self._variables},
        )
        readiness.wait_until(
            "the operator",
            partial(is_ready, port, "/readyz"),
            directory=self.sandbox.directory,
            program=operator,
            hint="run kaiwo demo again; the machine may be overloaded",
        )

    def wait_for_queues(self) -> None:
        """Wait until the operator has created the queues.

        Raises:
            SandboxError: the KaiwoQueueConfig is not READY in time.
        """
        deadline = time.monotonic() + _READY_SECONDS
        while (status := self.sandbox.api.get(_QUEUE_CONFIG).get("status") or {}).get("status") != "READY":
            if time.monotonic() > deadline:
                messages = [
                    item["message"] for item in status.get("conditions", ()) if item["status"] != "True"
                ]
                raise SandboxError(
                    f"KaiwoQueueConfig kaiwo is not READY after {_READY_SECONDS:.0f} s",
                    detail="; ".join(messages) or f"status {status.get('status') or 'not set'}",
                )
            time.sleep(_POLL_SECONDS)

    def submit(self, *directories: Path, changes: Sequence[str] = ()) -> list[str]:
        """Submit all files of the directories and return what the command reported.

        Args:
            directories: directories with workloads.
            changes: values of `--set`.

        Raises:
            Failure: the command failed.
        """
        options = [word for directory in directories for word in ("-f", str(directory))]
        options += [word for change in changes for word in ("--set", change)]
        return subcommands.run(("submit", "-n", NAMESPACE, *options), self._variables).stderr.splitlines()

    def create_jobs(self, directory: Path) -> None:
        """Create the batch/v1 Jobs of a directory, as kubectl does.

        Raises:
            SandboxApiError: the API server rejects one.
        """
        for file in sorted(directory.glob("*.yaml")):
            job = yaml.safe_load(file.read_text(encoding="utf-8"))
            self.sandbox.api.create(f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs", job)

    def serve_downloads(self) -> None:
        """Start the servers with data and code, and run download pods on this machine.

        Raises:
            OSError: a server cannot be started.
        """
        self._servers = DownloadServers(self._files)
        self._servers.start()
        secret: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": download_servers.SECRET, "namespace": NAMESPACE},
            "stringData": {"id": download_servers.USER, "key": download_servers.KEY},
        }
        self.sandbox.api.create(f"/api/v1/namespaces/{NAMESPACE}/secrets", secret)
        self._node = LocalNode(self.sandbox.api, NAMESPACE, self._files / "pods")
        self._node.start()

    def submit_downloads(self, directory: Path) -> list[str]:
        """Submit workloads that download, with the addresses of the demo's servers.

        Raises:
            Failure: the command failed.
        """
        return self.submit(directory, changes=self._servers.changes if self._servers else ())

    def explain(self, name: str) -> str:
        """What `kaiwo why` says of a workload.

        Raises:
            Failure: the command failed.
        """
        return subcommands.run(("why", "-n", NAMESPACE, name), self._variables).stdout

    def list_workloads(self) -> list[Object]:
        """All live workloads."""
        return [item for path in _WORKLOADS for item in self.sandbox.api.get(path)["items"]]

    def stop_downloads(self) -> None:
        """Stop the download servers and the local node."""
        if self._node is not None:
            self._node.stop()
            self._node = None
        if self._servers is not None:
            self._servers.close()
            self._servers = None

    def remove(self) -> None:
        """Stop everything and remove all files. Ctrl-C does not interrupt it.

        Raises:
            SandboxError: a program does not end.
        """
        previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            self.stop_downloads()
            self.sandbox.down()
        finally:
            signal.signal(signal.SIGINT, previous)
