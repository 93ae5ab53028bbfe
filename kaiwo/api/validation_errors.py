"""From pydantic's errors to problems that a user can act on."""

from __future__ import annotations

import re
from collections.abc import Sized
from typing import TYPE_CHECKING, Any

from kaiwo.api.errors import (
    UNKNOWN_FIELD,
    Problem,
    describe,
    describe_type,
    join_path,
    not_a_string,
    shorten,
)
from kaiwo.api.scalars import PATTERN_WORDS
from kaiwo.api.suggestion import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

_QUANTITY_TAGS = frozenset({"str", "int"})

MOST_PROBLEMS = 50
"""Problems of one object that are reported; nobody reads more, and each takes time."""


def explain(
    error: ValidationError,
    prefix: Sequence[str | int] = (),
    siblings: Callable[[tuple[str | int, ...]], Collection[str]] | None = None,
) -> list[Problem]:
    """The first problems, in the order of the object, without duplicates; `MOST_PROBLEMS` at most.

    Args:
        error: as raised by a model.
        prefix: where the model sits in the object, for example ``("spec",)``.
        siblings: gives the known fields of the object at a location below the prefix; with it an unknown
            field is answered with the nearest known one.
    """
    problems: dict[str, Problem] = {}
    for detail in _causes(error):
        if len(problems) == MOST_PROBLEMS:
            break
        location = tuple(detail["loc"])
        if location and location[-1] in _QUANTITY_TAGS:
            location = location[:-1]
        known = siblings(location[:-1]) if siblings else ()
        path = join_path((*prefix, *(part for part in location if part != "[key]")))
        problems.setdefault(path, _problem(path, detail, location, known))
    return list(problems.values())


def _causes(error: ValidationError) -> Iterator[ErrorDetails]:
    """The errors of a model that do not follow from others.

    Pydantic counts only the valid items of a list, so that one invalid item makes a list of one too short.
    """
    for detail in error.errors(include_url=False):
        counted = detail["type"] == "too_short" and isinstance(detail["input"], Sized)
        if not counted or len(detail["input"]) < detail["ctx"]["min_length"]:
            yield detail


def _problem(
    path: str, detail: ErrorDetails, location: tuple[str | int, ...], known: Collection[str]
) -> Problem:
    kind, value = detail["type"], detail["input"]
    bounds = {name: _plain(bound) for name, bound in detail.get("ctx", {}).items()}
    if kind == "extra_forbidden":
        name = str(location[-1]) if location else ""
        return Problem(path, UNKNOWN_FIELD, did_you_mean(name, known) or _listing(known))
    if kind == "missing":
        return Problem(path, "is required", "add it")
    if kind == "value_error":
        return Problem(path, str(bounds.get("error", detail["msg"])))
    if kind == "string_pattern_mismatch":
        pattern = str(bounds.get("pattern"))
        return Problem(
            path, f"{shorten(value)} is not {PATTERN_WORDS.get(pattern, f'of the form {pattern}')}"
        )
    if value is None and kind.endswith("_type"):
        return Problem(path, "has no value", "give it one, or remove it")
    if kind == "string_type":
        return not_a_string(path, value)
    message, hint = _MESSAGES.get(kind, _OTHER)
    hint = _shape_hint(path, value) or hint
    shown = describe_type(value) if isinstance(value, dict | list) else shorten(value)
    fields = {"value": shown, "got": describe(value), "type": describe_type(value), **bounds}
    return Problem(path, message.format_map(fields), hint.format_map(fields))


def _plain(bound: Any) -> Any:
    """A bound as people write it: 100, where pydantic has 100.0 for a field of numbers."""
    return int(bound) if isinstance(bound, float) and bound.is_integer() else bound


def _shape_hint(path: str, value: object) -> str:
    """How to write a value whose shape is a usual slip, without the value; empty for other values."""
    if path.endswith("env") or ".env[" in path:
        return f"write each variable as {_VARIABLE}" if isinstance(value, str | dict | list) else ""
    if isinstance(value, str) and (key := _GLUED.match(value)):
        return f'put a blank after the colon: "{key[1]}: ..."'
    return ""


def _listing(known: Collection[str]) -> str:
    names = sorted(known)
    if not names or len(names) > 12:  # noqa: PLR2004 (a longer list hides more than it shows)
        return "remove it" if not names else "see the reference for the known fields"
    return "known here: " + ", ".join(names)


_VARIABLE = "two lines: - name: NAME, and value: VALUE indented below name"

_GLUED = re.compile(r"([a-z][A-Za-z]*):\S")
"""A key and a value without the blank that YAML needs between them."""

_MAPPING = ("expected a mapping, got {type}", "write it as indented key: value lines")
_LIST = ("expected a list, got {type}", "start each item on a line of its own with a dash")

_MESSAGES: dict[str, tuple[str, str]] = {
    "int_type": ("expected a whole number, got {got}", "for example 8"),
    "int_from_float": ("expected a whole number, got {value}", "for example 8"),
    "int_parsing_size": ("{value} is too large", ""),
    "float_type": ("expected a number, got {got}", "for example 0.5"),
    "finite_number": ("expected a finite number, got {value}", ""),
    "bool_type": ("expected true or false, got {got}", "no quotes"),
    # A mapping is expected where a Secret is named. Who writes the key itself must not see it in a log.
    "dict_type": _MAPPING,
    "model_type": _MAPPING,
    "tuple_type": _LIST,
    "list_type": _LIST,
    "literal_error": ("unknown value {value}", "expected {expected}"),
    "greater_than_equal": ("{value} is less than {ge}", "the smallest value is {ge}"),
    "greater_than": ("{value} is not greater than {gt}", "use a value above {gt}"),
    "less_than_equal": ("{value} is greater than {le}", "the largest value is {le}"),
    "less_than": ("{value} is not less than {lt}", "use a value below {lt}"),
    "string_too_short": ("is empty", "give at least {min_length} character(s)"),
    "string_too_long": ("{value} is longer than {max_length} characters", "shorten it"),
    "too_short": ("has {actual_length} items, fewer than {min_length}", "add an item, or remove the field"),
    "too_long": ("has more than {max_length} items", "remove some"),
}

_OTHER = ("{value} is not allowed here", "kubectl explain shows what the field takes")
"""For errors without words of their own: those of pydantic name Python's types."""
