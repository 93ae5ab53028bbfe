"""Conditions in ``status.conditions``: a list keyed by type that several writers share."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from kaiwo.engine.resource import Object

Truth: TypeAlias = Literal["True", "False", "Unknown"]

MAX_MESSAGE = 32_768
"""Longest message that the API server takes in a condition (metav1.Condition)."""


@dataclass(frozen=True, slots=True)
class Condition:
    """What is to be said about one aspect; when it changed is worked out by :func:`merge_conditions`.

    Attributes:
        type: CamelCase name of the aspect, for example ``Schedulable``.
        status: ``True``, ``False`` or ``Unknown``.
        reason: one CamelCase word.
        message: one sentence for people; cut at what the API server takes.
        observed_generation: generation of the object that was observed, None if it does not matter.
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
        own: what to say now, at most one per type.
        now: the time of the decision, with a time zone.
        drop: types of our own that no longer apply.
    """
    wanted = {condition.type: condition for condition in own}
    merged: list[Object] = []
    for before in live:
        kind = before.get("type")
        if kind in wanted:
            merged.append(_rendered(wanted.pop(kind), before, now))
        elif kind not in drop:
            merged.append(before)
    merged.extend(_rendered(condition, None, now) for condition in wanted.values())
    return merged


def find_condition(conditions: Iterable[Object], kind: str) -> Object | None:
    """The condition of a type, or None."""
    return next((condition for condition in conditions if condition.get("type") == kind), None)


def format_time(moment: datetime) -> str:
    """A time with time zone as Kubernetes writes it: UTC, whole seconds, ``2026-01-31T09:00:00Z``."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_time(text: object) -> datetime | None:
    """A time as Kubernetes writes it (RFC 3339), with time zone; None when it is absent or malformed."""
    if not isinstance(text, str):
        return None
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        return None
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


def _rendered(condition: Condition, before: Object | None, now: datetime) -> Object:
    changed = before is None or before.get("status") != condition.status
    since = (
        format_time(now)
        if changed or before is None
        else before.get("lastTransitionTime") or format_time(now)
    )
    rendered: Object = {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message[:MAX_MESSAGE],
        "lastTransitionTime": since,
    }
    if condition.observed_generation is not None:
        rendered["observedGeneration"] = condition.observed_generation
    return rendered
