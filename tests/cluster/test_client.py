"""The Python client against a real API server, with a real operator."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from kaiwo.client import AsyncClient, Client
from kaiwo.client.errors import (
    InvalidArgument,
    InvalidManifest,
    WaitTimeout,
    WorkloadExists,
    WorkloadFailed,
    WorkloadNotFound,
)
from kaiwo.client.kinds import KAIWO_JOB

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from kaiwo.testing.fault_proxy import FaultProxy
    from kaiwo.testing.operator import OperatorProcess

    Operator = Callable[..., Awaitable[OperatorProcess]]

pytestmark = pytest.mark.cluster

NOTEBOOK = Path(__file__).parents[2] / "examples" / "notebook" / "train_and_watch.py"


def job(name: str, *, seconds: str = "1s", **spec: Any) -> dict[str, Any]:
    """A job whose fake pod runs so long."""
    return {
        "kind": "KaiwoJob",
        "metadata": {"name": name, "annotations": {"kaiwo-sandbox/run-time": seconds}},
        "spec": {"image": "registry.example/train:1", "user": "jane", **spec},
    }


def write_kubeconfig(source: str, target: Path, namespace: str) -> None:
    """A kubeconfig whose contexts have this namespace."""
    kubeconfig = yaml.safe_load(Path(source).read_text(encoding="utf-8"))
    for context in kubeconfig["contexts"]:
        context["context"]["namespace"] = namespace
    target.write_text(yaml.safe_dump(kubeconfig), encoding="utf-8")


@pytest.fixture
def client(
    control_plane: Any, crds: None, namespace: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> Iterator[Client]:
    """A client for the test's namespace, without a kaiwoconfig.yaml."""
    del crds
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("KAIWOCONFIG", raising=False)
    with Client(kubeconfig=control_plane.kubeconfig, namespace=namespace) as opened:
        yield opened


async def test_a_job_is_submitted_waited_for_listed_and_deleted(client: Client, operator: Operator) -> None:
    """The whole way, in a running event loop as in a notebook."""
    await operator()
    (sent,) = client.submit(job("train", gpus=0))
    assert (sent.change, sent.workload.label) == ("created", "job/train")
    seen: list[str] = []
    (done,) = client.wait("train", timeout=90, on_change=lambda one: seen.append(one.status))
    assert done.status == "COMPLETE"
    assert done.uid == sent.workload.uid
    assert seen[-1] == "COMPLETE"
    assert [one.name for one in client.list(statuses=("COMPLETE",))] == ["train"]
    assert client.list("service") == ()
    assert client.get("job/train").completed_at is not None
    client.delete("train")
    with pytest.raises(WorkloadNotFound, match='job or service "train" not found in namespace') as missing:
        client.get("train")
    assert missing.value.exit_code == 3


async def test_many_coroutines_share_one_client(
    control_plane: Any, crds: None, namespace: str, operator: Operator
) -> None:
    """A pipeline submits and waits for several at once."""
    del crds
    await operator()
    async with AsyncClient(kubeconfig=control_plane.kubeconfig, namespace=namespace) as client:
        await asyncio.gather(*(client.submit(job(f"part-{number}")) for number in range(5)))
        done = await asyncio.gather(*(client.wait(f"part-{number}", timeout=90) for number in range(5)))
        assert [found[0].status for found in done] == ["COMPLETE"] * 5


def test_a_wait_that_lasts_too_long_names_what_is_missing(client: Client) -> None:
    """No operator runs here."""
    client.submit(job("train"))
    began = time.monotonic()
    with pytest.raises(WaitTimeout, match=r"job/train \(not yet observed by an operator\)"):
        client.wait("train", timeout=1.0)
    assert time.monotonic() - began < 10


