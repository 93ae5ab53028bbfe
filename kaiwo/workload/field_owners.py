"""Which field manager owns the fields of a child that others may set, such as its replicas."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.workload.labels import MANAGER, RECORD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

SCALED_BY = "an autoscaler or kubectl scale"
"""The owner of replicas that were once scaled to zero through the subresource ``scale``.

The API server takes the field from its owner then and notes no new one, since a Scale object has no 0.
Nor does it for what is scaled after that.
"""


def field_owners(
    paths: Iterable[tuple[str, ...]],
    managers: Callable[[tuple[str, ...]], Sequence[str]],
    value: Callable[..., object],
) -> dict[tuple[str, ...], str]:
    """The owner of each field that has one.

    Args:
        paths: the fields.
        managers: the names of the managers that own a field of the live object.
        value: the value of a field of the live object, by its names.
    """
    found: dict[tuple[str, ...], str] = {}
    for path in paths:
        if names := managers(path):
            found[path] = names[0]
        elif _is_count(value(*path)) and MANAGER in managers(RECORD):
            found[path] = SCALED_BY
    return found


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
