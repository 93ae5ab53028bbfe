"""The operator killed between any two writes, and frozen while another takes over."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.api.crds import KAIWO_JOB
from kaiwo.engine.resource import JOB
from kaiwo.testing.fault_proxy import FaultProxy
from kaiwo.testing.operator import until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from kaiwo.engine.credentials import Connection
    from kaiwo.testing.operator import OperatorProcess

    Start = Callable[..., Awaitable[OperatorProcess]]

pytestmark = pytest.mark.cluster

WORKLOAD_WRITES = r"/(jobs|kaiwojobs)(/|$)"
EVENTS_OF_A_JOB = 3  # it starts, runs, completes


@pytest.mark.parametrize("lose_answer", [False, True], ids=["before", "carried-out"])
@pytest.mark.parametrize("writes", [1, 2, 3, 4])
async def test_killed_after_any_write_the_end_is_the_same(
    operator: Start, lab: Any, proxy: FaultProxy, tmp_path: Path, *, writes: int, lose_answer: bool
) -> None:
    """One Job, one run, COMPLETE: whichever write was stopped, or carried out without an answer."""
    passing = writes if lose_answer else writes - 1
    crashed = proxy.crash_after(passing, lose_answer=lose_answer, path=WORKLOAD_WRITES)
    process = await operator(kubeconfig=proxy.write_kubeconfig(tmp_path / "kubeconfig"))
    # Long enough for each of four writes: the Job, PENDING, RUNNING or STARTING, COMPLETE.
    await lab.submit("crash", gpus=1, pods={"kaiwo-sandbox/run-time": "2s"})
    await asyncio.wait_for(crashed.wait(), 30)
    await asyncio.to_thread(process.kill)
    proxy.clear()

    await asyncio.to_thread(process.start().wait_ready)
    status = await lab.reaches("crash", "COMPLETE")

    [job] = await lab.jobs()
    assert status["childUID"] == job["metadata"]["uid"]
    writes_of_jobs = {(w.method, w.code) for w in proxy.writes() if re.search("/jobs(/|$)", w.path)}
    unanswered = {("POST", 0)} if writes == 1 else set()  # perhaps several tries, none carried out twice
    created = set() if writes == 1 and lose_answer else {("POST", 201)}
    assert writes_of_jobs == unanswered | created


async def test_a_finished_job_whose_child_was_collected_does_not_run_again(operator: Start, lab: Any) -> None:
    """The Job goes by its TTL while the operator is down: the workload stays as it ended."""
    process = await operator()
    await lab.submit("once")
    await lab.reaches("once", "COMPLETE")
    await asyncio.to_thread(process.kill)
    await lab.client.delete(JOB, lab.namespace, "once", propagation="Background")
    await until(lab.client, JOB, lab.namespace, "once", lambda job: job is None)

    await asyncio.to_thread(process.start().wait_ready)
    await lab.submit("other")
    await lab.reaches("other", "COMPLETE")

    assert (await lab.client.get(KAIWO_JOB, lab.namespace, "once"))["status"]["status"] == "COMPLETE"
    assert [job["metadata"]["name"] for job in await lab.jobs()] == ["other"]


async def test_a_run_whose_end_was_not_observed_has_failed_and_is_not_repeated(
    operator: Start, lab: Any
) -> None:
    """Started, then gone while the operator was down: FAILED/ChildLost, never a second run."""
    process = await operator()
    await lab.submit("vanishes", pods={"kaiwo-sandbox/forever": "true"})
    await lab.reaches("vanishes", "RUNNING")
    await asyncio.to_thread(process.kill)
    await lab.client.delete(JOB, lab.namespace, "vanishes", propagation="Background")
    await until(lab.client, JOB, lab.namespace, "vanishes", lambda job: job is None)

    await asyncio.to_thread(process.start().wait_ready)
    await lab.reaches("vanishes", "FAILED", reason="ChildLost")
    assert await lab.jobs() == []


async def test_a_thawed_operator_writes_nothing(
    operator: Start, lab: Any, connection: Connection, tmp_path: Path
) -> None:
    """Two operators, the leader frozen until the other leads, then thawed: only the new leader writes."""
    async with FaultProxy(connection) as old_path, FaultProxy(connection) as new_path:
        old = await operator(kubeconfig=old_path.write_kubeconfig(tmp_path / "old"), leader_election=True)
        new = await operator(
            kubeconfig=new_path.write_kubeconfig(tmp_path / "new"), leader_election=True, ready=False
        )
        assert (await asyncio.to_thread(new.readyz_when_up))[0] == 200
        await lab.submit("first")
        await lab.reaches("first", "COMPLETE")
        assert new_path.writes() == []

        # An Event half sent would go out whole after the thaw; here the leader is frozen between requests.
        while sum(r.path.endswith("/events") for r in old_path.records) < EVENTS_OF_A_JOB:
            await asyncio.sleep(0.3)
        logged = len(old.lines)
        old.freeze()
        await lab.submit("second", pods={"kaiwo-sandbox/run-time": "2s"})
        await asyncio.to_thread(new.wait_ready, 40)
        await lab.reaches("second", "STARTING", "RUNNING", "COMPLETE")
        before = len(old_path.records)
        assert len(old.lines) == logged
        old.thaw()
        await asyncio.to_thread(old.wait_log, "this process does not lead any more", 30, since=logged)
        await lab.submit("third")
        await lab.reaches("second", "COMPLETE")
        await lab.reaches("third", "COMPLETE")
        await asyncio.sleep(3)

        late = [r for r in old_path.records[before:] if r.method in {"POST", "PUT", "PATCH", "DELETE"}]
        assert late == []
        assert len(await lab.jobs()) == 3


async def test_a_stopped_leader_hands_over_at_once(operator: Start, lab: Any) -> None:
    """SIGTERM releases the Lease: the successor need not wait for it to run out. Exit code 0."""
    old = await operator(leader_election=True)
    new = await operator(leader_election=True, ready=False)
    await asyncio.to_thread(new.readyz_when_up)
    assert await asyncio.to_thread(old.stop) == 0
    await asyncio.to_thread(new.wait_ready, 8)
    await lab.submit("next")
    await lab.reaches("next", "COMPLETE")
