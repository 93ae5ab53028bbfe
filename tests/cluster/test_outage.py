"""The API server goes away and comes back."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.api.crds import KAIWO_JOB
from kaiwo.engine.errors import EngineError
from kaiwo.engine.resource import JOB
from kaiwo.testing.operator import until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from kaiwo.engine.resource import Object
    from kaiwo.testing.fault_proxy import FaultProxy
    from kaiwo.testing.operator import OperatorProcess

    Start = Callable[..., Awaitable[OperatorProcess]]

pytestmark = pytest.mark.cluster

COUNT = 40


async def test_an_api_server_restarted_under_load_loses_no_workload(
    operator: Start, lab: Any, control_plane: Any
) -> None:
    """Workloads created before, during and after the restart all run exactly once."""
    process = await operator(leader_election=True)

    async def submit(number: int) -> None:
        while True:
            try:
                await lab.submit(f"load-{number:03}")
            except EngineError as error:
                if "already exists" in str(error):
                    return
                await asyncio.sleep(1)
            else:
                return

    async def load() -> None:
        for number in range(COUNT):
            await submit(number)
            await asyncio.sleep(0.1)

    loading = asyncio.create_task(load())
    await asyncio.sleep(1)
    await asyncio.to_thread(control_plane.restart_api_server)
    await loading
    for number in range(COUNT):
        await lab.reaches(f"load-{number:03}", "COMPLETE")

    names = sorted(job["metadata"]["name"] for job in await lab.jobs())
    assert names == [f"load-{number:03}" for number in range(COUNT)]
    assert (await asyncio.to_thread(process.readyz_when_up))[0] == 200


async def test_an_operator_started_before_its_api_server_waits_for_it(
    operator: Start, lab: Any, proxy: FaultProxy, tmp_path: Path
) -> None:
    """No crash loop while the API server is away; work begins when it is there."""
    proxy.answer(503, times=None)
    process = await operator(kubeconfig=proxy.write_kubeconfig(tmp_path / "kubeconfig"), ready=False)
    await asyncio.to_thread(process.wait_log, "listing again|cannot ask")
    assert (await asyncio.to_thread(process.readyz))[0] == 503
    proxy.clear()
    await asyncio.to_thread(process.wait_ready)
    await lab.submit("patient")
    await lab.reaches("patient", "COMPLETE")
    assert (await asyncio.to_thread(process.readyz_when_up))[0] == 200


async def test_missed_watch_events_are_recovered(
    operator: Start, lab: Any, proxy: FaultProxy, tmp_path: Path
) -> None:
    """A watch that loses events, repeats them and expires delays a workload, and no more."""
    await operator(kubeconfig=proxy.write_kubeconfig(tmp_path / "kubeconfig"))
    proxy.duplicate_event("MODIFIED", path="/jobs", times=5)
    proxy.drop_event("MODIFIED", path="/pods", times=3)
    for number in range(5):
        await lab.submit(f"lossy-{number}", gpus=1, pods={"kaiwo-sandbox/run-time": "4s"})
    await asyncio.sleep(2)
    proxy.expire_stream(path="/jobs")
    await proxy.cut_watches()
    for number in range(5):
        await lab.reaches(f"lossy-{number}", "COMPLETE")
    assert len(await lab.jobs()) == 5


async def test_a_conflict_about_a_workload_that_has_not_changed_is_tried_again(
    operator: Start, lab: Any, proxy: FaultProxy, tmp_path: Path
) -> None:
    """As a proxy or an overloaded API server may answer: no event follows, and none is needed."""
    await operator(kubeconfig=proxy.write_kubeconfig(tmp_path / "kubeconfig"))
    fault = proxy.answer(409, times=1, method="PATCH", path="/kaiwojobs/same/status$")
    await lab.submit("same")
    await fault.wait(30)
    await lab.reaches("same", "COMPLETE")


async def test_a_status_without_answer_and_event_does_not_end_the_reports(
    operator: Start, lab: Any, proxy: FaultProxy, tmp_path: Path
) -> None:
    """The last change of its Job comes while the operator has not read the workload again."""
    await operator(kubeconfig=proxy.write_kubeconfig(tmp_path / "kubeconfig"))
    path = f"/namespaces/{lab.namespace}/kaiwojobs/unheard"
    faults = [
        proxy.lose_answer(method="PATCH", path=f"{path}/status$"),
        proxy.drop_event("MODIFIED", path="/kaiwojobs"),
        proxy.answer(503, times=None, method="GET", path=f"{path}$"),
    ]
    await lab.submit("unheard")
    for fault in faults:
        await fault.wait(30)
    await until(lab.client, JOB, lab.namespace, "unheard", _is_complete)
    await asyncio.sleep(3)  # until the operator has heard of it, too
    proxy.clear()
    await lab.reaches("unheard", "COMPLETE")


def _is_complete(job: Object | None) -> bool:
    conditions = (job or {}).get("status", {}).get("conditions", [])
    return any((item["type"], item["status"]) == ("Complete", "True") for item in conditions)


async def test_nothing_is_written_for_a_workload_whose_deletion_was_not_seen(
    operator: Start, lab: Any, proxy: FaultProxy, tmp_path: Path
) -> None:
    """The operator asks for it, more and more rarely, and makes nothing that would be deleted at once."""
    await operator(kubeconfig=proxy.write_kubeconfig(tmp_path / "kubeconfig"))
    await lab.submit("unseen", pods={"kaiwo-sandbox/forever": "true"})
    await lab.reaches("unseen", "RUNNING")
    fault = proxy.drop_event("DELETED", path="/kaiwojobs")
    await lab.client.delete(KAIWO_JOB, lab.namespace, "unseen", propagation="Background")
    await fault.wait(30)
    path = f"/namespaces/{lab.namespace}/kaiwojobs/unseen"
    async with asyncio.timeout(60):
        while not any(each.method == "GET" and each.path.endswith(path) for each in proxy.records):
            await asyncio.sleep(0.2)
    before = len(proxy.records)
    await asyncio.sleep(8)
    asked = [each for each in proxy.records[before:] if each.path.endswith(path)]
    assert {each.method for each in asked} == {"GET"}
    assert len(asked) <= 4
    inside = f"/namespaces/{lab.namespace}/"
    written = [each.path for each in proxy.writes(since=before) if inside in each.path]
    assert [each for each in written if "/events" not in each] == []
