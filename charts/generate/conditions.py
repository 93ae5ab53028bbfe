"""Conditions of templates, found from the choices for which something is rendered."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

from charts.generate.switches import choices, switches

if TYPE_CHECKING:
    from collections.abc import Iterable

Mask = int
"""A set of choices: bit n stands for the choice n of `choices`."""


@cache
def everything() -> Mask:
    """All choices."""
    return (1 << len(choices())) - 1


@cache
def _literals() -> dict[tuple[str, bool], Mask]:
    found = {}
    for switch in switches():
        on = mask_of(number for number, choice in enumerate(choices()) if switch.name in choice)
        found[switch.name, True] = on
        found[switch.name, False] = everything() & ~on
    return found


def mask_of(numbers: Iterable[int]) -> Mask:
    """The set of some choices, by their numbers."""
    found = 0
    for number in numbers:
        found |= 1 << number
    return found


@dataclass(frozen=True, slots=True)
class Condition:
    """Alternatives, each of them a conjunction of switches that are on or off. None is always false.

    Attributes:
        cubes: the alternatives; a cube is a tuple of names of switches, each with whether it is on.
    """

    cubes: tuple[tuple[tuple[str, bool], ...], ...]

    @property
    def always(self) -> bool:
        """Whether it is true whatever is chosen."""
        return () in self.cubes

    def is_opposite(self, other: Condition) -> bool:
        """Whether it is about one switch, and the other one is true exactly when it is not."""
        if len(self.cubes) != 1 or len(self.cubes[0]) != 1:
            return False
        ((name, on),) = self.cubes[0]
        return other.cubes == (((name, not on),),)

    def expression(self) -> str:
        """The expression of a template."""
        if not self.cubes:
            return "false"
        alternatives = [_conjunction(cube) for cube in self.cubes]
        if len(alternatives) == 1:
            return alternatives[0]
        return "or " + " ".join(map(argument, alternatives))

    def holds(self, choice: frozenset[str]) -> bool:
        """Whether it is true for a choice."""
        return any(all((name in choice) is on for name, on in cube) for cube in self.cubes)


ALWAYS: Final = Condition(((),))


def _conjunction(cube: tuple[tuple[str, bool], ...]) -> str:
    conditions = {switch.name: switch.condition for switch in switches()}
    parts = [conditions[name] if on else f"not {argument(conditions[name])}" for name, on in cube]
    return parts[0] if len(parts) == 1 else "and " + " ".join(map(argument, parts))


def argument(expression: str) -> str:
    """An expression as the argument of a function."""
    return f"({expression})" if " " in expression else expression


@cache
def condition(true: Mask, domain: Mask) -> Condition:
    """The shortest condition that is found for some choices and for no other one of a domain.

    Args:
        true: the choices for which it holds.
        domain: the choices that can occur; of others nothing is asked.
    """
    wrong = domain & ~true
    if not wrong:
        return ALWAYS
    literals = _literals()
    cubes: list[tuple[tuple[tuple[str, bool], ...], Mask]] = []
    left = true & domain
    while left:
        choice = choices()[left.bit_length() - 1]
        cube = [(switch.name, switch.name in choice) for switch in switches()]
        # A switch that is off says less than one that is on, and is left out first.
        for literal in sorted(cube, key=lambda one: one[1]):
            smaller = [one for one in cube if one != literal]
            if not _covered(smaller, literals) & wrong:
                cube = smaller
        covered = _covered(cube, literals)
        cubes.append((tuple(cube), covered))
        left &= ~covered
    needed = list(cubes)
    for one in cubes:
        rest = [other for other in needed if other is not one]
        if not true & domain & ~_union(rest):
            needed = rest
    order = {switch.name: number for number, switch in enumerate(switches())}
    return Condition(
        tuple(sorted((cube for cube, _ in needed), key=lambda cube: [order[name] for name, _ in cube]))
    )


def _covered(cube: Iterable[tuple[str, bool]], literals: dict[tuple[str, bool], Mask]) -> Mask:
    found = everything()
    for literal in cube:
        found &= literals[literal]
    return found


def _union(cubes: Iterable[tuple[object, Mask]]) -> Mask:
    found = 0
    for _, mask in cubes:
        found |= mask
    return found
