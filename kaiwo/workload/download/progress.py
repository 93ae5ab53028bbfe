"""How far a download is, from the lines that the download program writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import msgspec

_STEP = 1024
_UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB")


@dataclass(frozen=True, slots=True)
class Progress:
    """What one line says.

    Attributes:
        done: bytes that are there.
        total: bytes that there will be, 0 while nobody knows.
    """

    done: int
    total: int

    @property
    def text(self) -> str:
        """``Downloading 41 % of 64 GiB``; 100 % only when all is there."""
        if self.total > 0:
            share = min(100, max(0, self.done) * 100 // self.total)
            return f"Downloading {share} % of {size(self.total)}"
        return f"Downloading, {size(self.done)} so far" if self.done > 0 else "Downloading"


_Bytes = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
"""What fits 64 bits: a log is whatever its container writes."""


class _Line(msgspec.Struct):
    event: str = ""
    done: _Bytes = msgspec.field(name="bytesDone", default=0)
    total: _Bytes = msgspec.field(name="bytesTotal", default=0)


_decoder = msgspec.json.Decoder(_Line)


def progress_of(line: bytes) -> Progress | None:
    """What a line of ``kaiwo-download --progress=json`` says of its progress; None for any other line."""
    try:
        found = _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return Progress(found.done, found.total) if found.event == "progress" else None


def size(count: int) -> str:
    """Bytes with a binary unit and at most one decimal place: ``64 GiB``, ``1.5 MiB``."""
    if count < _STEP:
        return f"{count} B"
    value = float(count)
    unit = ""
    for unit in _UNITS:  # noqa: B007  the last one is used after the loop
        value /= _STEP
        if round(value, 1) < _STEP:
            break
    return f"{value:.1f}".removesuffix(".0") + f" {unit}"
