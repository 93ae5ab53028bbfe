"""Strings that differ between choices by members of a list that is joined, such as alternatives in CEL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from charts.generate.conditions import Condition, condition
from charts.generate.order import NotMergeableError, order

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from charts.generate.conditions import Mask

_SEPARATORS: Final = (" + ", " || ", " && ", ", ", ",")

_MOST_MEMBERS: Final = 40


@dataclass(frozen=True, slots=True)
class Member:
    """One member of the list.

    Attributes:
        condition: when it is there.
        text: what is joined.
    """

    condition: Condition
    text: str


@dataclass(frozen=True, slots=True)
class Joined:
    """A string with a list inside.

    Attributes:
        before: what stands before the list.
        members: of the list.
        separator: between members.
        after: what stands after the list.
    """

    before: str
    members: tuple[Member, ...]
    separator: str
    after: str


def joined(values: Sequence[tuple[str, Mask]]) -> Joined | None:
    """The list by which some strings differ; None if there is none.

    Args:
        values: different strings, each with its choices.
    """
    domain = 0
    for _, mask in values:
        domain |= mask
    best: tuple[int, Joined] | None = None
    texts = [text for text, _ in values]
    for separator in _SEPARATORS:
        for before in _cuts(texts, start=True):
            for after in _cuts([text[len(before) :] for text in texts], start=False):
                found = _joined(values, before, separator, after, domain)
                if found is None:
                    continue
                cost = sum(len(member.text) + 20 for member in found.members)
                if best is None or cost < best[0]:
                    best = (cost, found)
    return best[1] if best and len(best[1].members) < len(values) * 2 else None


def _cuts(texts: Sequence[str], *, start: bool) -> Iterator[str]:
    """Common starts or ends that do not cut words, and the empty one."""
    first = texts[0] if start else texts[0][::-1]
    others = [text if start else text[::-1] for text in texts]
    length = 0
    while length < len(first) and all(text[length : length + 1] == first[length] for text in others):
        length += 1
    for cut in range(length + 1):
        common = first[:cut] if start else first[:cut][::-1]
        edge = common[-1:] if start else common[:1]
        if edge in ("", " ", "(", ")"):
            yield common


def _joined(
    values: Sequence[tuple[str, Mask]], before: str, separator: str, after: str, domain: Mask
) -> Joined | None:
    """The list between two texts, with members that a separator joins; None where it is none."""
    lists = []
    for text, mask in values:
        if len(text) < len(before) + len(after):
            return None
        members = text[len(before) : len(text) - len(after)].split(separator)
        if len(set(members)) != len(members) or not all(map(_is_whole, members)):
            return None
        lists.append((members, mask))
    masks: dict[str, Mask] = {}
    for members, mask in lists:
        for member in members:
            masks[member] = masks.get(member, 0) | mask
    if len(masks) > _MOST_MEMBERS or not any(len(members) > 1 for members, _ in lists):
        return None
    try:
        names = order([members for members, _ in lists])
    except NotMergeableError:
        return None
    return Joined(
        before, tuple(Member(condition(masks[name], domain), name) for name in names), separator, after
    )


def _is_whole(member: str) -> bool:
    """Whether a member is an expression or a word, and not a part of one."""
    return bool(member) and all(member.count(start) == member.count(end) for start, end in ("()", "[]", "{}"))
