"""A time limit for calls into plugins, which run on the event loop.

Plugin code is pure and takes microseconds, so it runs in place: handing it to a thread would cost more than
the work, and a thread that hangs can never be ended. A call that does not return in time is interrupted in
place by an interval timer of the operating system. The timer costs two system calls per call and nothing at
rest, and it interrupts endless loops and blocking calls alike. It cannot interrupt a C extension that never
returns to Python; the liveness probe restarts such a process.
"""

from __future__ import annotations

import math
import signal
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Self, TypeVar

from kaiwo.engine.workqueue import Key
from kaiwo.plugin.backend_base import BACKEND_METHODS
from kaiwo.plugin.sources import DownloadSource
from kaiwo.workload.model import Registry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from types import FrameType

    from pydantic import ValidationError

    from kaiwo.api.errors import Problem
    from kaiwo.plugin.backend_base import BackendBase
    from kaiwo.plugin.backends import Backend
    from kaiwo.plugin.registry import Plugins


T = TypeVar("T")

SUSPECT_SECONDS = 600.0
"""How long a plugin that hung for a workload gets only the short limit for it."""

SHORT = 0.05
"""Share of the limit for such a workload. A call takes under a millisecond, so it is still generous."""

MANY = 3
"""Workloads of one namespace that made a plugin hang, after which all of that namespace get the short limit:
a thousand of them must not stop the operator. Other namespaces are not concerned."""


_NOBODY = Key("", "")
"""Who calls of no plan are for: they read nodes or the configuration."""

_LEAST = 0.001  # seconds of a call for a plan whose time is used up


class PluginHung(TimeoutError):
    """A plugin's code did not return in time."""


class _Interrupt(BaseException):
    """Raised by the second alarm: plugin code caught the first exception and went on."""


