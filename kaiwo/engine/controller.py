"""Events name keys, workers reconcile them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass

from kaiwo.engine.cache import Event, Projection
from kaiwo.engine.queue import Key
from kaiwo.engine.resource import Resource


@dataclass(frozen=True)
class Watch:
    """A kind a controller reads. `keys` says whom a change concerns; `start` is asked once per cached object
    when the controller starts (default: the same function with an ADDED event)."""

    resource: Resource
    keys: Callable[[Event], Iterable[Key]]
    projection: Projection = Projection()
    namespace: str | None = None
    label_selector: str | None = None


class Controller:
    """`reconcile(key)` returns seconds to look again, or None; raising backs the key off."""

    def __init__(self, name: str, watches: Sequence[Watch], reconcile: Callable[[Key], Awaitable[float | None]], *,
                 workers: int = 8, timeout: float = 60.0, on_error: Callable[[Key, Exception], None] | None = None,
                 ) -> None: ...
    def enqueue(self, key: Key, after: float = 0.0) -> None: ...
