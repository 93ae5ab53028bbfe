"""The workloads that use queues: those that are admitted and those that are pending."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kaiwo.plugin.kit.json_access import lenient_maps
from kaiwo_kueue.admission import is_over
from kaiwo_kueue.kinds import LOCAL_QUEUE, WORKLOAD

if TYPE_CHECKING:
    from kaiwo.plugin.kit.cache import Cache, CachedObject
    from kaiwo.plugin.kit.kinds import Object
    from kaiwo_kueue.objects import LiveObject


@dataclass(frozen=True, slots=True)
class Holders:
    """The workloads that use one queue.

    Attributes:
        admitted: those that have quota, as namespace/name.
        pending: how many wait for it.
        counted: how many Kueue counts in the queue's status, admitted or pending.
    """

    admitted: tuple[str, ...] = ()
    pending: int = 0
    counted: int = 0

    @property
    def number(self) -> int:
        """How many there are.

        The larger number counts: an operator of one namespace sees only the Workloads there, and Kueue's
        count is late.
        """
        return max(len(self.admitted) + self.pending, self.counted)

    def __str__(self) -> str:
        """``2 workloads (1 admitted, 1 pending)``."""
        noun = "workload" if self.number == 1 else "workloads"
        admitted = len(self.admitted)
        return f"{self.number} {noun} ({admitted} admitted, {self.number - admitted} pending)"


class QueueUse:
    """The use of all queues at one moment; Workloads are read when a queue is first asked for."""

    def __init__(self, cache: Cache) -> None:
        """Prepare; nothing is read yet.

        Args:
            cache: holds Workloads, ClusterQueues and LocalQueues.
        """
        self._cache = cache
        self._admitted: dict[tuple[str, str], list[str]] | None = None
        self._pending: dict[tuple[str, str], int] = defaultdict(int)

    def of(self, live: LiveObject) -> Holders:
        """The workloads that use a ClusterQueue or LocalQueue."""
        admitted = self._read()
        place = (live.namespace, live.name)
        entry = self._cache.get(live.kind, live.namespace or None, live.name)
        return Holders(
            tuple(sorted(admitted.get(place, ()))),
            self._pending.get(place, 0),
            _counted(entry) if entry is not None else 0,
        )

    def admitted(self, queue: str) -> tuple[str, ...]:
        """The workloads that a ClusterQueue has admitted and that have not finished, as namespace/name."""
        return tuple(sorted(self._read().get(("", queue), ())))

    def _read(self) -> dict[tuple[str, str], list[str]]:
        if self._admitted is not None:
            return self._admitted
        admitted: dict[tuple[str, str], list[str]] = defaultdict(list)
        for entry in self._cache.list(WORKLOAD):
            if is_over(conditions_of(entry)):
                continue
            local = (entry.namespace, str(entry.part("spec", "queueName") or ""))
            queue = self._cache.get(LOCAL_QUEUE, *local)
            by = entry.part("status", "admission", "clusterQueue")
            cluster = by or (queue.part("spec", "clusterQueue") if queue is not None else None)
            for place in (local, ("", str(cluster or ""))):
                if by:
                    admitted[place].append(f"{entry.namespace}/{entry.name}")
                else:
                    self._pending[place] += 1
        self._admitted = admitted
        return admitted


def conditions_of(entry: CachedObject) -> list[Object]:
    """The conditions of an object; what is no mapping is left out."""
    return lenient_maps(entry.part("status", "conditions"))


def _counted(entry: CachedObject) -> int:
    """The workloads in the status of a queue; an admitted one also counts as reserving."""
    numbers = [entry.part("status", field) for field in ("pendingWorkloads", "reservingWorkloads")]
    return sum(number for number in numbers if isinstance(number, int))