def test_a_deletion_ends_a_wait_through_the_watch(client: Client) -> None:
    """Nothing polls: the change arrives by itself."""
    client.submit(job("train"))
    timer = threading.Timer(1.0, client.delete, ["train"], {"wait": False})
    timer.start()
    began = time.monotonic()
    with pytest.raises(WorkloadFailed, match="job/train was deleted"):
        client.wait("train")
    timer.join()
    assert time.monotonic() - began < 20


async def test_a_wait_goes_on_over_an_api_server_that_does_not_answer(
    proxy: FaultProxy, client: Client, namespace: str, tmp_path: Path
) -> None:
    """Watches are cut and lists fail for a while, as when the API server restarts; nobody is told."""
    client.submit(job("train"))
    kubeconfig = proxy.write_kubeconfig(tmp_path / "proxied")
    async with AsyncClient(kubeconfig=kubeconfig, namespace=namespace) as behind:
        waiting = asyncio.ensure_future(behind.wait("train", until=("RUNNING",), timeout=60))
        await proxy.cut_watches()
        proxy.answer(503, method="GET", path="/kaiwojobs", times=5)
        await proxy.cut_watches(30)
        await asyncio.to_thread(_report_running, client, namespace)
        (found,) = await waiting
    assert found.status == "RUNNING"


def _report_running(client: Client, namespace: str) -> None:
    """Write a status as the operator does."""

    async def patch() -> None:
        status = {"status": {"status": "RUNNING", "reason": "Running", "message": "it runs"}}
        await client._async.api.merge_patch(KAIWO_JOB, namespace, "train", status, subresource="status")

    client._run(patch())


def test_what_cannot_be_sent_is_an_error_of_its_own_type(client: Client) -> None:
    """A script can react to each."""
    with pytest.raises(InvalidManifest, match=r"spec\.gpus"):
        client.submit(job("train", gpus="two"))
    client.submit(job("train"))
    with pytest.raises(WorkloadExists, match="job/train belongs to user jane"):
        client.submit(job("train", user="joe"))
    assert client.submit(job("train"))[0].change == "unchanged"
    assert client.submit(job("train", gpus=1), dry_run=True)[0].change == "configured"
    assert client.get("train").gpus == 0
    with pytest.raises(InvalidArgument, match="statuses"):
        client.list(statuses="COMPLETE")


def test_a_closed_client_says_so(client: Client) -> None:
    """Closing it twice does no harm."""
    client.close()
    client.close()
    with pytest.raises(InvalidArgument, match="the client is closed"):
        client.list()


async def test_logs_queues_and_nodes_come_from_the_same_client(client: Client, operator: Operator) -> None:
    """Lines as they were written, and what the cluster has."""
    await operator()
    client.submit(job("train", seconds="1s"))
    lines = list(client.logs("train", follow=True))
    assert any(b"simulated" in line.text for line in lines)
    assert client.why("train").state == "ok"
    assert client.report(timedelta(hours=1)).scope == client.namespace
    assert any(node.gpus for node in client.nodes().items)


def test_what_is_no_port_is_rejected_before_anything_is_opened(client: Client) -> None:
    """A port forward is a context manager in both clients."""
    with pytest.raises(InvalidArgument, match='got "web"'), client.port_forward("train", "web"):
        pass
    with pytest.raises(WorkloadNotFound), client.port_forward("train", 8080):
        pass


async def test_the_example_notebook_runs(
    control_plane: Any, crds: None, namespace: str, operator: Operator, tmp_path: Path
) -> None:
    """As a script, from the first cell to the last."""
    del crds
    await operator()
    write_kubeconfig(control_plane.kubeconfig, tmp_path / "kubeconfig", namespace)
    env = {**os.environ, "KUBECONFIG": str(tmp_path / "kubeconfig"), "XDG_CONFIG_HOME": str(tmp_path)}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-W", "error", NOTEBOOK, "registry.example/train:1",
        env=env, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await asyncio.wait_for(process.communicate(), 120)
    assert (process.returncode, err) == (0, b"")
    assert b"1 files shipped" in out
    assert b"3 jobs are complete" in out
    assert b"simulated" in out
