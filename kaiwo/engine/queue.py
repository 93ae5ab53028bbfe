"""A keyed work queue: the semantics of client-go's workqueue, with fairness between namespaces."""

from __future__ import annotations

from typing import NamedTuple


class Key(NamedTuple):
    """What a controller reconciles."""

    namespace: str
    name: str


class WorkQueue:
    """Keys to look at; a key is never handed out twice at once."""

    def add(self, key: Key) -> None: ...
    def add_after(self, key: Key, seconds: float) -> None: ...
    def retry(self, key: Key) -> float: ...
    def forget(self, key: Key) -> None: ...
    async def get(self) -> Key: ...
    def done(self, key: Key) -> None: ...
    def shut_down(self) -> None: ...
