"""What monitoring knows of each workload at the moment, for reconciliation."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from kaiwo.engine.leader_election import boottime
from kaiwo.workload.model import MonitoringFacts

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from kaiwo.workload.monitoring.history import GpuUse


class GpuUses:
    """The last result for each workload, by uid; written by the monitor, read by snapshots.

    Attributes:
        clock: seconds of a clock that is never set and runs on while the machine is suspended.
        now: the time, UTC.
    """

    def __init__(
        self,
        interval: float,
        clock: Callable[[], float] = boottime,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Nothing is known.

        Args:
            interval: seconds between two scrapes.
            clock: seconds.
            now: the time.
        """
        self.clock, self.now = clock, now
        self._fresh = 3 * interval
        self._began_clock, self._began = clock(), now()
        self._known: dict[str, tuple[GpuUse, float]] = {}
        self._revisions: Counter[str] = Counter()

    def monotonic(self) -> datetime:
        """The time by the clock that is never set, from the time at the start of the process."""
        return self._began + timedelta(seconds=self.clock() - self._began_clock)

    def facts(self, uid: str) -> MonitoringFacts:
        """What is known of a workload."""
        use, at = self._known.get(uid, (None, 0.0))
        if use is not None and self.clock() - at > self._fresh:
            use = replace(use, current=False)
        return MonitoringFacts(use, self.monotonic())

    def revision(self, uid: str) -> int:
        """A number that grows whenever a workload has to be planned again."""
        return self._revisions.get(uid, 0)

    def put(self, uid: str, use: GpuUse) -> None:
        """Record what is known now."""
        self._known[uid] = (use, self.clock())

    def plan_again(self, uid: str) -> None:
        """Have a workload planned again at its next reconciliation."""
        self._revisions[uid] += 1

    def keep(self, uids: Collection[str]) -> None:
        """Forget all workloads but these."""
        for known in (self._known, self._revisions):
            for uid in known.keys() - set(uids):
                del known[uid]
