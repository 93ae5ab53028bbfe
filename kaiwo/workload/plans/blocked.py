"""Plans that create nothing: the workload cannot run now, or it never will again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.api.conditions import Condition
from kaiwo.engine.resource import PERSISTENT_VOLUME_CLAIM
from kaiwo.plugin.facts import Blocked
from kaiwo.plugin.observation import Outcome
from kaiwo.workload.model import Plan
from kaiwo.workload.status import recorded_conditions

if TYPE_CHECKING:
    from kaiwo.api.workload import Workload
    from kaiwo.workload.model import ApiRejection, ChildRecord

REJECTED_RETRY_SECONDS = 60.0
"""Seconds until a rejected write is sent again: a quota or a policy may change without an event."""

_UNUSABLE = (400, 413, 422)
_FORBIDDEN = 403
_NOT_SERVED = 404


def plan_blocked(
    workload: Workload,
    blocked: Blocked,
    *,
    requeue_after: float | None = None,
    warnings: tuple[str, ...] = (),
    backend: str = "",
    child: ChildRecord | None = None,
) -> Plan:
    """The plan of a workload that cannot run now: a status, and no writes.

    Args:
        workload: the workload.
        blocked: why it cannot run.
        requeue_after: seconds after which to plan again without an event.
        warnings: what of the spec is not used.
        backend: name of the selected backend.
        child: `NO_CHILD` where it is certain that there is none.
    """
    condition = Condition(
        blocked.condition, "False", blocked.reason, blocked.message, workload.generation or None
    )
    outcome = Outcome(
        blocked.status,
        blocked.reason,
        blocked.message,
        requeue_after=requeue_after,
        conditions=(condition,),
    )
    return Plan(outcome, child, warnings=warnings, backend=backend)


def keep_status(workload: Workload, blocked: Blocked, about: str) -> Plan:
    """The plan of a workload whose child, or whose download, runs while nothing can be decided about it.

    Args:
        workload: the workload; its status stays.
        blocked: why nothing can be decided.
        about: type of the condition that says so, the only thing that changes.
    """
    status = workload.status
    condition = Condition(about, "False", blocked.reason, blocked.message, workload.generation or None)
    others = [item for item in recorded_conditions(workload) if item.type != about]
    conditions = (*others, condition)
    return Plan(Outcome(status.status, status.reason, status.message, conditions=conditions))


def blocked_by_api(rejection: ApiRejection) -> Blocked:
    """The reason why a workload is blocked whose write the API server rejected."""
    what = f"the API server refused {rejection.resource.kind}: {rejection.message}"
    about = "StorageReady" if rejection.resource == PERSISTENT_VOLUME_CLAIM else "Schedulable"
    if rejection.status in _UNUSABLE:
        return Blocked("InvalidSpec", what, condition=about)
    if rejection.status == _FORBIDDEN:
        return Blocked("Forbidden", what, condition=about)
    if rejection.status == _NOT_SERVED:
        return Blocked("BackendUnavailable", f"{what}; is its API installed?", condition=about)
    return Blocked(rejection.reason or "Rejected", what, condition=about)
