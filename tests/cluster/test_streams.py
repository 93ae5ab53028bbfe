"""Logs, commands and connections through a real API server, to a kubelet whose streams are real.

kwok simulates a node for each test and serves its kubelet's streams with Kubernetes' own code: logs from
files as container runtimes write them, commands as processes of this machine, ports to a server of the test.
"""

from __future__ import annotations

import asyncio
import subprocess
from contextlib import aclosing, suppress
from datetime import UTC, datetime
from importlib import resources
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from kaiwo.api.crds import KAIWO_JOB
from kaiwo.client import logs
from kaiwo.engine.errors import ApiError, NotFound, StreamFailed
from kaiwo.engine.exec_session import STDERR, STDOUT
from kaiwo.engine.resource import NODE, POD
from kaiwo.engine.streaming import open_exec, open_port
from kaiwo_sandbox import nodes
from kaiwo_sandbox import state as sandbox_state
from kaiwo_sandbox.ports import free_ports

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Object

pytestmark = pytest.mark.cluster

OPEN_PORT, CLOSED_PORT = 80, 9
CONTAINERS = ("main", "side")
ANNOTATION = "kwok.x-k8s.io/node"


class Kubelet:
    """A node with one workload; its containers' logs are files, their commands run on this machine.

    Attributes:
        workload: a KaiwoJob that no operator observes.
    """

    def __init__(self, client: Client, namespace: str, directory: Path, workload: Object) -> None:
        self.client = client
        self.namespace = namespace
        self.workload = workload
        self._directory = directory

    def log_file(self, container: str = "main") -> Path:
        """The file of a container's log."""
        return self._directory / f"{container}.log"

    def write(self, *texts: str, container: str = "main") -> None:
        """Let a container write lines."""
        with self.log_file(container).open("a") as file:
            for text in texts:
                file.write(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%f000Z} stdout F {text}\n")

    async def run_pod(self, name: str, containers: tuple[str, ...] = ("main",)) -> Object:
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
                "containers": [{"name": each, "image": "registry.example/x"} for each in containers],
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
    writer.close()


@pytest.fixture
async def kubelet(
    control_plane: Any, client: Client, namespace: str, tmp_path: Path
) -> AsyncIterator[Kubelet]:
    """A node of the namespace's name, simulated by a kwok of its own."""
    server = await asyncio.start_server(_shout, "127.0.0.1", 0)
    (tmp_path / "kwok.yaml").write_text(_configuration(tmp_path, server.sockets[0].getsockname()[1]))
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
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        machine = nodes.node(namespace)
        machine["metadata"]["annotations"] = {ANNOTATION: namespace}
        await asyncio.to_thread(control_plane.add_node, machine)
        for name in CONTAINERS:
            (tmp_path / f"{name}.log").touch()
        yield Kubelet(client, namespace, tmp_path, await client.create(KAIWO_JOB, job(namespace)))
    finally:
        with suppress(ApiError):
            await client.delete(NODE, None, namespace)
        simulator.kill()
        simulator.wait()
        server.close()


def job(namespace: str) -> Object:
    """A KaiwoJob."""
    return {
        "apiVersion": KAIWO_JOB.api_version,
        "kind": "KaiwoJob",
        "metadata": {"name": "train", "namespace": namespace},
        "spec": {"image": "registry.example/train:1"},
    }


async def test_logs_are_followed_to_the_end_of_the_workload(kubelet: Kubelet) -> None:
    """Lines from before and after the start come once, and the end is found though the stream stays open."""
    kubelet.write("one", "two")
    await kubelet.run_pod("train-0")
    got: list[logs.LogLine] = []

    async def follow() -> None:
        async with aclosing(logs.follow(kubelet.client, kubelet.workload)) as lines:
            async for line in lines:
                got.append(line)

    task = asyncio.ensure_future(follow())
    async with asyncio.timeout(60):
        while len(got) < 2:
            await asyncio.sleep(0.05)
        kubelet.write("three")
        while len(got) < 3:
            await asyncio.sleep(0.05)
        await kubelet.end_pod("train-0")
        await kubelet.finish()
        await task
    assert [(line.pod, line.container, line.text) for line in got] == [
        ("train-0", "main", b"one"),
        ("train-0", "main", b"two"),
        ("train-0", "main", b"three"),
    ]


async def test_a_command_has_input_and_output(kubelet: Kubelet) -> None:
    """Both outputs come back. kwok tells a command neither that its input ended, nor us its exit code."""
    await kubelet.run_pod("train-0")
    script = "echo $WHERE; head -n 20000; echo oops >&2"
    command = ["sh", "-c", script]
    session = await open_exec(
        kubelet.client, kubelet.namespace, "train-0", command, container="main", stdin=True
    )
    await session.write(b"input\n" * 20_000)
    output = {STDOUT: b"", STDERR: b""}
    async with asyncio.timeout(30):
        while (piece := await session.read()) is not None:
            output[piece[0]] += piece[1]
    await session.close()
    assert session.exit_code == 0
    assert output == {STDOUT: b"pod\n" + b"input\n" * 20_000, STDERR: b"oops\n"}


async def test_a_command_in_a_terminal_sees_its_size(kubelet: Kubelet) -> None:
    """The size reaches the remote terminal, and changes."""
    await kubelet.run_pod("train-0")
    command = ["sh", "-c", "read go; stty size; read go; stty size"]
    session = await open_exec(
        kubelet.client, kubelet.namespace, "train-0", command, container="main", stdin=True, tty=True
    )
    output = b""
    async with asyncio.timeout(30):
        for columns, rows in ((132, 43), (80, 24)):
            await session.resize(columns, rows)
            await asyncio.sleep(0.5)
            await session.write(b"go\n")
            while f"{rows} {columns}".encode() not in output:
                piece = await session.read()
                assert piece is not None, output
                output += piece[1]
        while await session.read() is not None:
            pass
    await session.close()
    assert session.exit_code == 0


async def test_a_program_that_is_not_there_fails(kubelet: Kubelet) -> None:
    """The kubelet's reason comes back."""
    await kubelet.run_pod("train-0")
    session = await open_exec(
        kubelet.client, kubelet.namespace, "train-0", ["no-such-program"], container="main"
    )
    with pytest.raises(ApiError, match="no-such-program"):
        await session.read()
    await session.close()


async def test_a_pod_that_is_not_there_is_not_found(kubelet: Kubelet) -> None:
    """A rejected upgrade has the API server's own words."""
    with pytest.raises(NotFound, match='pods "nope" not found'):
        await open_exec(kubelet.client, kubelet.namespace, "nope", ["true"], container="main")
    with pytest.raises(NotFound, match='pods "nope" not found'):
        await open_port(kubelet.client, kubelet.namespace, "nope", OPEN_PORT)


async def test_a_port_carries_bytes_both_ways(kubelet: Kubelet) -> None:
    """Many lines, and the end when the pod closes."""
    await kubelet.run_pod("train-0")
    session = await open_port(kubelet.client, kubelet.namespace, "train-0", OPEN_PORT)
    await session.write(b"hello\n" * 10_000)
    got = b""
    async with asyncio.timeout(30):
        while len(got) < 60_000:
            got += await session.read() or b""
    await session.close()
    assert got == b"HELLO\n" * 10_000


async def test_a_port_on_which_nothing_listens_fails(kubelet: Kubelet) -> None:
    """The kubelet's reason comes back."""
    await kubelet.run_pod("train-0")
    session = await open_port(kubelet.client, kubelet.namespace, "train-0", CLOSED_PORT)
    with pytest.raises(StreamFailed, match="refused"):
        await session.read()
    await session.close()
