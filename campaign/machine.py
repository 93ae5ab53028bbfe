"""How busy the machine is, and whether it has time for another case.

A campaign keeps all cores busy, and no longer queue for them than that takes: on an overloaded machine cases
fail that hold elsewhere.
"""

from __future__ import annotations

import asyncio
import math
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from collections.abc import Callable

CORES: Final = os.cpu_count() or 1

_STAT: Final = Path("/proc/stat")
_TICK: Final = 0.25
_MEMORY: Final = 2.0
"""Seconds over which runnable threads are averaged."""

_RUNNABLE: Final = 2.25
"""Runnable threads for each core up to which a case may start. With one for each core none waits."""

_AT_ONCE: Final = 0.5
"""Part of a case's work that has to fit into the time until the next one may start: what a case does shows in
the average later."""

_MOST_WAIT: Final = 1.0
"""Seconds, for each case that runs, after which one more starts on a machine that others keep busy."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What the kernel counts.

    Attributes:
        idle: seconds, of all cores together, in which there was nothing to do.
        runnable: threads that run or wait for a core.
    """

    idle: float
    runnable: int


def parse(text: str, ticks: int) -> Sample:
    """Read ``/proc/stat`` (proc(5)).

    Args:
        text: its content.
        ticks: of the kernel's clock in a second.
    """
    fields = {line.split()[0]: line.split()[1:] for line in text.splitlines() if line}
    idle, waiting_for_disks = (int(value) for value in fields["cpu"][3:5])
    return Sample((idle + waiting_for_disks) / ticks, int(fields["procs_running"][0]))


def read() -> Sample:
    """The machine now; the reading thread is not counted."""
    sample = parse(_STAT.read_text(encoding="ascii"), os.sysconf("SC_CLK_TCK"))
    return Sample(sample.idle, max(sample.runnable - 1, 0))


class Machine:
    """Admits cases one after another, each once the machine has time. Use as an asynchronous context manager.

    Attributes:
        running: cases that were admitted and have not ended.
        began: when it was first read, by its clock.
    """

    def __init__(
        self,
        sample: Callable[[], Sample] = read,
        clock: Callable[[], float] = time.monotonic,
        cores: int = CORES,
    ) -> None:
        """Begin to count.

        Args:
            sample: reads the machine.
            clock: in seconds.
            cores: of the machine.
        """
        self.running = 0
        self._sample, self._clock, self._cores = sample, clock, cores
        self.began, self._idle_before = clock(), sample().idle
        self._runnable, self._at = 0.0, clock()
        self._last, self._next = -math.inf, -math.inf
        self._turn = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Follow the machine."""
        self._task = asyncio.create_task(self._follow())
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Follow it no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _follow(self) -> None:
        while True:
            self.observe()
            await asyncio.sleep(_TICK)

    def observe(self) -> None:
        """Read the machine once."""
        now = self._clock()
        weight = 1 - math.exp(-(now - self._at) / _MEMORY)
        self._runnable += weight * (self._sample().runnable - self._runnable)
        self._at = now

    def has_time(self) -> bool:
        """Whether a case may start now."""
        now = self._clock()
        if now < self._next:
            return False
        return self._runnable < _RUNNABLE * self._cores or now - self._last > _MOST_WAIT * max(
            self.running, 1
        )

    async def admit(self, work: float) -> None:
        """Wait until a case may start.

        Args:
            work: seconds of one core that its beginning takes, roughly.
        """
        async with self._turn:
            while not self.has_time():  # noqa: ASYNC110  nobody reports how busy it is
                await asyncio.sleep(_TICK)
            self._last = self._clock()
            self._next = self._last + work * _AT_ONCE / self._cores

    @property
    def seconds(self) -> float:
        """Since it was first read."""
        return self._clock() - self.began

    @property
    def idle(self) -> float:
        """Seconds, of all cores together, in which there was nothing to do."""
        return self._sample().idle - self._idle_before

    def __str__(self) -> str:
        """How much of the machine was idle so far."""
        seconds = self.seconds * self._cores
        share = self.idle / seconds if seconds else 0.0
        return f"{self._cores} cores, idle for {self.idle:.0f} of {seconds:.0f} s ({share:.0%})"
