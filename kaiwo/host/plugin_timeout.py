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
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, TypeVar

from kaiwo.workload.model import Registry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import FrameType

    from kaiwo.plugin.registry import Plugins


T = TypeVar("T")

SUSPECT_SECONDS = 600.0
"""How long a plugin that hung gets only the short limit."""

SHORT = 0.05
"""Share of the limit for such a plugin: a thousand workloads that make it hang must not stop all others, and
its other workloads must not be refused. Deciding takes under a millisecond, so it is still generous."""


class PluginHung(TimeoutError):
    """A plugin's code did not return in time."""


class _Interrupt(BaseException):
    """Second knock: plugin code caught the first one and went on."""


class TimeLimit:
    """Guards calls, one plugin at a time.

    Only the main thread can be interrupted, while the guard is entered; elsewhere calls run unguarded.
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
        self._suspects: dict[str, float] = {}  # plugin -> until when

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

    def limit_of(self, plugin: str) -> float:
        """Seconds that a call of the plugin may take now."""
        return self.seconds * (SHORT if self._clock() < self._suspects.get(plugin, 0.0) else 1.0)

    def wrap(self, plugin: str, what: str, function: Callable[..., T]) -> Callable[..., T]:
        """The function under the time limit.

        Args:
            plugin: whose code it is.
            what: what to call it in the message.
            function: pure code of a plugin. A call inside another guarded call runs under the outer limit.
        """

        def guarded(*args: Any, **kwargs: Any) -> T:
            if not self._active or self._armed:
                return function(*args, **kwargs)
            seconds = self.limit_of(plugin)
            text = f"{what} did not return within {seconds:g} s"
            self._knocks = 0
            # The timer may go off between any two steps, also while it is being disarmed. It raises twice at
            # most (see `_knock`), so two levels around the call are enough to catch whatever comes late.
            try:
                try:
                    try:
                        self._armed = True
                        signal.setitimer(signal.ITIMER_REAL, seconds, seconds)
                        return function(*args, **kwargs)
                    finally:
                        self._armed = False
                except (PluginHung, _Interrupt):
                    self._armed = False
                    raise PluginHung(text) from None
            except _Interrupt:
                raise PluginHung(text) from None
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0.0)
                if self._knocks:
                    self._suspects[plugin] = self._clock() + SUSPECT_SECONDS

        return guarded

    def _knock(self, signum: int, frame: FrameType | None) -> None:
        del signum, frame
        if not self._armed:
            return
        self._knocks += 1
        if self._knocks == 1:
            raise PluginHung
        self._armed = False
        raise _Interrupt


D = TypeVar("D")


def guarded_registry(plugins: Plugins, limit: TimeLimit) -> Registry:
    """The registry of the loaded plugins, with every callable that deciding uses under the limit."""
    plain = Registry.of(plugins)
    owner = {
        id(declaration): plugin.name for plugin in plugins.loaded for declaration in plugin.declarations()
    }

    def guard(declaration: D, *names: str) -> D:
        plugin = owner.get(id(declaration), getattr(declaration, "name", ""))
        changes: dict[str, Any] = {}
        for name in names:
            function = getattr(declaration, name)
            if function is not None:
                changes[name] = limit.wrap(plugin, f"{name} of plugin {plugin}", function)
        wrapped: D = replace(declaration, **changes)  # type: ignore[type-var]  # declarations are dataclasses
        return wrapped

    def each(declarations: Iterable[D], *names: str) -> tuple[D, ...]:
        return tuple(guard(declaration, *names) for declaration in declarations)

    return replace(
        plain,
        backends=each(
            plain.backends,
            "chosen",
            "check",
            "allocate",
            "render",
            "observe",
            "frozen",
            "tune",
            "merge",
            "select",
        ),
        vendors=each(plain.vendors, "recognise"),
        queue=guard(plain.queue, "assign", "admission", "manages") if plain.queue is not None else None,
        contributions=each(plain.contributions, "contribute"),
        sources=each(plain.sources, "secrets"),
        diagnosis=each(plain.diagnosis, "diagnose"),
    )
