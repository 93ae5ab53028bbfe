"""Kubernetes Events, sent when there is nothing better to do."""

from __future__ import annotations

from typing import Literal

from kaiwo.engine.cache import Entry
from kaiwo.engine.client import Client
from kaiwo.engine.resource import Object


class Recorder:
    """Bounded queue of events; never waits, drops under pressure."""

    def __init__(self, client: Client, *, component: str, instance: str, capacity: int = 1000) -> None: ...

    def event(self, about: Entry | Object, type_: Literal["Normal", "Warning"], reason: str, message: str) -> None:
        """Queue one event about an object; returns at once."""
