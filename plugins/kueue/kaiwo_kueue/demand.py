"""The queues that workloads name, by namespace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.plugin.kit.controllers import Watch
from kaiwo.plugin.kit.names import ADOPTED
from kaiwo.plugin.kit.workload import KAIWO_JOB, KAIWO_SERVICE, TERMINAL

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaiwo.plugin.controllers import ControllerHost
    from kaiwo.plugin.kit.cache import CacheEvent


class Demand:
    """Pairs of namespace and queue, with the number of workloads that name them.

    It follows the cache, so that the pairs are known without a search. An empty name stands for the default
    queue.
    """

    def __init__(self, host: ControllerHost) -> None:
        """Follow the workloads of a host's manager."""
        self._pair_of: dict[str, tuple[str, str]] = {}
        self._counts: dict[tuple[str, str], int] = {}
        self._listeners: list[Callable[[], None]] = []
        for kind in (KAIWO_JOB, KAIWO_SERVICE):
            host.manager.watch(Watch(kind, namespaces=host.namespaces))
            host.manager.cache.subscribe(kind, self._on_workload)

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call back when a queue is named in a namespace for the first time."""
        self._listeners.append(listener)

    def pairs(self, default: str) -> frozenset[tuple[str, str]]:
        """All pairs of namespace and queue.

        Args:
            default: name of the default queue.
        """
        return frozenset((namespace, queue or default) for namespace, queue in self._counts)

    def _on_workload(self, event: CacheEvent) -> None:
        entry = event.latest
        pair: tuple[str, str] | None = None
        if event.new is not None and event.new.part("status", "status") not in TERMINAL:
            queue = event.new.part("spec", "clusterQueue")
            # An adopted object is in the queue that it names itself, and in no default one.
            if queue or ADOPTED not in entry.labels:
                pair = (entry.namespace, queue if isinstance(queue, str) else "")
        before = self._pair_of.get(entry.uid)
        if pair == before:
            return
        if before is not None:
            self._counts[before] -= 1
            if not self._counts[before]:
                del self._counts[before]
            del self._pair_of[entry.uid]
        if pair is not None:
            self._pair_of[entry.uid] = pair
            self._counts[pair] = self._counts.get(pair, 0) + 1
            if self._counts[pair] == 1:
                for listener in self._listeners:
                    listener()
