"""What one YAML scalar means: text, number, boolean or nothing, as kubectl reads it."""

from __future__ import annotations

import math
import re
from typing import Any, NoReturn

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE = frozenset({"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"})
_FALSE = frozenset({"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"})
_INTEGER = re.compile(r"[-+]?(?:0b[01_]+|0o[0-7_]+|0x[0-9a-fA-F_]+|0[0-7_]+|0|[1-9][0-9_]*)")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9]+)?")
_NO_NUMBER = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
TAG = "tag:yaml.org,2002:"
_MAX_DIGITS = 400  # far beyond int64 and double; a longer one would only cost time


class DocumentError(Exception):
    """Text that is not YAML, or YAML that no Kubernetes object can be.

    Attributes:
        line: counted from 1.
        column: counted from 1.
        message: one line.
    """

    def __init__(self, line: int, column: int, message: str) -> None:
        super().__init__(message)
        self.line = line
        self.column = column
        self.message = message


def scalar(event: Any) -> Any:
    """The JSON value of a scalar event.

    Raises:
        DocumentError: a tag or a number that no manifest can carry.
    """
    text: str = event.value
    tag = event.tag
    if tag is not None and tag != "!":
        return _tagged(event, tag.removeprefix(TAG), text)
    if not event.implicit[0] or tag == "!":
        return text
    if text in _NULL:
        return None
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    if _INTEGER.fullmatch(text):
        return _integer(event, text)
    if _FLOAT.fullmatch(text) and any(c.isdigit() for c in text):
        return _number(event, text)
    if _NO_NUMBER.fullmatch(text):
        fail(event, f"{text} is not a finite number; write a number, or quote it")
    return text


def is_text(text: str) -> bool:
    """Whether the text, written without quotes, is read as text and not as a number, a boolean or nothing."""
    return not (
        text in _NULL
        or text in _TRUE
        or text in _FALSE
        or _INTEGER.fullmatch(text)
        or _FLOAT.fullmatch(text)
        or _NO_NUMBER.fullmatch(text)
    )


def _tagged(event: Any, tag: str, text: str) -> Any:
    match tag:
        case "str":
            return text
        case "null" if text in _NULL:
            return None
        case "bool" if text in _TRUE or text in _FALSE:
            return text in _TRUE
        case "int" if _INTEGER.fullmatch(text):
            return _integer(event, text)
        case "float" if _FLOAT.fullmatch(text):
            return _number(event, text)
    return fail(event, f"the tag {short(event.tag)} is not supported; remove it")


def _integer(event: Any, text: str) -> int:
    plain = text.replace("_", "")
    if len(plain) > _MAX_DIGITS:
        fail(event, f"a number of {len(plain)} digits is too large")
    sign, digits = (-1 if plain[0] == "-" else 1), plain.lstrip("+-")
    if len(digits) > 1 and digits[0] == "0" and digits[1].isdigit():
        return sign * int(digits, 8)
    try:
        return sign * int(digits, 0)
    except ValueError:
        return fail(event, f"{text} is not a number")


def _number(event: Any, text: str) -> float | int:
    value = float(text.replace("_", ""))
    if not math.isfinite(value):
        fail(event, f"{text} is too large for a number")
    return value


def mark(event: Any) -> tuple[int, int]:
    """Line and column where an event begins, counted from 1."""
    return event.start_mark.line + 1, event.start_mark.column + 1


def fail(event: Any, message: str) -> NoReturn:
    """Raise a DocumentError at an event."""
    raise DocumentError(*mark(event), message)


def short(tag: str) -> str:
    """A tag as it is written in YAML."""
    return "!!" + tag.removeprefix(TAG) if tag.startswith(TAG) else tag