class TimeLimit:
    """Guards calls, one plugin at a time, and all calls for one plan together.

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
        self._alarms = 0
        self._active = False
        self._subject = _NOBODY
        self._deadline = math.inf
        # plugin and namespace -> workload -> until when
        self._suspects: dict[tuple[str, str], dict[str, float]] = {}

    def __enter__(self) -> Self:
        """Take over SIGALRM, if this is the main thread."""
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGALRM, self._on_alarm)
            self._active = True
        return self

    def __exit__(self, *exc: object) -> None:
        """Give SIGALRM back."""
        if self._active:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            self._active = False

    @contextmanager
    def planning(self, key: Key, seconds: float = math.inf) -> Iterator[None]:
        """Compute for a workload: its calls together may take as long as a single one.

        Args:
            key: of the workload.
            seconds: a shorter limit than that of a single call.
        """
        self._subject, self._deadline = key, self._clock() + min(self.seconds, seconds)
        try:
            yield
        finally:
            self._subject, self._deadline = _NOBODY, math.inf

    def limit_of(self, plugin: str) -> float:
        """Seconds that a call of the plugin may take now."""
        seconds = self.seconds * (SHORT if self._suspected(plugin) else 1.0)
        return max(_LEAST, min(seconds, self._deadline - self._clock()))

    def _suspected(self, plugin: str) -> bool:
        namespace, name = self._subject
        found = self._suspects.get((plugin, namespace))
        if not found:
            return False
        found = self._suspects[plugin, namespace] = self._current(found)
        return name in found or len(found) >= MANY

    def _suspect(self, plugin: str) -> None:
        """Take note of a call that hung, and forget those of long ago, also of namespaces that are gone."""
        namespace, name = self._subject
        current = {place: self._current(found) for place, found in self._suspects.items()}
        self._suspects = {place: found for place, found in current.items() if found}
        self._suspects.setdefault((plugin, namespace), {})[name] = self._clock() + SUSPECT_SECONDS

    def _current(self, found: Mapping[str, float]) -> dict[str, float]:
        now = self._clock()
        return {name: until for name, until in found.items() if now < until}

    def wrap(
        self, plugin: str, what: str, function: Callable[..., T], *, longest: float | None = None
    ) -> Callable[..., T]:
        """The function under the time limit.

        Args:
            plugin: whose code it is.
            what: what to call it in the message.
            function: code of a plugin. A call inside another guarded call runs under the outer limit.
            longest: seconds of a limit of its own, None for the usual one.
        """

        def guarded(*args: Any, **kwargs: Any) -> T:
            if not self._active or self._armed:
                return function(*args, **kwargs)
            seconds = self.limit_of(plugin) if longest is None else longest
            text = f"{what} did not return within {seconds:.2g} s"
            self._alarms = 0
            # The timer may go off between any two steps, also while it is being disarmed. It raises twice at
            # most (see `_on_alarm`), so two levels around the call are enough to catch whatever comes late.
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
                if self._alarms:
                    self._suspect(plugin)

        return guarded

    def _on_alarm(self, signum: int, frame: FrameType | None) -> None:
        del signum, frame
        if not self._armed:
            return
        self._alarms += 1
        if self._alarms == 1:
            raise PluginHung
        self._armed = False
        raise _Interrupt


D = TypeVar("D")


def guarded_registry(plugins: Plugins, limit: TimeLimit) -> Registry:
    """The registry of the loaded plugins, with every call into them that deciding makes under the limit."""
    plain = Registry.of(plugins)
    owners = {
        id(declaration): plugin.name
        for plugin in plugins.loaded
        for declaration in (
            *plugin.declarations(),
            *(variant for backend in plugin.backends for variant in backend.variants),
        )
    }

    def guard(declaration: D, *names: str) -> D:
        plugin = owners[id(declaration)]
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
        backends=tuple(_limited_backend(backend, limit, owners[id(backend)]) for backend in plain.backends),
        vendors=each(plain.vendors, "recognise", "requested"),
        queue=guard(
            plain.queue,
            "assign",
            "admission",
            "manages",
            "is_changing",
            "fewest_pods",
            "merge_live",
            "queues",
            "writers",
            "waiting",
            "relief",
        )
        if plain.queue
        else None,
        contributions=each(plain.contributions, "contribute"),
        namespace_defaults=each(plain.namespace_defaults, "read"),
        sources=tuple(_limited_source(source, limit, owners[id(source)]) for source in plain.sources),
        diagnosis=each(plain.diagnosis, "diagnose"),
    )


def _limited_backend(backend: Backend, limit: TimeLimit, plugin: str) -> Backend:
    """The backend with the import of its class and all of its methods under the limit."""
    implementation = backend.implementation
    if implementation is None:
        return backend

    @cache
    def limited(block: str) -> BackendBase:
        loaded = limit.wrap(plugin, f"import of plugin {plugin}", implementation)(block)
        for name in BACKEND_METHODS:
            setattr(loaded, name, limit.wrap(plugin, f"{name} of plugin {plugin}", getattr(loaded, name)))
        return loaded

    return replace(backend, implementation=limited)


@dataclass(frozen=True, slots=True, kw_only=True)
class _LimitedSource(DownloadSource):
    """A download source whose item model also runs under a time limit."""

    limit: TimeLimit

    def item_error(self, item: Mapping[str, Any]) -> ValidationError | None:
        what = f"item validator of plugin {self.plugin}"
        return self.limit.wrap(self.plugin, what, partial(DownloadSource.item_error, self))(item)


def _limited_source(source: DownloadSource, limit: TimeLimit, plugin: str) -> DownloadSource:
    """The source with its functions and its item model under the limit."""

    def warnings(item: Mapping[str, Any]) -> tuple[Problem, ...]:
        return tuple(source.warnings(item))  # a generator would run after the call

    given = {field.name: getattr(source, field.name) for field in fields(source)}
    given["secrets"] = limit.wrap(plugin, f"secrets of plugin {plugin}", source.secrets)
    given["warnings"] = limit.wrap(plugin, f"warnings of plugin {plugin}", warnings)
    return _LimitedSource(**given, limit=limit)
