"""Progress output: a bar on a terminal, a line every few seconds elsewhere, JSON lines on request."""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import TYPE_CHECKING, Literal, TextIO, TypeAlias

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

Style: TypeAlias = Literal["bar", "lines", "json"]

_LINE_SECONDS = 5.0
_BAR_SECONDS = 0.2
_JSON_SECONDS = 1.0
_BAR_WIDTH = 30
_UNIT = 1024


def format_bytes(count: float) -> str:
    """Format bytes with a binary unit, as ``1.5 GiB``."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < _UNIT:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= _UNIT
    return f"{count:.1f} TiB"


class DownloadProgress:
    """Counts bytes from any thread, and writes progress from a thread of its own."""

    def __init__(self, style: Style, out: TextIO | None = None) -> None:
        self.done = 0
        self.total = 0
        self.skipped = 0
        self._style = style
        self._out = out or sys.stderr
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._began = time.monotonic()
        self._thread = threading.Thread(target=self._write_periodically, name="progress", daemon=True)

    def __enter__(self) -> Self:
        """Begin to write progress."""
        self._began = time.monotonic()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Write the last line."""
        self._stop.set()
        self._thread.join()
        self._write(last=True)

    def add(self, count: int) -> None:
        """Count bytes that arrived; negative when they must be downloaded again."""
        with self._lock:
            self.done += count

    def expect(self, count: int) -> None:
        """Count bytes that will be downloaded."""
        with self._lock:
            self.total += count

    def skip(self, count: int) -> None:
        """Count bytes that are there already."""
        with self._lock:
            self.skipped += count

    def state(self) -> dict[str, int | float | None]:
        """The current numbers: bytes done (with skipped ones), total and per second; seconds left."""
        elapsed = max(time.monotonic() - self._began, 1e-3)
        rate = self.done / elapsed
        have, total = self.done + self.skipped, self.total
        return {
            "bytesDone": have,
            "bytesTotal": total,
            "bytesPerSecond": round(rate),
            "secondsLeft": round(max(total - have, 0) / rate) if rate else None,
        }

    def _write_periodically(self) -> None:
        pause = {"bar": _BAR_SECONDS, "lines": _LINE_SECONDS, "json": _JSON_SECONDS}[self._style]
        while not self._stop.wait(pause):
            self._write()

    def _write(self, *, last: bool = False) -> None:
        state = self.state()
        have, total = state["bytesDone"] or 0, state["bytesTotal"] or 0
        if self._style == "json":
            text = json.dumps({"event": "progress", **state}) + "\n"
        else:
            share = have / total if total else 1.0
            left = state["secondsLeft"]
            text = (
                f"{share:4.0%} of {format_bytes(total)} ({format_bytes(have)}), "
                f"{format_bytes(state['bytesPerSecond'] or 0)}/s"
                + (f", {left:.0f} s left" if left and not last else "")
            )
            if self._style == "bar":
                filled = round(min(share, 1) * _BAR_WIDTH)
                text = f"\r[{'#' * filled}{'.' * (_BAR_WIDTH - filled)}] {text}\x1b[K" + "\n" * last
            else:
                text += "\n"
        self._out.write(text)
        self._out.flush()
