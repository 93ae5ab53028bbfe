"""A node whose streams are real: fixtures for logs, commands and ports through the API server.

kwok simulates a node for each test and serves its kubelet's streams with Kubernetes' own code: logs from
files as container runtimes write them, commands as processes of this machine, ports to a server of the test.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from contextlib import suppress
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from kaiwo.api.crds import KAIWO_JOB
from kaiwo.engine.errors import ApiError, NotFound
from kaiwo.engine.resource import NODE, POD
from kaiwo.testing.stream_server import stream_server
from kaiwo_sandbox import nodes
from kaiwo_sandbox import state as sandbox_state
from kaiwo_sandbox.ports import free_ports

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Object

OPEN_PORT, CLOSED_PORT = 80, 9
CONTAINERS = ("main", "side")
ANNOTATION = "kwok.x-k8s.io/node"


class Kubelet:
    """A node with one workload; its containers' logs are files, their commands run on this machine.

    Attributes:
        workload: a KaiwoJob that no operator observes.
        open_port: a port on which lines are answered in capitals.
        closed_port: a port on which nothing listens.
    """

    open_port, closed_port = OPEN_PORT, CLOSED_PORT

    def __init__(
        self,
        client: Client,
        namespace: str,
        directory: Path,
        workload: Object,
        kubeconfig: Path,
        simulator: int,
    ) -> None:
        self.client = client
        self.kubeconfig = kubeconfig
        self.namespace = namespace
        self.workload = workload
        self._directory = directory
        self._simulator = simulator
        self._started: list[asyncio.subprocess.Process] = []

    def log_file(self, container: str = "main") -> Path:
        """The file of a container's log."""
        return self._directory / f"{container}.log"

    def restart(self, container: str = "main") -> None:
        """Let the container's log be that of its previous instance."""
        self.log_file(container).rename(self.log_file(f"{container}.previous"))
        self.log_file(container).touch()

    def rotate(self, container: str = "main") -> None:
        """Rotate a container's log as kubelets do."""
        self.log_file(container).rename(self.log_file(f"{container}.1"))
        self.log_file(container).touch()

    async def watches_logs(self) -> None:
        """Wait until the node watches the folder of the logs.

        It does from the first end of a followed file on, and does not see a rotation before that.
        """
        async with asyncio.timeout(60):
            while not self._watches_logs():
                await asyncio.sleep(0.05)

    def _watches_logs(self) -> bool:
        """Whether the node's process has an inotify watch of the folder (proc(5), fdinfo)."""
        watched = f"ino:{self._directory.stat().st_ino:x} "
        for file in Path(f"/proc/{self._simulator}/fdinfo").iterdir():
            with suppress(OSError):  # closed meanwhile
                if watched in file.read_text():
                    return True
        return False

    def write(self, *texts: str, container: str = "main") -> None:
        """Let a container write lines."""
        with self.log_file(container).open("a") as file:
            for text in texts:
                file.write(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%f000Z} stdout F {text}\n")

    async def start(self, *args: str, **streams: Any) -> asyncio.subprocess.Process:
        """Run ``kaiwo``, with pipes unless other streams are given."""
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), asyncio.subprocess.PIPE)
        process = await asyncio.create_subprocess_exec(
            str(Path(sys.executable).with_name("kaiwo")),
            *("--kubeconfig", str(self.kubeconfig), "-n", self.namespace),
            *args,
            **{**pipes, **streams},
        )
        self._started.append(process)
        return process

    async def close(self) -> None:
        """End what a failed test left running."""
        for process in self._started:
            if process.returncode is None:
                process.kill()
                await process.communicate()

    async def kaiwo(self, *args: str, stdin: bytes = b"") -> tuple[int | None, str, str]:
        """Run ``kaiwo`` to its end: exit code, standard output and error."""
        async with asyncio.timeout(60):
            process = await self.start(*args)
            out, err = await process.communicate(stdin)
        return process.returncode, out.decode(), err.decode()

    def add_program(self, name: str, script: str) -> None:
        """Put a program into the image."""
        path = self._directory / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    async def run_pod(
        self, name: str, containers: tuple[str, ...] = ("main",), resources: Object | None = None
    ) -> Object:
        """Run a pod of the workload, and wait until it runs."""
        metadata = self.workload["metadata"]
        pod: Object = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": self.namespace,
                "labels": {"kaiwo.silogen.ai/run-id": metadata["uid"]},
                "annotations": {"kaiwo-sandbox/forever": "true"},
            },
            "spec": {
                "nodeName": self.namespace,
                "restartPolicy": "Never",
                "containers": [
                    {"name": each, "image": "registry.example/x", "resources": resources or {}}
                    for each in containers
                ],
            },
        }
        await self.client.create(POD, pod)
        async with asyncio.timeout(60):
            while True:
                found = await self.client.get(POD, self.namespace, name)
                if found["status"].get("phase") not in ("", "Pending", None):
                    return found
                await asyncio.sleep(0.1)

    async def end_pod(self, name: str) -> None:
        """Let a pod end well."""
        patch = {"metadata": {"annotations": {"kaiwo-sandbox/forever": None, "kaiwo-sandbox/run-time": "0s"}}}
        await self.client.merge_patch(POD, self.namespace, name, patch)

    async def delete_pod(self, name: str) -> None:
        """Delete a pod, and wait until it is gone."""
        await self.client.delete(POD, self.namespace, name, grace_period=0)
        async with asyncio.timeout(30):
            with suppress(NotFound):
                while await self.client.get(POD, self.namespace, name):
                    await asyncio.sleep(0.1)

    async def finish(self, word: str = "COMPLETE") -> None:
        """Set the status of the workload."""
        status = {"status": word}
        await self.client.merge_patch(
            KAIWO_JOB, self.namespace, "train", {"status": status}, subresource="status"
        )


