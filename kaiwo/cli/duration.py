"""Time spans on the command line: read as Go writes them (``1h30m``), shown as kubectl shows ages."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

from kaiwo.engine.timestamps import parse_time

if TYPE_CHECKING:
    from datetime import datetime

_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86400, 365 * 86400


class Seconds(click.ParamType[float]):
    """A duration such as ``90s``, ``1h30m`` or ``2d``; a plain number is seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds as a float."""
        if isinstance(value, int | float):
            return float(value)
        text = str(value).strip()
        if re.fullmatch(r"\d+(\.\d+)?", text):
            return float(text)
        parts = _PART.findall(text)
        if not parts or "".join(number + unit for number, unit in parts) != text:
            self.fail(f'expected a duration such as 90s, 30m or 1h30m, got "{value}"', param, ctx)
        return sum(float(number) * _UNITS[unit] for number, unit in parts)


SECONDS = Seconds()


def span(seconds: float) -> str:
    """A span in at most two units, as kubectl shows ages: ``45s``, ``3m20s``, ``5h``, ``12d``."""
    total = max(0, int(seconds))
    if total < 2 * _MINUTE:
        return f"{total}s"
    for limit, big, small, letters in (
        (10 * _MINUTE, _MINUTE, 1, "ms"),
        (3 * _HOUR, _MINUTE, 0, "m"),
        (8 * _HOUR, _HOUR, _MINUTE, "hm"),
        (2 * _DAY, _HOUR, 0, "h"),
        (8 * _DAY, _DAY, _HOUR, "dh"),
        (2 * _YEAR, _DAY, 0, "d"),
    ):
        if total < limit:
            rest = total % big // small if small else 0
            return f"{total // big}{letters[0]}" + (f"{rest}{letters[1]}" if rest else "")
    return f"{total // _YEAR}y"


def since(text: object, now: datetime) -> str:
    """The span from a Kubernetes time to now; empty without one."""
    start = parse_time(text)
    return span((now - start).total_seconds()) if start else ""
