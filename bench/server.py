"""The control plane of the benchmark: etcd and kube-apiserver with the sandbox's binaries and flags.

Nothing else runs on it. The controller-manager is left out on purpose: it would turn every Job into a Pod,
and those writes would share the machine's cores with what is measured, more of them the faster the subject
is. So floor and operator meet the same API server, alone with the load generator, and a Job is counted when
it exists.
"""

from __future__ import annotations

import http.client
import json
import re
import secrets
import shutil
import ssl
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

import yaml

from bench.access import OBSERVER, USERS, Access
from bench.audit import POLICY, AuditLog
from bench.process import Program, until
from kaiwo_sandbox import certs, control_plane
from kaiwo_sandbox.binaries import ensure
from kaiwo_sandbox.ports import LOOPBACK, free_ports

if TYPE_CHECKING:
    from types import TracebackType

NAMESPACES = ("team-a", "team-b", "team-c", "team-d")
_LOG_MEGABYTES = 10_000  # the log is read as it grows and must not begin anew
_START_SECONDS = 60.0
_CRD_SECONDS = 60.0
_DELETIONS = 30
"""Requests to empty one collection, at most."""

_REQUEST_SECONDS = 300.0  # deleting thousands of objects is one request
_GC_SECONDS = 125.0
_HEAP_TARGET = re.compile(rb"^go_memstats_next_gc_bytes (\S+)$", re.MULTILINE)


