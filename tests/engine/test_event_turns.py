"""Events of one namespace keep no others from being sent."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

from kaiwo.engine.event_recorder import EventRecorder

if TYPE_CHECKING:
    from kaiwo.engine.resource import Object


class Sent:
    """A client that takes every event."""

    def __init__(self) -> None:
        self.events: list[Object] = []

    async def create_event(self, obj: Object) -> None:
        """Take it."""
        self.events.append(obj)


def about(namespace: str, name: str) -> Object:
    """What an event is about."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": namespace, "name": name}}


async def test_a_storm_of_one_namespace_keeps_no_event_of_another() -> None:
    """It is taken although the queue is full, and sent with the first ones; the storm loses its last ones."""
    client = Sent()
    recorder = EventRecorder(cast("Any", client), component="kaiwo", instance="test", capacity=30, rate=20)
    for number in range(100):
        recorder.event(about("loud", f"storm-{number}"), "Warning", "InvalidSpec", "no")
    recorder.event(about("quiet", "train"), "Warning", "InvalidSpec", "no")
    stop = asyncio.Event()
    stop.set()
    await recorder.run(stop)
    places = [event["metadata"]["namespace"] for event in client.events]
    assert (len(places), places.count("quiet")) == (30, 1)
    assert places.index("quiet") < 10
    names = [event["involvedObject"]["name"] for event in client.events]
    assert [name for name in names if name != "train"] == [f"storm-{number}" for number in range(29)]
