"""A time limit for plugins' deciding code, which runs on the event loop.

Deciding is pure and takes microseconds, so it runs in place: handing it to a thread would cost more than
the work, and a thread that hangs can never be ended. What does not return in time is interrupted in place by
an interval timer of the operating system: it costs two system calls per guarded call and nothing at rest, and
it reaches endless loops and blocking calls alike. A C extension that never returns to Python is out of its
reach; the liveness probe is what ends such a process.
"""

from __future__ import annotations

import signal
import threading
import time
from typing import TYPE_CHECKING, Any, Self, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

T = TypeVar("T")

_FIRST_PAUSE = 5.0  # seconds a plugin is not asked again after it hung, doubled each time
_LONGEST_PAUSE = 300.0


class PluginHung(TimeoutError):  # noqa: N818  reads as what happened
    """A plugin's code did not return in time, or is not asked for a while because it did not before."""


class _Interrupt(BaseException):
    """Second knock: plugin code caught the first one and went on."""


class TimeLimit:
    """Guards calls, one plugin at a time.

    Only the main thread can be interrupted; elsewhere (a test, a command) calls run unguarded.
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Prepare the guard.

        Args:
            seconds: how long one call may take.
            clock: monotonic seconds.
        """
        self.seconds = seconds
        self._clock = clock
        self._armed = False
        self._knocks = 0
        self._active = False
        self._pauses: dict[str, tuple[float, float]] = {}  # plugin -> (until, length of the pause)

    def __enter__(self) -> Self:
        """Take over SIGALRM, if this is the main thread."""
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGALRM, self._knock)
            self._active = True
        return self

    def __exit__(self, *exc: object) -> None:
        """Give SIGALRM back."""
        if self._active:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            self._active = False

    def paused(self, plugin: str) -> float:
        """Seconds until the plugin is asked again; 0 when it is not paused."""
        until, _ = self._pauses.get(plugin, (0.0, 0.0))
        return max(0.0, until - self._clock())

    def wrap(self, plugin: str, what: str, function: Callable[..., T]) -> Callable[..., T]:
        """The function under the time limit.

        Args:
            plugin: whose code it is; after a call that hung, all calls of the plugin fail at once for a
                while, so that a thousand workloads of a hanging plugin do not stop all others.
            what: what to call it in the message.
            function: pure code of a plugin. Its calls must not nest in another guarded call.
        """

        def guarded(*args: Any, **kwargs: Any) -> T:
            if not self._active or self._armed:
                return function(*args, **kwargs)
            pause = self.paused(plugin)
            if pause:
                raise PluginHung(
                    f"{what} did not return within {self.seconds:g} s before; asked again in {pause:.0f} s"
                )
            self._knocks, self._armed = 0, True
            signal.setitimer(signal.ITIMER_REAL, self.seconds, self.seconds)
            try:
                result = function(*args, **kwargs)
            except (PluginHung, _Interrupt):
                self._disarm()
                self._pause(plugin)
                raise PluginHung(f"{what} did not return within {self.seconds:g} s") from None
            finally:
                self._disarm()
            if self._knocks:
                self._pause(plugin)
            else:
                self._pauses.pop(plugin, None)
            return result

        return guarded

    def _disarm(self) -> None:
        self._armed = False
        signal.setitimer(signal.ITIMER_REAL, 0.0)

    def _pause(self, plugin: str) -> None:
        _, last = self._pauses.get(plugin, (0.0, 0.0))
        length = min(2 * last, _LONGEST_PAUSE) if last else _FIRST_PAUSE
        self._pauses[plugin] = (self._clock() + length, length)

    def _knock(self, signum: int, frame: FrameType | None) -> None:
        del signum, frame
        if not self._armed:
            return
        self._knocks += 1
        if self._knocks > 1:
            raise _Interrupt
        raise PluginHung
