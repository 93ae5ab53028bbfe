"""Faults that a test injects: which requests they affect, how often, and how."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, get_args

if TYPE_CHECKING:
    from collections.abc import Callable

MUTATING = frozenset({"POST", "PUT", "PATCH", "DELETE"})

_RequestFault = Literal["answer", "reset", "lose_answer", "cut_answer", "delay", "hang"]
_StreamFault = Literal["drop", "duplicate", "reorder", "truncate", "stall", "blind", "gone"]
STREAM_FAULTS: frozenset[str] = frozenset(get_args(_StreamFault))


@dataclass(frozen=True, slots=True)
class FaultRecord:
    """One request as it came in.

    Attributes:
        method: HTTP method, ``WATCH`` for watches.
        path: URL path.
        query: query string.
        subresource: last part of the path if it names one (status, scale, log, ...), else empty.
        code: HTTP status of the answer, 0 when none was given.
        injected: whether the proxy answered (or kept silent) in place of the API server.
        caller: the bearer token that the client sent; it tells clients of one proxy apart.
    """

    method: str
    path: str
    query: str
    subresource: str
    code: int
    injected: bool
    caller: str = ""


@dataclass(slots=True)
class Fault:
    """An injected fault; a test reads from it whether it happened.

    Attributes:
        kind: what happens.
        method: HTTP method or ``WATCH``; None for any.
        path: regular expression searched in the URL path.
        times: how often it still strikes; None for ever.
        after: how many matching requests pass unharmed before the first.
        status: HTTP status code of an answer in place of the API server's.
        retry_after: seconds of its Retry-After header, None for no header.
        seconds: how long an answer is delayed.
        event: type of the watch event that it strikes, None for any.
        name: name of the object of that event, None for any.
        struck: how often it has struck.
        happened: set once it struck as often as it was to: `times`, or once if there is no limit.
    """

    kind: _RequestFault | _StreamFault
    method: str | None
    path: re.Pattern[str]
    times: int | None
    after: int = 0
    status: int = 0
    retry_after: float | None = None
    seconds: float = 0.0
    event: str | None = None
    name: str | None = None
    struck: int = 0
    happened: asyncio.Event = field(default_factory=asyncio.Event)

    def strike(self) -> bool:
        """Whether it strikes once more."""
        if self.after:
            self.after -= 1
            return False
        if self.times is not None and self.struck >= self.times:
            return False
        self.struck += 1
        if self.struck >= (self.times or 1):
            self.happened.set()
        return True

    async def wait(self, timeout: float = 30.0) -> None:
        """Wait until it has struck as often as it was to.

        Raises:
            AssertionError: it did not in time.
        """
        try:
            await asyncio.wait_for(self.happened.wait(), timeout)
        except TimeoutError:
            raise AssertionError(f"{self} within {timeout:g} s") from None

    def __str__(self) -> str:
        """What it was to do, and how often it did."""
        about = [self.method, self.event, self.name, self.path.pattern]
        wanted = "at least 1" if self.times is None else str(self.times)
        return f"{' '.join([self.kind, *filter(None, about)])}: struck {self.struck} of {wanted}"


@dataclass(slots=True)
class Crash:
    """The crash between two writes: mutating requests after the first few are reset.

    Attributes:
        after: how many pass.
        lose_answer: the last one that passes is carried out, but its answer is lost.
        path: which mutating requests count.
        passed: how many came so far.
        happened: set once a request was stopped, or was carried out and its answer lost.
    """

    after: int
    lose_answer: bool
    path: re.Pattern[str]
    passed: int = 0
    happened: asyncio.Event = field(default_factory=asyncio.Event)

    def strike(self) -> Literal["pass", "lose", "stop"]:
        """What becomes of one more mutating request."""
        self.passed += 1
        if self.passed > self.after:
            return "stop"
        return "lose" if self.lose_answer and self.passed == self.after else "pass"

    def __str__(self) -> str:
        """After how many writes it was to come, and how many passed."""
        return f"crash after {self.after} writes {self.path.pattern}: {self.passed} came"


class Faults:
    """The faults that are active, and all that a test ever defined."""

    def __init__(self) -> None:
        """Start without faults."""
        self._faults: list[Fault] = []
        self._crash: Crash | None = None
        self._defined: list[Fault | Crash] = []

    def missed(self) -> list[str]:
        """Faults that did not take place as often as defined, whether they were cleared since or not."""
        return [str(fault) for fault in self._defined if not fault.happened.is_set()]

    # Faults of single requests.

    def answer(
        self,
        status: int,
        *,
        method: str | None = None,
        path: str = "",
        times: int | None = 1,
        after: int = 0,
        retry_after: float | None = None,
    ) -> Fault:
        """Answer with an error in place of the API server.

        Args:
            status: HTTP status code.
            method: HTTP method or ``WATCH``; None for any.
            path: regular expression searched in the URL path.
            times: how often; None for ever.
            after: how many matching requests pass unharmed before.
            retry_after: seconds of a Retry-After header.
        """
        return self._add(Fault("answer", method, re.compile(path), times, after, status, retry_after))

    def reset(self, *, method: str | None = None, path: str = "", times: int | None = 1) -> Fault:
        """Reset the connection; the API server never sees the request."""
        return self._add(Fault("reset", method, re.compile(path), times))

    def lose_answer(self, *, method: str | None = None, path: str = "", times: int | None = 1) -> Fault:
        """Let the API server carry the request out, then reset the connection."""
        return self._add(Fault("lose_answer", method, re.compile(path), times))

    def cut_answer(self, *, method: str | None = None, path: str = "", times: int | None = 1) -> Fault:
        """Let the API server carry the request out, then send the first half of its answer and end."""
        return self._add(Fault("cut_answer", method, re.compile(path), times))

    def delay(
        self, seconds: float, *, method: str | None = None, path: str = "", times: int | None = 1
    ) -> Fault:
        """Pass a request on only after some time."""
        return self._add(Fault("delay", method, re.compile(path), times, seconds=seconds))

    def hang(self, *, method: str | None = None, path: str = "", times: int | None = 1) -> Fault:
        """Never answer (until `clear`)."""
        return self._add(Fault("hang", method, re.compile(path), times))

    # Faults inside watch streams; each strikes at one event.

    def drop_event(
        self, event: str | None = None, *, name: str | None = None, path: str = "", times: int | None = 1
    ) -> Fault:
        """Swallow an event of a type (ADDED, MODIFIED, DELETED; None for any) about an object of a name."""
        return self._add(Fault("drop", None, re.compile(path), times, event=event, name=name))

    def duplicate_event(
        self, event: str | None = None, *, name: str | None = None, path: str = "", times: int | None = 1
    ) -> Fault:
        """Send an event twice."""
        return self._add(Fault("duplicate", None, re.compile(path), times, event=event, name=name))

    def reorder_event(
        self, event: str | None = None, *, name: str | None = None, path: str = "", times: int | None = 1
    ) -> Fault:
        """Send an event after the one that follows it."""
        return self._add(Fault("reorder", None, re.compile(path), times, event=event, name=name))

    def truncate_stream(
        self, event: str | None = None, *, name: str | None = None, path: str = "", times: int | None = 1
    ) -> Fault:
        """Send the first half of an event and end the stream."""
        return self._add(Fault("truncate", None, re.compile(path), times, event=event, name=name))

    def stall_stream(
        self, event: str | None = None, *, name: str | None = None, path: str = "", times: int | None = 1
    ) -> Fault:
        """Swallow an event and all that follow while the connection stays open."""
        return self._add(Fault("stall", None, re.compile(path), times, event=event, name=name))

    def blind_stream(
        self, event: str | None = None, *, name: str | None = None, path: str = "", times: int | None = 1
    ) -> Fault:
        """Send a bookmark in place of an event and of all that follow, while the connection stays open."""
        return self._add(Fault("blind", None, re.compile(path), times, event=event, name=name))

    def expire_stream(
        self, event: str | None = None, *, name: str | None = None, path: str = "", times: int | None = 1
    ) -> Fault:
        """Send an ERROR event with 410 in place of an event, and end the stream."""
        return self._add(Fault("gone", None, re.compile(path), times, event=event, name=name))

    def crash_after(self, writes: int, *, lose_answer: bool = False, path: str = "") -> asyncio.Event:
        """Let some mutating requests pass and reset all later ones: the crash between two writes.

        Args:
            writes: how many pass.
            lose_answer: the last one that passes is carried out, but its answer is lost.
            path: regular expression; other mutating requests are neither counted nor stopped.

        Returns:
            An event that is set once a request was stopped, or was carried out and its answer lost.
        """
        self._crash = Crash(writes, lose_answer, re.compile(path))
        self._defined.append(self._crash)
        return self._crash.happened

    def _add(self, fault: Fault) -> Fault:
        self._faults.append(fault)
        self._defined.append(fault)
        return fault

    def _find(self, match: Callable[[Fault], bool]) -> Fault | None:
        return next((fault for fault in self._faults if match(fault) and fault.strike()), None)
