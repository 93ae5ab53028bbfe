"""From pydantic's errors to problems that a user can act on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kaiwo.api.errors import Problem, join_path, shorten
from kaiwo.api.scalars import PATTERN_WORDS
from kaiwo.api.suggestion import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

_QUANTITY_TAGS = frozenset({"str", "int"})


def explain(
    error: ValidationError,
    prefix: Sequence[str | int] = (),
    siblings: Callable[[tuple[str | int, ...]], Collection[str]] | None = None,
) -> list[Problem]:
    """One problem for each thing that is wrong, in the order of the object, without duplicates.

    Args:
        error: as raised by a model.
        prefix: where the model sits in the object, for example ``("spec",)``.
        siblings: gives the known fields of the object at a location below the prefix; with it an unknown
            field is answered with the nearest known one.
    """
    problems: dict[str, Problem] = {}
    for detail in error.errors(include_url=False):
        location = tuple(detail["loc"])
        if location and location[-1] in _QUANTITY_TAGS:
            location = location[:-1]
        known = siblings(location[:-1]) if siblings else ()
        path = join_path((*prefix, *(part for part in location if part != "[key]")))
        problems.setdefault(path, _problem(path, detail, location, known))
    return list(problems.values())


def _problem(
    path: str, detail: ErrorDetails, location: tuple[str | int, ...], known: Collection[str]
) -> Problem:
    kind, value = detail["type"], detail["input"]
    bounds: dict[str, Any] = detail.get("ctx", {})
    if kind == "extra_forbidden":
        name = str(location[-1]) if location else ""
        return Problem(path, "is not a known field", did_you_mean(name, known) or _listing(known))
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
    if kind == "string_type" and isinstance(value, dict | list):
        kind = "string_of_several"
    template = _MESSAGES.get(kind)
    if template is None:
        return Problem(path, f"{shorten(value)}: {detail['msg'][:1].lower()}{detail['msg'][1:]}")
    message, hint = template
    shown = (
        shorten(value)
        if not isinstance(value, dict | list)
        else ("a mapping" if isinstance(value, dict) else "a list")
    )
    fields = {"value": shown, "plain": shorten(str(value)).strip('"'), **bounds}
    return Problem(path, message.format_map(fields), hint.format_map(fields))


def _listing(known: Collection[str]) -> str:
    names = sorted(known)
    if not names or len(names) > 12:  # noqa: PLR2004 (a longer list hides more than it shows)
        return "remove it" if not names else "see the reference for the known fields"
    return "known here: " + ", ".join(names)


_MESSAGES: dict[str, tuple[str, str]] = {
    "int_type": ("{value} is not a whole number", "write a number without quotes, for example 8"),
    "int_from_float": ("{value} is not a whole number", "write a number without a fraction, for example 8"),
    "int_parsing_size": ("{value} is too large", ""),
    "float_type": ("{value} is not a number", "write a number without quotes, for example 0.5"),
    "finite_number": ("{value} is not a finite number", ""),
    "bool_type": ("{value} is neither true nor false", "write true or false without quotes"),
    "string_type": ("{value} is not a text", 'put it in quotes: "{plain}"'),
    "string_of_several": ("{value} is not a text", "write it as one text"),
    "dict_type": ("{value} is not a mapping", "write it as indented key: value lines"),
    "model_type": ("{value} is not a mapping", "write it as indented key: value lines"),
    "tuple_type": ("{value} is not a list", "write each item on a line of its own that starts with a dash"),
    "list_type": ("{value} is not a list", "write each item on a line of its own that starts with a dash"),
    "literal_error": ("{value} is not possible", "use {expected}"),
    "greater_than_equal": ("{value} is less than {ge}", "the smallest value is {ge}"),
    "greater_than": ("{value} is not greater than {gt}", "use a value above {gt}"),
    "less_than_equal": ("{value} is greater than {le}", "the largest value is {le}"),
    "string_too_short": ("is empty", "give at least {min_length} character(s)"),
    "string_too_long": ("{value} is longer than {max_length} characters", "shorten it"),
    "too_long": ("has {actual_length} items, more than {max_length}", "remove some"),
}