def _rule(kind: str, **spec: Any) -> Object:
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": kind,
        "metadata": {"name": "streams"},
        "spec": spec,
    }


def _configuration(directory: Path, port: int) -> str:
    """The configuration of kwok: the stages of all fake nodes, and the streams of this one."""
    stages = resources.files("kaiwo_sandbox").joinpath("stages.yaml").read_text(encoding="utf-8")
    files = [
        {
            "containers": [name],
            "logsFile": str(directory / f"{name}.log"),
            "previousLogsFile": str(directory / f"{name}.previous.log"),
        }
        for name in CONTAINERS
    ]
    command = {"local": {"workDir": str(directory), "envs": [{"name": "WHERE", "value": "pod"}]}}
    ports = [
        {"ports": [OPEN_PORT], "target": {"address": "127.0.0.1", "port": port}},
        {"ports": [CLOSED_PORT], "target": {"address": "127.0.0.1", "port": 1}},
    ]
    rules = (
        _rule("ClusterLogs", logs=files),
        _rule("ClusterExec", execs=[command]),
        _rule("ClusterPortForward", forwards=ports),
    )
    return stages + "".join(f"---\n{yaml.safe_dump(rule)}" for rule in rules)


async def _shout(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer each line in capitals."""
    with suppress(ConnectionError):
        while line := await reader.readline():
            writer.write(line.upper())
            await writer.drain()


@pytest.fixture
async def kubelet(
    control_plane: Any, client: Client, namespace: str, tmp_path: Path
) -> AsyncIterator[Kubelet]:
    """A node of the namespace's name, simulated by a kwok of its own."""
    async with stream_server(_shout) as port:
        (tmp_path / "kwok.yaml").write_text(_configuration(tmp_path, port))
        state = sandbox_state.load(control_plane.directory)
        [node_port] = free_ports(1)
        pki = control_plane.directory / "pki"
        simulator = subprocess.Popen(  # noqa: ASYNC220  the sandbox's own program; ends with the test
            [
                state.programs["kwok"],
                f"--kubeconfig={control_plane.kubeconfig}",
                f"--config={tmp_path / 'kwok.yaml'}",
                f"--manage-nodes-with-annotation-selector={ANNOTATION}={namespace}",
                "--node-ip=127.0.0.1",
                f"--node-port={node_port}",
                f"--server-address=127.0.0.1:{node_port}",
                f"--tls-cert-file={pki / 'kubelet.crt'}",
                f"--tls-private-key-file={pki / 'kubelet.key'}",
                "--v=WARN",
            ],
            env={**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            machine = nodes.node(namespace)
            machine["metadata"]["annotations"] = {ANNOTATION: namespace}
            await asyncio.to_thread(control_plane.add_node, machine)
            for name in CONTAINERS:
                (tmp_path / f"{name}.log").touch()
            workload = await client.create(KAIWO_JOB, job(namespace))
            kubelet = Kubelet(client, namespace, tmp_path, workload, control_plane.kubeconfig, simulator.pid)
            try:
                yield kubelet
            finally:
                await kubelet.close()
        finally:
            with suppress(ApiError):
                await client.delete(NODE, None, namespace)
            simulator.kill()
            simulator.wait()


def job(namespace: str) -> Object:
    """A KaiwoJob."""
    return {
        "apiVersion": KAIWO_JOB.api_version,
        "kind": "KaiwoJob",
        "metadata": {"name": "train", "namespace": namespace},
        "spec": {"image": "registry.example/train:1"},
    }
