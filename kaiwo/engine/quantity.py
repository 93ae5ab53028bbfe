"""Kubernetes quantities (``500m``, ``16Gi``, ``1e3``), exact.

The grammar, the rounding and the canonical form are those of the API server (``resource.Quantity`` of
k8s.io/apimachinery): values are kept to a billionth, smaller parts are rounded away from zero, and amounts
with a binary suffix are capped at 2^63 - 1.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache, total_ordering
from typing import Literal, TypeAlias

Form: TypeAlias = Literal["decimal", "binary", "exponent"]
"""How a quantity is written: ``16G``, ``16Gi`` or ``16e9``."""

NANO = 10**9
"""Billionths, in which amounts are counted, of one."""
_MAX_BINARY = (2**63 - 1) * NANO
MAX_LENGTH = 100
"""Characters; the API server takes more, and no quantity of this world needs them."""

_MAX_EXPONENT = 100  # likewise

PATTERN = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?[0-9]+))?$"
)
"""The pattern of a quantity, for CRD schemas; a Go and a Python regular expression alike."""

_SPLIT = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?(?:([KMGTPE]i|[numkMGTPE]?)|[eE]([+-]?[0-9]+))")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_DECIMAL_SUFFIX = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_BINARY_SUFFIX = {0: "", **{exponent: suffix for suffix, exponent in _BINARY.items()}}
_EVERYDAY = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([KMGTP])(i?b?)\s*", re.IGNORECASE)
_EXAMPLE = 'write it as 4, "500m", "16Gi" or "1.5"'


class InvalidQuantity(ValueError):
    """A text that is no quantity; the message shows it and gives examples."""


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Quantity:
    """An amount of a resource. Equal and ordered by value, whatever it was written as.

    Attributes:
        nano: the amount in billionths of the unit (cores, bytes, pieces).
        form: the family of suffixes it was written with, which the canonical text keeps.
    """

    nano: int
    form: Form = "decimal"

    @property
    def value(self) -> Decimal:
        """The amount as an exact decimal number."""
        return Decimal(self.nano).scaleb(-9)

    @property
    def units(self) -> int:
        """The amount in whole units, rounded up as the API server does (``1500m`` is 2)."""
        return -(-self.nano // NANO)

    @property
    def milli(self) -> int:
        """The amount in thousandths, rounded up."""
        return -(-self.nano // 10**6)

    def __eq__(self, other: object) -> bool:
        """By value: ``1000m`` is ``1``, ``1Gi`` is ``1024Mi``."""
        return isinstance(other, Quantity) and self.nano == other.nano

    def __lt__(self, other: Quantity) -> bool:
        """By value."""
        return self.nano < other.nano

    def __hash__(self) -> int:
        """By value."""
        return hash(self.nano)

    def __bool__(self) -> bool:
        """Whether the amount differs from zero."""
        return self.nano != 0

    def __add__(self, other: Quantity) -> Quantity:
        """The sum, in the form of the first that is not zero."""
        return Quantity(self.nano + other.nano, self.form if self.nano else other.form)

    def __sub__(self, other: Quantity) -> Quantity:
        """The difference."""
        return Quantity(self.nano - other.nano, self.form if self.nano else other.form)

    def __mul__(self, factor: int) -> Quantity:
        """The amount taken ``factor`` times."""
        return Quantity(self.nano * factor, self.form)

    __rmul__ = __mul__

    def __str__(self) -> str:
        """The canonical text, as the API server prints an amount that it worked out."""
        if self.nano == 0:
            return "0"
        whole, rest = divmod(self.nano, NANO)
        if self.form == "binary" and rest == 0 and not -1024 < whole < 1024:  # noqa: PLR2004 (1Ki)
            power = 0
            while whole % 1024 == 0 and power < 60:  # noqa: PLR2004 (Ei is the largest suffix)
                whole //= 1024
                power += 10
            return f"{whole}{_BINARY_SUFFIX[power]}"
        digits, exponent = self.nano, -9
        while digits % 1000 == 0 and (exponent < 18 or self.form == "exponent"):  # noqa: PLR2004 (up to E)
            digits //= 1000
            exponent += 3
        if self.form == "exponent":
            return f"{digits}e{exponent}" if exponent else str(digits)
        return f"{digits}{_DECIMAL_SUFFIX[exponent]}"


def parse_quantity(text: str | float) -> Quantity:
    """Read a quantity as users and the API server write it; numbers are taken as their JSON text.

    Raises:
        InvalidQuantity: with the value and examples of what would be right.
    """
    if isinstance(text, bool) or not isinstance(text, str | int | float):
        raise InvalidQuantity(f"{text!r} is not a quantity; {_EXAMPLE}")
    return _parse(text if isinstance(text, str) else str(text))


@lru_cache(maxsize=4096)
def _parse(text: str) -> Quantity:
    match = _SPLIT.fullmatch(text) if len(text) <= MAX_LENGTH else None
    if match is None or not (match[2] or match[3]) or int(match[5] or 0) > _MAX_EXPONENT:
        shown = text if len(text) <= 40 else f"{text[:39]}…"  # noqa: PLR2004 (keeps a message on its line)
        raise InvalidQuantity(f'"{shown}" is not a quantity; {_near(text) or _EXAMPLE}')
    sign, whole, part, suffix, exponent = match.groups()
    part = part or ""
    number = int((whole or "0") + part)
    form: Form = "decimal"
    if exponent is not None:
        form = "exponent"
        scale = Fraction(10) ** max(int(exponent), -2 * _MAX_EXPONENT)
    elif suffix in _BINARY:
        form = "binary"
        scale = Fraction(1 << _BINARY[suffix])
    else:
        scale = Fraction(10) ** _DECIMAL[suffix or ""]
    nano = _round_away(Fraction(number, 10 ** len(part)) * scale * NANO)
    if form == "binary":
        nano = min(nano, _MAX_BINARY)
        form = "decimal" if 0 < nano < NANO else "binary"
    return Quantity(-nano if sign == "-" else nano, form)


def _near(text: str) -> str:
    """What a number with a unit of everyday use, as ``64GB`` or ``64 gib``, probably means."""
    match = _EVERYDAY.fullmatch(text)
    if match is None:
        return ""
    number, letter = match[1], match[2].upper()
    decimal = "k" if letter == "K" else letter
    return f'write "{number}{letter}i", or "{number}{decimal}" for powers of ten'


def _round_away(value: Fraction) -> int:
    magnitude = -(-abs(value.numerator) // value.denominator)
    return magnitude if value >= 0 else -magnitude


def quantity(value: object) -> Quantity | None:
    """Read whatever stands where a quantity belongs; None when it is none."""
    try:
        return parse_quantity(value) if isinstance(value, str | int | float) else None
    except InvalidQuantity:
        return None
