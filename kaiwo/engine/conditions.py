"""Merging own conditions into a status that others write conditions to as well."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from kaiwo.engine.resource import Object

_TIME = "lastTransitionTime"


def merge(live: Sequence[Object], own: Sequence[Object], own_types: Collection[str] = ()) -> list[Object]:
    """The whole list to write.

    Conditions of other types stay as they are, where they are. An own condition whose ``status`` has not
    changed keeps its lastTransitionTime. Own types that are no longer given are removed.

    Args:
        live: conditions as last read.
        own: conditions wanted, with their lastTransitionTime in case they are new.
        own_types: all types that are ours; those of `own` count as ours anyway.
    """
    wanted = {condition["type"]: condition for condition in own}
    ours = {*own_types, *wanted}
    merged: list[Object] = []
    for condition in live:
        type_ = condition.get("type")
        if type_ not in ours:
            merged.append(condition)
        elif (new := wanted.pop(type_, None)) is not None:
            same = new.get("status") == condition.get("status") and condition.get(_TIME)
            merged.append({**new, _TIME: condition[_TIME]} if same else new)
    merged += wanted.values()
    return merged