class Server:
    """A running API server with Kaiwo's CRDs, a few namespaces and GPU nodes. Use as a context manager."""

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="kaiwo-bench-"))
        self._programs = ExitStack()
        self._layout = control_plane.Layout(
            self.directory,
            dict(zip(control_plane.PORT_NAMES, free_ports(len(control_plane.PORT_NAMES)), strict=True)),
        )
        self.url = self._layout.url
        self.etcd_url = f"http://{LOOPBACK}:{self._layout.ports['etcd']}"
        self._tokens = {user: secrets.token_hex(16) for user in USERS}

    def __enter__(self) -> Self:
        """Start everything; when that fails, nothing stays."""
        try:
            self._start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop everything and delete its files."""
        self._programs.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _start(self) -> None:
        shutil.copytree(certs.ensure(), self._layout.pki)
        self.write_access(self.directory / "tokens.csv")
        binaries = ensure(progress=say)
        self.run("etcd", control_plane.etcd(binaries["etcd"], self._layout))
        server = self.run(
            "kube-apiserver",
            [*control_plane.apiserver(binaries["kube-apiserver"], self._layout), *self.audited(POLICY)],
        )
        until(self.ready, _START_SECONDS, server, "ready")
        self.api_server = server
        self.audit = AuditLog(self.directory / "audit.log")
        self._furnish()

    def write_access(self, tokens: Path) -> None:
        """Write how each program reaches this server, and add its user to the file of tokens."""
        lines = [f'{token},{user},{user},"{certs.ADMIN_GROUP}"\n' for user, token in self._tokens.items()]
        with tokens.open("a") as file:
            file.write("".join(lines))
        for user in USERS:
            self.access(user).write(self.access_file(user))
            self._write_kubeconfig(user)

    def audited(self, policy: str) -> list[str]:
        """Flags of an API server that logs what a policy selects."""
        (self.directory / "audit.yaml").write_text(policy)
        return [
            f"--audit-policy-file={self.directory / 'audit.yaml'}",
            f"--audit-log-path={self.directory / 'audit.log'}",
            "--audit-log-mode=blocking",
            f"--audit-log-maxsize={_LOG_MEGABYTES}",
        ]

    def run(self, name: str, command: list[str]) -> Program:
        """Start a program that ends with this server."""
        return self._programs.enter_context(Program(command, self.directory / f"{name}.log"))

    def ready(self) -> bool:
        """Whether the API server answers."""
        try:
            self.request("GET", "/readyz")
        except OSError:
            return False
        return True

    def _furnish(self) -> None:
        """CRDs, namespaces and nodes: four of eight GPUs, so that a GPU check has something to read."""
        for number in range(4):
            self.create("/api/v1/nodes", node(f"gpu-{number}"))
        self.install()

    def install(self) -> None:
        """Kaiwo's CRDs, served, and the namespaces.

        Raises:
            RuntimeError: a CRD is not served in time.
        """
        names = []
        for crd in rendered_crds():
            self.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
            names.append(
                (crd["spec"]["group"], crd["spec"]["versions"][0]["name"], crd["spec"]["names"]["plural"])
            )
        for namespace in NAMESPACES:
            self.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
        deadline = time.monotonic() + _CRD_SECONDS
        for group, version, plural in names:
            while not self._served(f"/apis/{group}/{version}/{plural}"):
                if time.monotonic() > deadline:
                    raise RuntimeError(f"{plural}.{group} is not served after {_CRD_SECONDS:.0f} s")
                time.sleep(0.2)

    def _served(self, path: str) -> bool:
        try:
            self.request("GET", path)
        except OSError:
            return False
        return True

    def request(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """One request for setting things up or clearing them away; a connection of its own each time.

        Returns:
            The answer, None where it is no JSON.

        Raises:
            OSError: no connection, or an answer that is no success.
        """
        text = self._answer(method, path, body)
        return json.loads(text) if text[:1] in {b"{", b"["} else None

    def heap_target(self) -> float:
        """The heap that the API server's garbage collector lets it grow to, in bytes, once it is at rest.

        With Go's default of GOGC it is twice what is live. Go collects every two minutes at the latest.

        Raises:
            OSError: no connection, or an answer that is no success.
        """
        time.sleep(_GC_SECONDS)
        found = _HEAP_TARGET.search(self._answer("GET", "/metrics"))
        assert found is not None  # noqa: S101  every program of Go has it
        return float(found[1])

    def _answer(self, method: str, path: str, body: dict[str, Any] | None = None) -> bytes:
        access = self.access(OBSERVER)
        context = ssl.create_default_context(cafile=access.ca_file)
        host = urlsplit(self.url).netloc
        with closing(
            http.client.HTTPSConnection(host, context=context, timeout=_REQUEST_SECONDS)
        ) as connection:
            headers = {"Authorization": f"Bearer {access.token}", "Content-Type": "application/json"}
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            text = answer.read()
        if answer.status >= 300:
            raise OSError(f"{method} {path}: {answer.status} {text[:400].decode(errors='replace')}")
        return text

    def create(self, path: str, body: dict[str, Any]) -> None:
        """POST `body` to the collection `path`."""
        self.request("POST", path, body)

    def access(self, user: str) -> Access:
        """How `user` reaches this server."""
        return Access(self.url, str(self._layout.pki / "ca.crt"), user, self._tokens[user])

    def access_file(self, user: str) -> Path:
        """The file with :meth:`access` for a program of the benchmark."""
        return self.directory / f"{user}.json"

    def kubeconfig(self, user: str) -> Path:
        """The same as a kubeconfig, for the operator."""
        return self.directory / f"{user}.kubeconfig"

    def _write_kubeconfig(self, user: str) -> None:
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": "bench",
                    "cluster": {
                        "server": self.url,
                        "certificate-authority": str(self._layout.pki / "ca.crt"),
                    },
                }
            ],
            "users": [{"name": user, "user": {"token": self._tokens[user]}}],
            "contexts": [
                {"name": "bench", "context": {"cluster": "bench", "user": user, "namespace": "default"}}
            ],
            "current-context": "bench",
        }
        path = self.kubeconfig(user)
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(config, sort_keys=False))

    def count(self, path: str) -> int:
        """Objects in the collection `path` over all namespaces, without fetching them."""
        answer = self.request("GET", f"{path}?limit=1")
        return len(answer["items"]) + int(answer["metadata"].get("remainingItemCount", 0))

    def clear(self) -> None:
        """Delete all KaiwoJobs and Jobs, so that every measurement begins with an empty server."""
        for namespace in NAMESPACES:
            for path in (
                "/apis/kaiwo.silogen.ai/v1alpha1/namespaces/{}/kaiwojobs",
                "/apis/batch/v1/namespaces/{}/jobs",
            ):
                self._delete_all(path.format(namespace))
        self.audit.read()

    def _delete_all(self, path: str) -> None:
        """Delete a collection; of 10,000 objects one request deletes what it can within a minute."""
        for left in reversed(range(_DELETIONS)):
            try:
                self.request("DELETE", path, {"propagationPolicy": "Background"})
            except OSError as error:
                if f"{path}: 504 " not in str(error) or not left:
                    raise
            else:
                return


def say(line: str) -> None:
    """Report a long step."""
    print(line, file=sys.stderr, flush=True)


def node(name: str) -> dict[str, Any]:
    """A Ready node with eight AMD GPUs."""
    capacity = {"cpu": "96", "memory": "1Ti", "pods": "110", "amd.com/gpu": "8"}
    ready = {"type": "Ready", "status": "True", "reason": "Bench", "message": "stays as it is"}
    return {
        "metadata": {"name": name, "labels": {"amd.com/gpu.product-name": "MI300X"}},
        "status": {"capacity": capacity, "allocatable": capacity, "conditions": [ready]},
    }


def rendered_crds() -> list[dict[str, Any]]:
    """Kaiwo's CRDs as ``kaiwo manifests crds`` prints them with the installed plugins."""
    kaiwo = Path(sys.executable).with_name("kaiwo")
    printed = subprocess.run([kaiwo, "manifests", "crds"], check=True, capture_output=True, text=True).stdout
    return [document for document in yaml.safe_load_all(printed) if document]
