"""Turns for long computations on one event loop."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from kaiwo.engine.lanes import Lanes

if TYPE_CHECKING:
    from collections.abc import Callable

SLICE = 0.005
"""Seconds of computing before the event loop does its other work: watches, answers, timers."""


class Turns:
    """Lets one computation run at a time, the event loop between two long ones, and namespaces in turn.

    Sixteen workers that each compute for a tenth of a second would otherwise do so one after the other before
    the event loop reads the next watch event. Short computations pass without waiting::

        async with turns.turn(namespace):
            ...  # computes, and awaits nothing
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Nobody waits.

        Args:
            clock: monotonic seconds.
        """
        self._clock = clock
        self._waiting: Lanes[asyncio.Future[None]] = Lanes()
        self._used = 0.0
        self._taken = False

    def turn(self, namespace: str) -> _Turn:
        """One computation for a namespace."""
        return _Turn(self, namespace)

    async def take(self, namespace: str) -> float:
        """Wait for the turn of a namespace; the time at which it begins."""
        if self._taken or self._waiting:
            future = asyncio.get_running_loop().create_future()
            self._waiting.append(namespace, future)
            try:
                await future
            except BaseException:
                if future.done() and not future.cancelled():
                    self._pass_on()  # the turn came, and is not used
                raise
        return self._clock()

    def end(self, began: float) -> None:
        """End a turn."""
        self._used += self._clock() - began
        if self._used > SLICE:
            # Until the event loop has done what else is ready, nobody has a turn.
            self._taken, self._used = True, 0.0
            asyncio.get_running_loop().call_soon(self._pass_on)
        else:
            self._pass_on()

    def _pass_on(self) -> None:
        """Give the turn to whom it belongs next, or to nobody."""
        self._taken = False
        while (future := self._waiting.pop()) is not None:
            if not future.done():
                self._taken = True
                future.set_result(None)
                return


class _Turn:
    __slots__ = ("_began", "_namespace", "_turns")

    def __init__(self, turns: Turns, namespace: str) -> None:
        self._turns, self._namespace, self._began = turns, namespace, 0.0

    async def __aenter__(self) -> None:
        self._began = await self._turns.take(self._namespace)

    async def __aexit__(self, *_: object) -> None:
        self._turns.end(self._began)
