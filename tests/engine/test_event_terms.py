"""Kubernetes Events while leadership comes and goes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

import pytest

from kaiwo.engine.errors import ApiError, Forbidden, NotLeading
from kaiwo.engine.event_recorder import EventRecorder
from kaiwo.engine.metrics import Metrics

if TYPE_CHECKING:
    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Object

SUBJECT = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "ns", "uid": "u"}}


class EventServer:
    """Takes Events, if this process leads; holds requests back on demand."""

    def __init__(self, rejection: ApiError | None = None) -> None:
        self.messages: list[str] = []
        self.rejection = rejection
        self.leading = True
        self.answering = asyncio.Event()
        self.answering.set()

    async def create_event(self, obj: Object) -> None:
        """POST."""
        if not self.leading:
            raise NotLeading("held back")
        await self.answering.wait()
        if self.rejection is not None:
            raise self.rejection
        self.messages.append(obj["message"])


def recorder_of(server: EventServer) -> EventRecorder:
    """A recorder that sends to that server."""
    return EventRecorder(cast("Client", server), component="kaiwo", instance="test")


async def term(recorder: EventRecorder, seconds: float) -> None:
    """Run a recorder until leadership is lost."""
    task = asyncio.create_task(recorder.run(asyncio.Event()))
    await asyncio.sleep(seconds)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def flush(recorder: EventRecorder) -> float:
    """Run a recorder that is stopped at once; returns the seconds that it took."""
    stop = asyncio.Event()
    stop.set()
    began = asyncio.get_running_loop().time()
    await recorder.run(stop)
    return asyncio.get_running_loop().time() - began


async def test_events_that_a_leader_left_unsent_are_sent_when_it_leads_again() -> None:
    """Leadership is lost while events gather or are being sent: none is lost, stopping does not wait."""
    server = EventServer()
    recorder = recorder_of(server)
    recorder.event(SUBJECT, "Normal", "Gathered", "gathered")
    await term(recorder, 0.1)
    server.answering.clear()
    recorder.event(SUBJECT, "Normal", "Sent", "on its way")
    await term(recorder, 0.8)
    assert server.messages == []
    server.answering.set()
    assert await flush(recorder) < 3
    assert sorted(server.messages) == ["gathered", "on its way"]


async def test_events_wait_while_this_process_does_not_lead() -> None:
    """A lease that is invalid for a moment costs no event."""
    server = EventServer()
    server.leading = False
    recorder = recorder_of(server)
    recorder.event(SUBJECT, "Normal", "Reason", "message")
    await term(recorder, 0.7)
    server.leading = True
    assert await flush(recorder) < 3
    assert server.messages == ["message"]


async def test_a_repeated_event_after_a_leadership_change_is_counted() -> None:
    """The same event again raises the count of the one that still waits."""
    server = EventServer()
    server.leading = False
    recorder = recorder_of(server)
    recorder.event(SUBJECT, "Normal", "Reason", "message")
    await term(recorder, 0.7)
    recorder.event(SUBJECT, "Normal", "Reason", "message")
    (waiting,) = recorder._waiting.values()
    assert waiting["count"] == 2


@pytest.mark.parametrize(
    ("message", "logged"),
    [
        ("unable to create new content in namespace ns because it is being terminated", False),
        ("events is forbidden: User kaiwo cannot create resource events", True),
    ],
)
async def test_a_missing_right_is_logged_and_a_namespace_that_goes_is_not(
    caplog: pytest.LogCaptureFixture, message: str, *, logged: bool
) -> None:
    """Either way the event is dropped and counted; a right that is missing is for an administrator to see."""
    metrics = Metrics()
    server = EventServer(Forbidden(403, "Forbidden", message))
    recorder = EventRecorder(cast("Client", server), component="kaiwo", instance="test", metrics=metrics)
    recorder.event(SUBJECT, "Normal", "Started", "one")
    await flush(recorder)
    value = metrics.registry.get_sample_value("kaiwo_events_total", {"result": "dropped"})
    assert (value, server.messages) == (1, [])
    assert [record.message for record in caplog.records] == (
        [f"event Started not sent: {message}"] if logged else []
    )


async def test_events_about_one_object_are_stored_in_the_order_in_which_they_happened() -> None:
    """Their times are whole seconds: a reader has only the order in which they were stored."""
    server = EventServer()
    create = server.create_event

    async def first_is_slow(obj: Object) -> None:
        if obj["reason"] == "WorkloadStarting":
            await asyncio.sleep(0.2)
        await create(obj)

    server.create_event = first_is_slow  # type: ignore[method-assign]
    recorder = recorder_of(server)
    for reason in ("WorkloadStarting", "WorkloadRunning", "WorkloadComplete"):
        recorder.event(SUBJECT, "Normal", reason, reason)
    await flush(recorder)
    assert server.messages == ["WorkloadStarting", "WorkloadRunning", "WorkloadComplete"]


async def test_stopping_with_nothing_to_send_takes_no_time() -> None:
    """A recorder without events ends at once."""
    assert await flush(recorder_of(EventServer())) < 0.3
