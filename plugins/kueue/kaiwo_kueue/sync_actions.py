"""The actions that make Kueue's objects equal to the ones that a KaiwoQueueConfig describes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from kaiwo_kueue.objects import DesiredObject, LiveObject, SyncProblem


@dataclass(frozen=True, slots=True)
class ApplyObject:
    """Create or change an object.

    Attributes:
        desired: the object as it should be.
        live: the object to change, None to create it.
        owned: whether Kaiwo creates it or created it.
        why: for the log.
        if_unchanged: write only if the live object still has the same resourceVersion. Kueue ignores changes
            of a queue that is being deleted; a flavor that such a change removes would never be released.
    """

    desired: DesiredObject
    live: LiveObject | None
    owned: bool
    why: str
    if_unchanged: bool = False


@dataclass(frozen=True, slots=True)
class DeleteObject:
    """Delete an object that Kaiwo created.

    Attributes:
        live: the object.
        why: for the log.
        recreated: whether it is created again.
    """

    live: LiveObject
    why: str
    recreated: bool = False


@dataclass(frozen=True, slots=True)
class HoldObject:
    """Hold a queue that Kaiwo created until no workload uses it; the rest of its spec stays."""

    live: LiveObject


@dataclass(frozen=True, slots=True)
class MigrateObject:
    """Replace the owner reference of an earlier version by a label."""

    live: LiveObject


@dataclass(frozen=True, slots=True)
class ReleaseObject:
    """Stop managing an object that Kaiwo did not create and that is not listed any more; it stays."""

    live: LiveObject


@dataclass(frozen=True, slots=True)
class TouchObject:
    """Make Kueue reconcile a flavor that is being deleted and that no queue lists any more."""

    live: LiveObject


@dataclass(frozen=True, slots=True)
class RetryWorkloads:
    """Hold a queue for a moment, so that Kueue tries its workloads again; the next reconciliation opens it.

    Attributes:
        desired: the queue on hold.
        live: the queue as it is.
        flavors: names of the flavors that have changed; nothing is done unless all of them were written.
    """

    desired: DesiredObject
    live: LiveObject
    flavors: frozenset[str]


Action: TypeAlias = (
    ApplyObject | DeleteObject | HoldObject | MigrateObject | ReleaseObject | RetryWorkloads | TouchObject
)


@dataclass(frozen=True, slots=True)
class SyncPlan:
    """The actions to execute, and the problems to report.

    Attributes:
        actions: in the order of execution.
        problems: why some objects are not as described.
    """

    actions: tuple[Action, ...]
    problems: tuple[SyncProblem, ...]
