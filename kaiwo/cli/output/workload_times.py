"""How long a live workload ran and how old it is, as text for tables; absent values are empty."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.api.status_words import TERMINAL
from kaiwo.cli import duration as spans
from kaiwo.client.workload_fields import status, word
from kaiwo.engine.timestamps import parse_time

if TYPE_CHECKING:
    from datetime import datetime

    from kaiwo.engine.resource import Object


def duration(obj: Object, now: datetime) -> str:
    """How long it ran, up to now while it runs."""
    start = parse_time(status(obj).get("startTime"))
    if start is None:
        return ""
    if word(obj) in TERMINAL:
        end = parse_time(status(obj).get("completionTime"))
        recorded = status(obj).get("duration")
        if end is None and isinstance(recorded, int):
            return spans.span(recorded)
        return spans.span(((end or start) - start).total_seconds())
    return spans.span((now - start).total_seconds())


def age(obj: Object, now: datetime) -> str:
    """How long ago it was created."""
    return spans.since(obj["metadata"].get("creationTimestamp"), now)
