"""Warning Events of a child's own controller."""

from __future__ import annotations

import weakref
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from kaiwo.engine.errors import Forbidden
from kaiwo.host.workload.state import ReconcileState
from kaiwo.host.workload.warning_events import newest
from kaiwo.plugin.observation import Finding

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from kaiwo.engine.resource import Object

JOB = {"kind": "Job", "metadata": {"name": "train", "namespace": "team", "uid": "u"}}
OLD = {"reason": "Old", "message": "before", "lastTimestamp": "2026-01-02T03:04:05Z"}
NEW = {
    "reason": "FailedCreate",
    "message": "exceeded\n quota",
    "lastTimestamp": None,
    "eventTime": "2026-01-02T03:04:06.123456Z",
}


class Flood(dict[str, Any]):
    """An event of which a test knows whether somebody keeps it."""


def client(*events: Object, error: Exception | None = None) -> Any:
    """A client whose API server has these events."""
    requested: list[tuple[str, str]] = []

    async def listed(_: object, namespace: str, *, field_selector: str) -> AsyncIterator[Object]:
        requested.append((namespace, field_selector))
        if error is not None:
            raise error
        for event in events:
            yield event

    return SimpleNamespace(list=listed, requested=requested)


async def test_the_newest_warning_counts_in_either_form_of_events() -> None:
    """Of this very object alone; the text on one line."""
    server = client(NEW, OLD)
    assert await newest(server, JOB) == Finding("FailedCreate", "exceeded quota")
    assert server.requested == [("team", "involvedObject.uid=u,type=Warning")]


async def test_of_a_flood_of_events_one_is_kept() -> None:
    """Whoever may create Events may create a hundred thousand about an object."""
    kept: list[weakref.ref[Flood]] = []
    most = 0

    async def listed(*_: object, **__: object) -> AsyncIterator[Object]:
        nonlocal most
        for number in range(1000):
            event = Flood(NEW, message=str(number))
            kept.append(weakref.ref(event))
            yield event
            del event
            most = max(most, sum(item() is not None for item in kept))

    found = await newest(cast("Any", SimpleNamespace(list=listed)), JOB)
    assert found == Finding("FailedCreate", "0")
    assert most <= 2


async def test_without_events_or_the_right_to_read_them_there_is_no_finding() -> None:
    """Events that cannot be read harm nothing."""
    assert await newest(client(), JOB) is None
    assert await newest(client(error=Forbidden(403, "Forbidden", "no", "list")), JOB) is None


def test_events_are_read_once_in_a_while_for_each_child() -> None:
    """Not at every reconciliation; at once for another child; and an event is kept until the next read."""
    state = ReconcileState()
    assert state.may_read_events("u", 0.0)
    assert state.record_event("u", Finding("FailedCreate", "quota"), 0.0)
    assert not state.record_event("u", Finding("FailedCreate", "quota"), 0.0)
    assert not state.may_read_events("u", 19.0)
    assert state.may_read_events("u", 20.0)
    assert state.may_read_events("other", 1.0)
    assert (state.warning_event_uid, state.warning_event) == ("u", Finding("FailedCreate", "quota"))


async def test_events_about_the_owner_of_the_pods_are_read_as_well() -> None:
    """A ReplicaSet has the current error, its Deployment only the first."""
    server = client(NEW)
    assert await newest(server, JOB, ("ReplicaSet", "train-abc")) == Finding("FailedCreate", "exceeded quota")
    about = "involvedObject.kind=ReplicaSet,involvedObject.name=train-abc,type=Warning"
    assert server.requested == [("team", "involvedObject.uid=u,type=Warning"), ("team", about)]


@pytest.mark.parametrize(
    ("spec", "reason"),
    [({}, "FailedScheduling"), ({"nodeName": "gpu-1"}, "FailedMount")],
    ids=["no node", "a node"],
)
async def test_a_pod_with_a_node_does_not_wait_for_the_scheduler(spec: Object, reason: str) -> None:
    """Its first tries, before a volume was bound, said nothing of why its container does not run."""
    pod = {"kind": "Pod", "metadata": {"name": "train", "namespace": "team", "uid": "u"}, "spec": spec}
    mount = {**OLD, "reason": "FailedMount"}
    unscheduled = {**NEW, "reason": "FailedScheduling"}
    found = await newest(client(mount, unscheduled), pod)
    assert found is not None
    assert found.reason == reason
    assert (await newest(client(unscheduled), pod) is None) == bool(spec)
