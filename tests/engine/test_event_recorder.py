"""Kubernetes Events: for people, cheap, never in the way."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import pytest

from kaiwo.engine.event_recorder import MESSAGE_LIMIT, EventRecorder
from kaiwo.engine.resource import CONFIG_MAP, EVENT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from kaiwo.engine.client import Client
    from kaiwo.engine.metrics import Metrics
    from kaiwo.engine.resource import Object
    from kaiwo.testing.fault_proxy import FaultProxy

pytestmark = pytest.mark.cluster


@contextlib.asynccontextmanager
async def sending(recorder: EventRecorder) -> AsyncIterator[None]:
    """Run a recorder; at the end what is queued is sent."""
    stop = asyncio.Event()
    task = asyncio.create_task(recorder.run(stop))
    try:
        yield
    finally:
        stop.set()
        await asyncio.wait_for(task, 20)


def recorder_of(client: Client, metrics: Metrics | None = None, **more: int) -> EventRecorder:
    """A recorder."""
    return EventRecorder(client, component="kaiwo", instance="test", metrics=metrics, **more)


async def arrived(client: Client, namespace: str) -> list[Object]:
    """The events in the namespace, as soon as there are any."""
    async with asyncio.timeout(20):
        while True:
            if found := [event async for event in client.list(EVENT, namespace)]:
                return found
            await asyncio.sleep(0.05)


@pytest.fixture
async def subject(client: Client, config_map: Callable[..., Object]) -> Object:
    """What events are about."""
    return await client.create(CONFIG_MAP, config_map("subject"))


async def test_an_event_reaches_whoever_describes_the_object(
    client: Client, namespace: str, subject: Object
) -> None:
    """Reason, message and reference are those of the object; a long message is cut, not lost."""
    recorder = recorder_of(client)
    async with sending(recorder):
        recorder.event(subject, "Warning", "WorkloadFailed", "x" * 5000)
    (found,) = [e async for e in client.list(EVENT, namespace)]
    assert found["involvedObject"]["uid"] == subject["metadata"]["uid"]
    assert (found["type"], found["reason"], found["count"]) == ("Warning", "WorkloadFailed", 1)
    assert len(found["message"]) == MESSAGE_LIMIT


async def test_the_same_event_again_raises_a_count(
    client: Client, metrics: Metrics, namespace: str, subject: Object
) -> None:
    """Repetitions make no new objects, queued or sent."""
    recorder = recorder_of(client, metrics)
    async with sending(recorder):
        for _ in range(5):
            recorder.event(subject, "Normal", "WorkloadPending", "waiting")
        await arrived(client, namespace)
        recorder.event(subject, "Normal", "WorkloadPending", "waiting")
    (found,) = [e async for e in client.list(EVENT, namespace)]
    assert found["count"] == 6


async def test_a_storm_is_dropped_and_counted(
    client: Client, metrics: Metrics, namespace: str, subject: Object
) -> None:
    """Taking events never waits and never grows without bound."""
    recorder = recorder_of(client, metrics, capacity=5)
    for number in range(50):
        recorder.event(subject, "Normal", "Reason", f"event {number}")
    assert metrics.registry.get_sample_value("kaiwo_events_total", {"result": "dropped"}) == 45
    async with sending(recorder):
        pass
    assert len([e async for e in client.list(EVENT, namespace)]) == 5


async def test_events_leave_a_few_at_a_time(client: Client, namespace: str, subject: Object) -> None:
    """However many wait: not more than the budget of half a second comes at once, and all come in the end."""
    recorder = recorder_of(client, rate=10)
    for number in range(12):
        recorder.event(subject, "Normal", "Reason", f"event {number}")
    async with sending(recorder):
        assert len(await arrived(client, namespace)) <= 5
    assert len([e async for e in client.list(EVENT, namespace)]) == 12


async def test_an_api_server_that_refuses_events_is_no_trouble(
    through: Client, proxy: FaultProxy, metrics: Metrics, namespace: str, subject: Object
) -> None:
    """A failed event is dropped; the next one goes through."""
    proxy.answer(403, method="POST", path="/events$")
    recorder = recorder_of(through, metrics)
    async with sending(recorder):
        recorder.event(subject, "Normal", "First", "lost")
        recorder.event({"kind": "odd"}, "Normal", "Odd", "an object without a name")
        recorder.event(subject, "Normal", "Second", "sent")
    reasons = [e["reason"] async for e in through.list(EVENT, namespace)]
    assert reasons == ["Second"]
