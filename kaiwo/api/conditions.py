"""Conditions in ``status.conditions``: a list keyed by type that several writers share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from kaiwo.engine.conditions import merge
from kaiwo.engine.timestamps import format_time

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from datetime import datetime

    from kaiwo.engine.resource import Object

Truth: TypeAlias = Literal["True", "False", "Unknown"]
"""The status of a condition."""

MAX_MESSAGE = 32_768
"""Longest message that the API server takes in a condition (metav1.Condition)."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition of an object; :func:`merge_conditions` sets the time of its last transition.

    Attributes:
        type: CamelCase name of the aspect, for example ``Schedulable``.
        status: ``True``, ``False`` or ``Unknown``.
        reason: one CamelCase word.
        message: one sentence for people; cut at what the API server takes.
        observed_generation: generation of the object that was read, None if it does not matter.
    """

    type: str
    status: Truth
    reason: str
    message: str = ""
    observed_generation: int | None = None


def merge_conditions(
    live: Sequence[Object], own: Iterable[Condition], now: datetime, drop: Collection[str] = ()
) -> list[Object]:
    """The new value of ``status.conditions``.

    Conditions of types that are neither in ``own`` nor in ``drop`` are kept untouched and in their place.
    ``lastTransitionTime`` is ``now`` only where the status differs from the live one; if nothing differs,
    the result equals ``live``.

    Args:
        live: the conditions as read from the API server.
        own: the conditions that hold now, at most one per type.
        now: the time of the decision, with a time zone.
        drop: types of our own that no longer apply.
    """
    time = format_time(now)
    return merge(live, [_rendered(condition, time) for condition in own], drop)


def find_condition(conditions: Iterable[Object], kind: str) -> Object | None:
    """The condition of a type, or None."""
    return next((condition for condition in conditions if condition.get("type") == kind), None)


def _rendered(condition: Condition, time: str) -> Object:
    rendered: Object = {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message[:MAX_MESSAGE],
        "lastTransitionTime": time,
    }
    if condition.observed_generation is not None:
        rendered["observedGeneration"] = condition.observed_generation
    return rendered
