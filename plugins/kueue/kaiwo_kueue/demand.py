"""Which queues workloads name in which namespaces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.api.crds import KAIWO_JOB, KAIWO_SERVICE
from kaiwo.api.status import TERMINAL
from kaiwo.engine.controller import Watch

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaiwo.engine.store import CacheEvent
    from kaiwo.plugin.controllers import ControllerHost


class Demand:
    """Pairs of namespace and queue, with the number of workloads that name them.

    It follows the cache, so that asking costs nothing. An empty queue stands for the default one.
    """

    def __init__(self, host: ControllerHost) -> None:
        """Follow the workloads of a host's manager."""
        self._of: dict[str, tuple[str, str]] = {}
        self._counts: dict[tuple[str, str], int] = {}
        self._listeners: list[Callable[[], None]] = []
        for kind in (KAIWO_JOB, KAIWO_SERVICE):
            host.manager.watch(Watch(kind, namespace=host.namespace))
            host.manager.cache.subscribe(kind, self._seen)

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call back when a queue is named in a namespace for the first time."""
        self._listeners.append(listener)

    def pairs(self, default: str) -> frozenset[tuple[str, str]]:
        """All pairs of namespace and queue.

        Args:
            default: name of the default queue.
        """
        return frozenset((namespace, queue or default) for namespace, queue in self._counts)

    def _seen(self, event: CacheEvent) -> None:
        entry = event.latest
        pair: tuple[str, str] | None = None
        if event.new is not None and event.new.part("status", "status") not in TERMINAL:
            queue = event.new.part("spec", "clusterQueue")
            pair = (entry.namespace, queue if isinstance(queue, str) else "")
        before = self._of.get(entry.uid)
        if pair == before:
            return
        if before is not None:
            self._counts[before] -= 1
            if not self._counts[before]:
                del self._counts[before]
            del self._of[entry.uid]
        if pair is not None:
            self._of[entry.uid] = pair
            self._counts[pair] = self._counts.get(pair, 0) + 1
            if self._counts[pair] == 1:
                for listener in self._listeners:
                    listener()
