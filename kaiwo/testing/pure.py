"""Calls a function that must be pure, and fails where it is not."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, Final

from kaiwo.testing.assertions import require
from kaiwo.testing.effects import watched_effects

if TYPE_CHECKING:
    from collections.abc import Callable

_ADDRESS: Final = re.compile(r" at 0x[0-9a-f]+")


def pure_result(what: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function twice with the same arguments.

    Args:
        what: what to call it in messages (``queue system acme: assign``).
        function: the function.
        arguments: what it gets.

    Returns:
        Its result.

    Raises:
        AssertionError: it raises, changes its arguments, returns another result the second time, or reaches
            outside: a clock, a file, the network, random numbers, the environment.
    """
    before = comparable(arguments)
    try:
        found = function(*arguments)
        # What it imports, it has imported now.
        with watched_effects() as effects:
            again = function(*arguments)
    except Exception as error:
        raise AssertionError(f"{what} raised {error!r}") from error
    require(comparable(arguments) == before, f"{what} changed what it was given")
    require(again == found, f"{what} returned another result the second time")
    require(not effects, f"{what} is not pure: {'; '.join(effects)}")
    return found


def comparable(value: Any) -> str:
    """A text that is equal for equal values, also in another process."""
    if isinstance(value, Mapping):
        parts = sorted(f"{comparable(key)}: {comparable(item)}" for key, item in value.items())
        return f"{{{', '.join(parts)}}}"
    if isinstance(value, set | frozenset):
        return f"set({', '.join(sorted(map(comparable, value)))})"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(comparable, value))}]"
    if is_dataclass(value) and not isinstance(value, type):
        parts = [f"{each.name}={comparable(getattr(value, each.name))}" for each in fields(value)]
        return f"{type(value).__name__}({', '.join(parts)})"
    if hasattr(value, "model_fields_set"):
        return f"{type(value).__name__}({comparable(dict(value))})"
    return _ADDRESS.sub("", repr(value))
