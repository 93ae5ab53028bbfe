"""Kubernetes quantities as exact numbers."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from fractions import Fraction

_FORM = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([eE][+-]?\d{1,3})|([KMGTPE]i|[numkMGTPE]))?")
_SCALE: dict[str, Fraction] = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 10**3),
    **{unit: Fraction(1000 ** (power + 1)) for power, unit in enumerate("kMGTPE")},
    **{f"{unit}i": Fraction(1024 ** (power + 1)) for power, unit in enumerate("KMGTPE")},
}


def quantity(value: object) -> Fraction | None:
    """The number that a quantity such as ``1500m``, ``1Gi`` or ``2e3`` means, None when it is none."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return Fraction(value) if value == value and abs(value) != float("inf") else None  # noqa: PLR0124 -- NaN
    match = _FORM.fullmatch(value) if isinstance(value, str) and value.isascii() else None
    if match is None:
        return None
    number, exponent, unit = match.groups()
    try:
        amount = Fraction(Decimal(number + (exponent or "")))
    except InvalidOperation:  # digits beyond what a decimal holds
        return None
    return amount * _SCALE[unit] if unit else amount
