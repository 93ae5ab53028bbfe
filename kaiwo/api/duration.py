"""Durations as Go writes them: ``1h30m``, ``1.5h``, ``90s``, ``500ms``."""

from __future__ import annotations

import re
from datetime import timedelta
from fractions import Fraction

PATTERN = r"^(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$"
"""The pattern of a duration, for CRD schemas; a Go and a Python regular expression alike."""

_WHOLE = re.compile(PATTERN)
_TERM = re.compile(r"([0-9]*)(?:\.([0-9]*))?(ns|us|µs|μs|ms|s|m|h)")
_DAYS = re.compile(r"([0-9]{1,4})\s*(d|w|days?|weeks?)", re.IGNORECASE)
_HOURS = {"d": 24, "day": 24, "days": 24, "w": 168, "week": 168, "weeks": 168}
_MICROSECONDS = {
    "ns": Fraction(1, 1000),
    "us": Fraction(1),
    "µs": Fraction(1),
    "μs": Fraction(1),
    "ms": Fraction(1000),
    "s": Fraction(10**6),
    "m": Fraction(60 * 10**6),
    "h": Fraction(3600 * 10**6),
}
_LONGEST = 2**63 // 1000  # Go counts nanoseconds in 64 bits: about 292 years
MAX_LENGTH = 200
"""Characters; the longest duration has fewer."""


class InvalidDuration(ValueError):
    """A text that is no duration; the message shows it and gives examples."""


def parse_duration(text: object) -> timedelta:
    """Read a duration of zero or more; parts below a microsecond are dropped.

    Raises:
        InvalidDuration: with the value, why, and examples of what would be right.
    """
    if not isinstance(text, str) or len(text) > MAX_LENGTH or not _WHOLE.match(text) or text.endswith("\n"):
        shown = str(text)[:40]
        days = _DAYS.fullmatch(shown.strip())
        hours = f'"{int(days[1]) * _HOURS[days[2].lower()]}h"' if days else '"90s", "30m", "1h30m" or "1.5h"'
        raise InvalidDuration(f'"{shown}" is not a duration; write it as {hours}')
    total = Fraction(0)
    for whole, part, unit in _TERM.findall(text):
        total += Fraction(int((whole or "0") + part), 10 ** len(part)) * _MICROSECONDS[unit]
    if total > _LONGEST:
        raise InvalidDuration(
            f'"{text}" is longer than a duration can be; the longest is about 292 years (2562047h)'
        )
    return timedelta(microseconds=int(total))
