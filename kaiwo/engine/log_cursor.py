"""Where the reading of one container's log is: whole lines, each once, over any number of connections.

A kubelet can start a log at a second, not at a line. After a lost connection the log is therefore asked for
from two seconds before the last line, and what was delivered already is left out. Lines are compared whole,
time included: those of standard output and standard error can be a little out of order.
"""

from __future__ import annotations

import hashlib
from collections import Counter, deque
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from kaiwo.engine.timestamps import format_time

if TYPE_CHECKING:
    from collections.abc import Iterable

LONGEST_LINE: Final = 16 << 20
"""Bytes after which a line is cut in two."""

_KEPT: Final = 512
"""Bytes of the longest line that is remembered whole; of longer ones a digest is."""

_MARGIN: Final = 1
"""Seconds before the last line whose lines are remembered."""

_TIME_BYTES: Final = 20  # "2026-01-31T09:00:00Z"
_T: Final = 10  # index of the letter between date and time


class LogCursor:
    """The state of one container's log. Lines come with times, as ``timestamps=true`` gives them.

    Attributes:
        has_gap: lines may be missing: the log was rotated while there was no connection.
    """

    def __init__(self) -> None:
        self.has_gap = False
        self._parts: list[bytes] = []
        self._size = 0
        self._recent: deque[tuple[int, list[bytes]]] = deque()
        self._newest = 0  # epoch seconds of the last line, 0 before the first one
        self._last = b""
        self._expected: Counter[bytes] | None = None

    @property
    def since(self) -> str:
        """The time from which on the log is to be asked for next; empty before the first line."""
        if not self._newest:
            return ""
        return format_time(datetime.fromtimestamp(self._newest - _MARGIN - 1, UTC))

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that these bytes complete, without those that were delivered before."""
        if b"\n" not in chunk and self._size + len(chunk) < LONGEST_LINE:
            self._parts.append(chunk)
            self._size += len(chunk)
            return []
        lines = (b"".join((*self._parts, chunk)) if self._parts else chunk).split(b"\n")
        rest = lines.pop()
        while len(rest) >= LONGEST_LINE:
            lines.append(rest[:LONGEST_LINE])
            rest = rest[LONGEST_LINE:]
        self._parts, self._size = ([rest] if rest else []), len(rest)
        return self._taken(lines)

    def disconnect(self) -> bytes:
        """The connection ended, what comes next is a repetition; returns the line that was cut in two."""
        half = b"".join(self._parts)
        self._parts, self._size = [], 0
        if self._newest:
            self._expected = Counter(line for _, lines in self._recent for line in lines)
        return half

    def restart(self) -> None:
        """The container was started again: its new log begins later than the old one ended."""
        self.disconnect()
        self._last = b""

    def copy(self) -> LogCursor:
        """Another cursor at the same place."""
        made = LogCursor()
        made._recent = self._recent.copy()
        made._newest, made._last = self._newest, self._last
        made.disconnect()
        return made

    def finish(self) -> list[bytes]:
        """The last line, when the log is at its end and no line break follows."""
        rest = b"".join(self._parts)
        self._parts, self._size = [], 0
        return self._taken([rest]) if rest else []

    def _taken(self, lines: list[bytes]) -> list[bytes]:
        if self._expected is not None:
            lines = self._new(lines, self._expected)
        if lines:
            self._remember(lines)
        return lines

    def _new(self, lines: Iterable[bytes], expected: Counter[bytes]) -> list[bytes]:
        """What was not delivered before."""
        found: list[bytes] = []
        oldest = self._newest - _MARGIN
        for line in lines:
            if self._expected is None:
                found.append(line)
                continue
            key = _key(line)
            if expected.get(key):
                expected[key] -= 1
                continue
            second = epoch(line)
            if second is not None and second < oldest:
                continue
            if second is not None and second > self._newest + _MARGIN:
                self._end_of_repetition(expected)
            found.append(line)
        return found

    def _end_of_repetition(self, expected: Counter[bytes]) -> None:
        # The last line is always asked for again: without it the log begins later than it ended before.
        self.has_gap = self.has_gap or bool(self._last and expected.get(self._last))
        self._expected = None

    def _remember(self, lines: list[bytes]) -> None:
        keys = [line if len(line) <= _KEPT else _key(line) for line in lines]
        # With one offset from UTC times sort as text. Where the offset changes, the last line counts too.
        timed = [line for line in lines if line[:1].isdigit()] or [b""]
        newest = max(self._newest, epoch(max(timed)) or 0, epoch(timed[-1]) or 0)
        self._newest, self._last = newest, keys[-1]
        recent = self._recent
        recent.append((newest, keys))
        while recent[0][0] < newest - _MARGIN:
            recent.popleft()


def _key(line: bytes) -> bytes:
    return line if len(line) <= _KEPT else line[:_TIME_BYTES] + hashlib.blake2b(line).digest()


def epoch(line: bytes) -> int | None:
    """The second at which a line was written; None for one without a time."""
    stamp = line[: line.find(b" ") if b" " in line[:64] else None]
    if len(stamp) < _TIME_BYTES or stamp[_T : _T + 1] != b"T":
        return None
    try:
        return int(datetime.fromisoformat(stamp.decode()).timestamp())
    except ValueError:
        return None


def split_time(line: bytes) -> tuple[str, bytes]:
    """The time and the text of a line; an empty time for a line of the kubelet itself, which has none."""
    stamp, space, text = line.partition(b" ")
    if space and len(stamp) >= _TIME_BYTES and stamp[_T : _T + 1] == b"T" and stamp[:4].isdigit():
        return stamp.decode("ascii", "replace"), text
    return "", line
