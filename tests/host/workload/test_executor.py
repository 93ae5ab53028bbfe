"""A plan's writes: what is done, what is refused, and what was overtaken by events."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

import kaiwo_batch_job.plugin
from kaiwo.api.crds import KAIWO_JOB
from kaiwo.api.resolved_config import ResolvedConfig
from kaiwo.api.workload import Workload
from kaiwo.engine.errors import (
    ChangedBack,
    Conflict,
    ConnectionBroken,
    Forbidden,
    Invalid,
    NotFound,
    ServerUnavailable,
    WriteCause,
)
from kaiwo.engine.resource import JOB, SERVICE
from kaiwo.engine.store import Cache
from kaiwo.engine.writer import NameConflict, Written
from kaiwo.host.workload.executor import OutdatedWorkload, PlanExecutor, StaleSnapshot, WriteRejected
from kaiwo.host.workload.snapshot import Snapshot
from kaiwo.testing import job, plugins
from kaiwo.testing.builders import NOW
from kaiwo.workload.backend_selection import BackendChoice
from kaiwo.workload.model import Apply, Create, Delete, Facts, Patch, Plan, Registry
from kaiwo.workload.plans.blocked import blocked_by_api

if TYPE_CHECKING:
    from kaiwo.engine.resource import Object

NAME = "train"
(BATCH,) = Registry.of(plugins(kaiwo_batch_job.plugin)).backends


def obj(name: str = NAME, **metadata: Any) -> Object:
    """An object as the API server would answer it."""
    return {
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": f"uid-of-{name}",
            "resourceVersion": "7",
            **metadata,
        }
    }


class Writes:
    """Answers of a writer, one per call, in order."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.calls: list[str] = []

    def __getattr__(self, verb: str) -> Any:
        """Any verb of the writer."""

        async def answer(*_: Any, **__: Any) -> Any:
            self.calls.append(verb)
            found = self.answers.pop(0)
            if isinstance(found, Exception):
                raise found
            return found

        return answer


def world(*answers: Any, cached: Object | None = None) -> tuple[PlanExecutor, Snapshot, Writes]:
    """An executor whose API server gives these answers."""
    cache, writes = Cache(), Writes(*answers)
    store = cache.register(JOB)
    if cached is not None:
        store.observe("ADDED", store.decode(msgspec.json.encode(cached)))
    manager: Any = SimpleNamespace(cache=cache, writer=writes)
    snapshot = Snapshot(
        Workload.from_object(job(NAME)),
        BackendChoice(BATCH),
        Facts(now=NOW, config=ResolvedConfig.defaults()),
    )
    return PlanExecutor(manager, "KaiwoJob", lambda _: None), snapshot, writes


async def test_answers_are_put_where_the_next_plan_sees_them() -> None:
    """The child and what is beside it; the log gets what was really sent."""
    executor, snapshot, _ = world(Written(obj("train-data")), Written(obj()), Written(obj(), changed=False))
    writes = [Apply(SERVICE, obj("train-data")), Create(JOB, obj()), Create(JOB, obj())]
    said = await executor.run(writes, snapshot)
    assert said == ["applied Service train-data", "created Job train"]
    assert snapshot.facts.live == obj()
    assert snapshot.facts.auxiliaries == {(SERVICE, "train-data"): obj("train-data")}


async def test_an_object_of_somebody_else_is_a_fact_and_no_error() -> None:
    """The next plan says NameConflict."""
    theirs = obj(uid="theirs")
    executor, snapshot, _ = world(NameConflict(theirs, None, deleting=False))
    assert await executor.run([Create(JOB, obj())], snapshot) == []
    assert snapshot.facts.live == theirs


@pytest.mark.parametrize(
    "error",
    [
        Invalid(422, "Invalid", "spec.template: Required value"),
        Forbidden(403, "Forbidden", "exceeded quota"),
        NotFound(404, "NotFound", "the server could not find the requested resource"),
    ],
)
async def test_a_refusal_carries_the_api_servers_words_and_stops_the_rest(error: Exception) -> None:
    """Nothing is written after a refused object."""
    executor, snapshot, writes = world(error)
    with pytest.raises(WriteRejected) as caught:
        await executor.run([Create(JOB, obj()), Create(JOB, obj("other"))], snapshot)
    assert caught.value.rejection.message == str(error)
    assert caught.value.rejection.resource == JOB
    assert len(writes.calls) == 1


