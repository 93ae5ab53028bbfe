"""One tree for the values that a part of an object has in all choices, with conditions where they differ."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from charts.generate.conditions import ALWAYS, Condition, Mask, condition
from charts.generate.joined import Joined, joined
from charts.generate.order import NotMergeableError, order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


@dataclass(frozen=True, slots=True)
class Fixed:
    """A value that is the same in all choices; it may contain placeholders."""

    value: Any


@dataclass(frozen=True, slots=True)
class Entry:
    """A key of a mapping, or an item of a sequence.

    Attributes:
        condition: when it is there.
        node: its value.
        key: in a mapping.
        comments: lines above it.
    """

    condition: Condition
    node: Node
    key: str = ""
    comments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Mapping:
    """A mapping some of whose keys or values depend on the choice."""

    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Items:
    """A sequence some of whose items depend on the choice."""

    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Alternatives:
    """Values one of which there is, each with its condition; the last one is there if no other one is."""

    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Template:
    """Text of a template in place of a value.

    Attributes:
        text: as the value of a key.
        block: whether the text is a block that is indented below the key.
    """

    text: str
    block: bool = False


@dataclass(frozen=True, slots=True)
class Overridable:
    """A value in place of which the user's value stands, where there is one.

    Attributes:
        values: expression of the user's value.
        node: the value without it; None for no such key.
    """

    values: str
    node: Node | None


@dataclass(frozen=True, slots=True)
class Include:
    """Keys of a mapping that a named template renders.

    Attributes:
        name: of the template.
    """

    name: str


Node: TypeAlias = "Fixed | Mapping | Items | Alternatives | Template | Overridable | Include | Joined"

Family: TypeAlias = "Sequence[tuple[Any, Mask]]"
"""The different values of one place, each with the choices that have it."""

_ONLY: Final = "only"
"""In a path: the item of a list that always has one."""

_KEYS: Final = (("name",), ("schedulerName",), ("message", "messageExpression"))
"""Fields by which items of a list are told from each other, the first that does."""


Special: TypeAlias = "Callable[[tuple[str, ...]], Node | None]"
"""Makes the node of places that need more than merging, by their paths."""


def family(values: Iterable[tuple[Any, Mask]]) -> Family:
    """Values with the choices of each, equal ones together, in the order in which they come first."""
    found: dict[str, tuple[Any, Mask]] = {}
    for value, mask in values:
        key = json.dumps(value, sort_keys=True)
        known = found.get(key)
        found[key] = (value, mask) if known is None else (known[0], known[1] | mask)
    return list(found.values())


def union(some: Family) -> Mask:
    """All choices of a family."""
    found = 0
    for _, mask in some:
        found |= mask
    return found


def merge(values: Family, special: Special, path: tuple[str, ...] = ()) -> Node:
    """The tree for the values of one place.

    Args:
        values: of that place.
        special: is asked first for every place.
        path: keys down to the place; the identity of an item in place of its number.

    Raises:
        NotMergeableError: the order of things depends on the choice.
    """
    made = special(path)
    if made is not None:
        return made
    if len(values) == 1 and not isinstance(values[0][0], dict | list):
        return Fixed(values[0][0])
    plain = [value for value, _ in values]
    if all(isinstance(value, dict) and value for value in plain):
        return _mapping(values, special, path)
    if all(isinstance(value, list) and value for value in plain) and not _are_apart(plain):
        return _items(values, special, path)
    if len(values) == 1:
        return Fixed(values[0][0])
    if all(isinstance(value, str) for value in plain):
        found = joined([(str(value), mask) for value, mask in values])
        if found is not None:
            return found
    return _alternatives(values, special, path)


def _alternatives(values: Family, special: Special, path: tuple[str, ...]) -> Alternatives:
    domain = union(values)
    return Alternatives(
        tuple(
            Entry(condition(mask, domain), merge([(value, mask)], special, path))
            for value, mask in sorted(values, key=lambda one: one[1].bit_count())
        )
    )


def _mapping(values: Family, special: Special, path: tuple[str, ...]) -> Node:
    keys = order([list(value) for value, _ in values])
    domain = union(values)
    entries = []
    for key in keys:
        of_key = family((value[key], mask) for value, mask in values if key in value)
        node = merge(of_key, special, (*path, key))
        entries.append(Entry(condition(union(of_key), domain), node, key))
    return Mapping(tuple(entries))


def _items(values: Family, special: Special, path: tuple[str, ...]) -> Node:
    identify = next(
        (fields for fields in _KEYS if all(_tells_apart(fields, value) for value, _ in values)), None
    )

    if identify is None and all(len(value) == 1 and isinstance(value[0], dict) for value, _ in values):
        of_item = family((value[0], mask) for value, mask in values)
        return Items((Entry(ALWAYS, merge(of_item, special, (*path, _ONLY))),))

    def identity(item: Any) -> str:
        if identify is None:
            return json.dumps(item, sort_keys=True)
        return "|".join(str(item.get(field, "")) for field in identify)

    lists = [({identity(item): item for item in value}, mask) for value, mask in values]
    if any(len(items) != len(value) for (items, _), (value, _) in zip(lists, values, strict=True)):
        raise NotMergeableError(f"{'.'.join(path)}: has equal items")
    domain = union(values)
    entries = []
    for name in order([list(items) for items, _ in lists]):
        of_item = family((items[name], mask) for items, mask in lists if name in items)
        node = merge(of_item, special, (*path, name))
        entries.append(Entry(condition(union(of_item), domain), node))
    return Items(tuple(entries))


def _are_apart(lists: list[list[Any]]) -> bool:
    """Whether these are several lists of words that have no word in common."""
    words = [word for some in lists for word in some]
    return len(lists) > 1 and all(isinstance(word, str) for word in words) and len(set(words)) == len(words)


def _tells_apart(fields: tuple[str, ...], items: list[Any]) -> bool:
    if not all(isinstance(item, dict) and isinstance(item.get(fields[0]), str) for item in items):
        return False
    return len({tuple(str(item.get(field, "")) for field in fields) for item in items}) == len(items)
