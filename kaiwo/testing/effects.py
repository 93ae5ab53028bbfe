"""Finds out whether a call reads a clock, does I/O, draws random numbers or reads the environment.

The interpreter reports each call of a C function to a profile function. Everything that reaches outside of
the process goes through one. Imports are passed over: a function may import what it needs.
"""

from __future__ import annotations

import os
import random
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

_CLOCKS: Final = {
    "clock_gettime",
    "clock_gettime_ns",
    "localtime",
    "monotonic",
    "monotonic_ns",
    "perf_counter",
    "perf_counter_ns",
    "process_time",
    "process_time_ns",
    "sleep",
    "thread_time",
    "thread_time_ns",
    "time",
    "time_ns",
}
_NOW: Final = {"datetime.now", "datetime.utcnow", "datetime.today", "date.today"}
_PURE_OF_POSIX: Final = {"fspath", "waitstatus_to_exitcode"}
_OUTSIDE: Final = {"_posixsubprocess", "_socket", "_ssl", "_thread", "select"}
"""C modules of which every function reaches outside of the calling thread."""

_PURE_OF_THREADS: Final = {"allocate_lock", "get_ident", "lock", "RLock", "LockType", "local"}
_SHARED_RANDOM: Final = random.getrandbits.__self__  # type: ignore[attr-defined]  # a bound method
"""The generator of the module's functions; one with a seed of its own is as pure as any other object."""

_IN_MEMORY: Final = {"BytesIO", "StringIO"}
_IMPORT_SYSTEM: Final = "<frozen importlib"


class _Watcher:
    """The profile function, and what it found."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self._importing: FrameType | None = None

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        if self._importing is not None:
            if event == "return" and frame is self._importing:
                self._importing = None
        elif event == "call":
            code = frame.f_code
            if code.co_filename.startswith(_IMPORT_SYSTEM):
                self._importing = frame
            elif code.co_qualname == "_Environ.__getitem__":
                self._note("reads an environment variable", frame)
        elif event == "c_call" and (what := _effect(argument)):
            self._note(what, frame)

    def _note(self, what: str, frame: FrameType) -> None:
        text = f"{what} in {place(frame)}"
        if text not in self.found:
            self.found.append(text)


def _effect(function: Any) -> str:
    """What a C function reaches outside of the process for; empty for nothing."""
    name = getattr(function, "__name__", "")
    qualified = getattr(function, "__qualname__", name)
    owner = getattr(function, "__self__", None)
    # Of a function of a module the owner is the module, of a class method the class.
    holder = type(owner).__module__ if owner is not None else ""
    module = getattr(function, "__module__", None) or holder
    if qualified in _NOW:
        return f"reads the clock ({qualified})"
    if module == "time" and name in _CLOCKS:
        return f"sleeps ({module}.{name})" if name == "sleep" else f"reads the clock ({module}.{name})"
    if module in ("posix", "nt") and name == "urandom":
        return "draws random numbers (os.urandom)"
    if owner is _SHARED_RANDOM:
        return f"draws random numbers (random.{name})"
    if (module in ("posix", "nt") and name not in _PURE_OF_POSIX) or (
        module in ("_io", "io") and name in ("open", "open_code")
    ):
        return f"does I/O ({'os' if module in ('posix', 'nt') else 'builtins'}.{name})"
    if holder == "_io" and type(owner).__name__ not in _IN_MEMORY:
        return f"does I/O ({type(owner).__name__}.{name})"
    if type(owner).__name__ in ("lock", "RLock"):
        return ""
    for where in (module, holder):
        if where in _OUTSIDE and name not in _PURE_OF_THREADS:
            return f"does I/O ({where.removeprefix('_')}.{name})"
    return f"does I/O ({name})" if module == "builtins" and name in ("print", "input", "breakpoint") else ""


def place(frame: FrameType | None) -> str:
    """The innermost place that is neither of the standard library nor of Kaiwo: ``kaiwo_acme/backend.py:12``.

    Without such a place it is the innermost one.
    """
    innermost = line_of(frame) if frame else "an unknown place"
    while frame is not None:
        if foreign(frame):
            return line_of(frame)
        frame = frame.f_back
    return innermost


def foreign(frame: FrameType) -> bool:
    """Whether the code of a frame is neither of the standard library nor of Kaiwo."""
    package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
    return bool(package) and package != "kaiwo" and package not in sys.stdlib_module_names


def line_of(frame: FrameType, number: int | None = None) -> str:
    """File and line of a frame, from the package's folder on."""
    folder = str(frame.f_globals.get("__name__", "")).partition(".")[0]
    filename = frame.f_code.co_filename
    _, found, rest = filename.rpartition(f"/{folder}/")
    name = f"{folder}/{rest}" if found else os.path.basename(filename)  # noqa: PTH119  a string
    return f"{name}:{frame.f_lineno if number is None else number}"


@contextmanager
def watched_effects() -> Iterator[list[str]]:
    """Collect what the calls of the block reach for; the list is filled while the block runs."""
    import gc

    watcher = _Watcher()
    before, collecting = sys.getprofile(), gc.isenabled()
    # What a collection ends has nothing to do with the call.
    gc.disable()
    sys.setprofile(watcher)
    try:
        yield watcher.found
    finally:
        sys.setprofile(before)
        if collecting:
            gc.enable()