async def test_what_stops_all_writes_is_reported_with_its_cause() -> None:
    """The status says so, and the user's spec is not blamed."""
    error = ServerUnavailable(500, "InternalError", 'failed calling webhook "mjob.kb.io": refused')
    error.write_cause = WriteCause("Webhook", "create", "jobs.batch", "mjob.kb.io")
    executor, snapshot, _ = world(error)
    with pytest.raises(WriteRejected) as caught:
        await executor.run([Create(JOB, obj())], snapshot)
    assert caught.value.cause == error.write_cause
    blocked = blocked_by_api(caught.value.rejection)
    assert (blocked.status, blocked.reason) == ("PENDING", "WriteRefused")
    assert error.message in blocked.message


async def test_an_object_that_somebody_deletes_again_and_again_is_reported_with_the_next_step() -> None:
    """The status says what happens, and when Kaiwo creates the object again."""
    executor, snapshot, _ = world(ChangedBack("somebody deletes Job train after each creation", 8.0))
    with pytest.raises(WriteRejected) as caught:
        await executor.run([Create(JOB, obj())], snapshot)
    assert caught.value.retry_after == 8.0
    blocked = blocked_by_api(caught.value.rejection)
    assert (blocked.status, blocked.reason) == ("ERROR", "ChangedBack")
    assert blocked.message.startswith("somebody deletes Job train after each creation; Kaiwo writes it ever")
    assert "audit log" in blocked.message


async def test_an_api_server_that_does_not_answer_cannot_be_reported() -> None:
    """The status could not be written either: it is tried again with back-off."""
    error = ConnectionBroken("refused")
    error.write_cause = WriteCause("Unreachable")
    executor, snapshot, _ = world(error)
    with pytest.raises(ConnectionBroken):
        await executor.run([Create(JOB, obj())], snapshot)


@pytest.mark.parametrize(
    "write", [Patch(JOB, "team", NAME, "uid-of-train", {}), Delete(JOB, "team", NAME, "uid-of-train")]
)
async def test_a_change_meant_for_an_object_that_is_gone_or_replaced_is_not_sent(
    write: Patch | Delete,
) -> None:
    """An event will show the new state."""
    for cached in (None, obj(uid="another")):
        executor, snapshot, writes = world(cached=cached)
        with pytest.raises(StaleSnapshot):
            await executor.run([write], snapshot)
        assert writes.calls == []
    executor, snapshot, _ = world(NotFound(404, "NotFound", "gone"), cached=obj())
    with pytest.raises(StaleSnapshot):
        await executor.run([write], snapshot)


@pytest.mark.parametrize(
    ("answer", "outdated"),
    [
        (NotFound(404, "NotFound", "kaiwojobs train not found", {"name": NAME, "kind": "kaiwojobs"}), True),
        (NotFound(404, "NotFound", "the server could not find the requested resource", {}), False),
        (Conflict(409, "Conflict", "the object has been modified"), True),
    ],
)
async def test_a_status_for_a_workload_that_is_gone_or_changed_says_which_version_is_outdated(
    answer: Exception, *, outdated: bool
) -> None:
    """A kind that is not served at the moment is something else: its workloads are still there."""
    executor, _, _ = world(answer)
    entry = Cache().register(KAIWO_JOB).decode(msgspec.json.encode(obj()))
    plan = Plan(statuses=({"status": "PENDING"},))
    with pytest.raises(OutdatedWorkload if outdated else NotFound) as caught:
        await executor.report(entry, plan, NOW)
    if isinstance(caught.value, OutdatedWorkload):
        assert caught.value.version == "7"


async def test_a_deleted_child_counts_as_going_until_it_is_seen_gone() -> None:
    """The next plan waits for the end instead of creating a second one."""
    executor, snapshot, _ = world(Written(obj()), cached=obj())
    assert await executor.run([Delete(JOB, "team", NAME, "uid-of-train")], snapshot) == ["deleted Job train"]
    assert snapshot.facts.live is not None
    assert snapshot.facts.live["metadata"]["deletionTimestamp"]
