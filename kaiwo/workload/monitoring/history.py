"""The last readings of one workload, and what they come to."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

if TYPE_CHECKING:
    from datetime import datetime

    from kaiwo.workload.monitoring.reading import Problem, Reading

READINGS: Final = 3
"""Readings in a row that must be low before a workload counts as underutilizing."""

_GAP: Final = 300.0

PERIOD: Final = 300.0
"""Seconds over which the figures of a status are means; they change no more often."""

State: TypeAlias = Literal["low", "normal", "unknown", "undecided"]


def longest_gap(interval: float) -> float:
    """Seconds without a usable reading after which nothing is known.

    A Prometheus server or an operator that is started again is back within five minutes.

    Args:
        interval: seconds between two scrapes.
    """
    return max(_GAP, READINGS * interval)


@dataclass(frozen=True, slots=True)
class GpuUse:
    """What is known about the use of a workload's GPUs at the moment.

    Attributes:
        state: ``low`` or ``normal`` by the threshold; ``unknown`` where no reading was usable for
            `longest_gap`; ``undecided`` while there are too few readings: then what the status says stays.
        current: the last scrape had a usable reading. A workload is never ended otherwise.
        interrupted: nobody read for `longest_gap` before, so what was true since then says nothing.
        problem: why nothing is known.
        percent: mean utilization over the last period, None if unknown.
        memory: mean of memory in use, likewise.
        busy: most GPUs that were used in one reading, of all since `since`.
        since: time of the first of these readings, None without one.
        early: there are fewer readings than it takes to be low.
    """

    state: State
    current: bool = False
    interrupted: bool = False
    problem: Problem = ""
    percent: float | None = None
    memory: float | None = None
    busy: int = 0
    since: datetime | None = None
    early: bool = False


class History:
    """The readings of one workload since the process reads, or since a gap. It is lost with the process."""

    def __init__(self, clock: float, gap: float, *, interrupted: bool) -> None:
        """No reading yet.

        Args:
            clock: seconds of a clock that is never set.
            gap: see `longest_gap`.
            interrupted: nobody read for so long before.
        """
        self._gap = gap
        self.interrupted = interrupted
        self._usable_at = clock
        self._lows: deque[bool] = deque(maxlen=READINGS)
        self._threshold = 0.0
        self._problem: Problem = ""
        self._current = False
        self._busy = 0
        self._since: datetime | None = None
        self._percent: float | None = None
        self._memory: float | None = None
        self._period: list[tuple[float, float | None]] = []
        self._period_began = clock

    def add(
        self, reading: Reading | None, problem: Problem, threshold: float, clock: float, now: datetime
    ) -> None:
        """Take what a scrape says.

        Args:
            reading: of this workload; None where the scrape failed.
            problem: why it failed.
            threshold: per cent below which the GPUs count as idle.
            clock: seconds of a clock that is never set.
            now: the time.
        """
        low = reading.is_low(threshold) if reading is not None else None
        if threshold != self._threshold:
            self._threshold = threshold
            self._lows.clear()
        if clock - self._usable_at > self._gap and (self._lows or self._since):
            self._forget()
        self._problem = problem if reading is None else reading.problem
        self._current = low is not None
        if reading is None or low is None:
            return
        self._usable_at = clock
        self._lows.append(low)
        self._since = self._since or now
        # What is not known may have been used.
        self._busy = max(self._busy, reading.busy + reading.gpus - reading.known)
        if reading.mean is not None:
            self._figures(reading.mean, reading.memory, clock)

    def use(self, clock: float) -> GpuUse:
        """What the readings come to."""
        return GpuUse(
            self._state(clock), self._current, self.interrupted, self._problem or "MetricsMissing",
            self._percent, self._memory, self._busy, self._since, len(self._lows) < READINGS,
        )  # fmt: skip

    def _state(self, clock: float) -> State:
        if clock - self._usable_at > self._gap:
            return "unknown"
        if self._lows and not self._lows[-1]:
            return "normal"
        return "low" if len(self._lows) == READINGS and all(self._lows) else "undecided"

    def _figures(self, percent: float, memory: float | None, clock: float) -> None:
        """Take a mean over each period; the first one is as long as a workload needs to be low."""
        self._period.append((percent, memory))
        first = self._percent is None and len(self._period) >= READINGS
        if not first and clock - self._period_began < PERIOD:
            return
        known = [value for _, value in self._period if value is not None]
        self._percent = sum(value for value, _ in self._period) / len(self._period)
        self._memory = sum(known) / len(known) if known else None
        self._period, self._period_began = [], clock

    def _forget(self) -> None:
        """Begin again after a gap."""
        self.interrupted = True
        self._lows.clear()
        self._busy, self._since = 0, None
        self._percent = self._memory = None
        self._period = []
