"""What the host relies on in a diagnosis rule."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kaiwo.plugin.observation import Finding
from kaiwo.testing.assertions import require
from kaiwo.testing.pure import pure_result

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kaiwo.engine.resource import Object
    from kaiwo.plugin.diagnosis import DiagnosisRule
    from kaiwo.plugin.observation import Observation


_ODD_VALUES: tuple[Any, ...] = (None, "", 7, [], {}, [None], "text")


def assert_rule_contract(
    rule: DiagnosisRule,
    *,
    finds: Sequence[tuple[Observation, str]],
    silent: Sequence[Observation] = (),
) -> None:
    """Check a diagnosis rule with what it is to explain.

    It is pure and total: whatever pods and child look like, it raises nothing. A finding has one CamelCase
    word as its reason and one line as its message.

    Args:
        rule: the rule.
        finds: observations with the reason of the finding that is expected, at least one.
        silent: observations of which the rule has nothing to say.

    Raises:
        AssertionError: what does not hold.
    """
    require(finds, "give at least one observation with the reason that the rule finds")
    for given, reason in finds:
        found = _found(rule, given)
        require(found is not None, f"{rule.name} finds nothing, expected {reason}")
        require(
            found is None or found.reason == reason,
            f"{rule.name} finds {found}, expected the reason {reason}",
        )
        for odd in _odd(given):
            _found(rule, odd)
    for given in silent:
        found = _found(rule, given)
        require(found is None, f"{rule.name} finds {found}, expected nothing")


def _found(rule: DiagnosisRule, given: Observation) -> Finding | None:
    found = pure_result(f"{rule.name}: diagnose", rule.diagnose, given)
    if not isinstance(found, Finding):
        require(found is None, f"{rule.name} returned {type(found).__name__}, expected a Finding or None")
        return None
    require(
        found.reason.isidentifier() and found.reason[0].isupper(),
        f"{rule.name}: the reason {found.reason!r} is not one CamelCase word",
    )
    require(found.message and "\n" not in found.message, f"{rule.name}: the message is not one line of text")
    return found


def _odd(given: Observation) -> Iterator[Observation]:
    """The same with less, or with parts that make no sense."""
    yield replace(given, pods=(), child={})
    yield replace(given, gone=given.pods, pods=())
    for part in (*given.pods[:1], given.child):
        for changed in _variants(part):
            if part is given.child:
                yield replace(given, child=changed)
            else:
                yield replace(given, pods=(changed, *given.pods[1:]))


def _variants(obj: Object) -> Iterator[Object]:
    """An object with each of its parts replaced by values that it cannot have."""
    for path in _paths(obj):
        for odd in _ODD_VALUES:
            changed = copy.deepcopy(obj)
            holder: Any = changed
            for key in path[:-1]:
                holder = holder[key]
            holder[path[-1]] = odd
            yield changed


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every part; of lists of their first item."""
    parts = (
        value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ()
    )
    for key, part in parts:
        yield (*path, key)
        yield from _paths(part, (*path, key))
