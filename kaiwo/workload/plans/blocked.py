"""Plans that create nothing: the workload cannot run now, or it never will again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.api.conditions import Condition
from kaiwo.engine.resource import PERSISTENT_VOLUME_CLAIM
from kaiwo.plugin.facts import Blocked
from kaiwo.workload.model import Plan
from kaiwo.workload.status import Verdict, documents, events

if TYPE_CHECKING:
    from kaiwo.api.workload import Workload
    from kaiwo.workload.model import ApiRejection, Facts

REJECTED_RETRY_SECONDS = 60.0
"""When to try again what the API server refused: a quota or a policy may change without a sign."""

_UNUSABLE = (400, 413, 422)
_FORBIDDEN = 403
_NOT_SERVED = 404


def condition(workload: Workload, refusal: Blocked) -> Condition:
    """The condition that a refusal makes False."""
    return Condition(refusal.condition, "False", refusal.reason, refusal.message, workload.generation or None)


def plan_blocked(
    workload: Workload,
    facts: Facts,
    refusal: Blocked,
    *,
    requeue_after: float | None = None,
    warnings: tuple[str, ...] = (),
    backend: str = "",
    childless: bool = False,
) -> Plan:
    """The plan of a workload that cannot run now: a status, and no writes.

    Args:
        workload: the workload.
        facts: what is known.
        refusal: why it cannot run.
        requeue_after: when to look again though nothing happened.
        warnings: what of the spec is not used.
        backend: name of the chosen backend.
        childless: it is certain that there is no child, so that what was recorded of an earlier one is void.
    """
    verdict = Verdict(
        status=refusal.status,
        reason=refusal.reason,
        message=refusal.message,
        conditions=(condition(workload, refusal),),
        child_uid="" if childless else None,
    )
    statuses = documents(workload, verdict, facts.now)
    return Plan(
        statuses=statuses,
        events=events(workload, statuses, ""),
        requeue_after=requeue_after,
        warnings=warnings,
        backend=backend,
    )


def blocked_by_api(rejection: ApiRejection) -> Blocked:
    """The refusal that says what the API server said."""
    what = f"the API server refused {rejection.resource.kind}: {rejection.message}"
    about = "StorageReady" if rejection.resource == PERSISTENT_VOLUME_CLAIM else "Schedulable"
    if rejection.status in _UNUSABLE:
        return Blocked("InvalidSpec", what, condition=about)
    if rejection.status == _FORBIDDEN:
        return Blocked("Forbidden", what, condition=about)
    if rejection.status == _NOT_SERVED:
        return Blocked("BackendUnavailable", f"{what}; is its API installed?", condition=about)
    return Blocked(rejection.reason or "Rejected", what, condition=about)
