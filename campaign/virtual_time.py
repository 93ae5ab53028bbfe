"""An event loop whose time is virtual: where all tasks wait, the next timer is due at once."""

from __future__ import annotations

import asyncio
import selectors
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Coroutine


class _Selector(selectors.SelectSelector):
    """Waits for nothing that is still to come; the time that the loop would have waited has passed."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """What is ready now."""
        ready = super().select(0)
        if not ready:
            if timeout is None:
                raise RuntimeError("every task waits, and no timer is set")
            self.now += max(timeout, 0.0)
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """The loop; `time` is the virtual time in seconds."""

    def __init__(self) -> None:
        """Begin at zero."""
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def time(self) -> float:
        """The virtual time."""
        return self._virtual.now


def run(work: Coroutine[Any, Any, None]) -> None:
    """Run something to its end under virtual time; not in a thread whose event loop runs."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(work)
