"""Plans that create nothing: the workload cannot run now, or it never will again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.api.conditions import Condition
from kaiwo.engine.resource import CONFIG_MAP, JOB, PERSISTENT_VOLUME_CLAIM, PRIORITY_CLASS, STORAGE_CLASS
from kaiwo.plugin.facts import Blocked
from kaiwo.plugin.observation import Outcome
from kaiwo.workload.download import requested
from kaiwo.workload.model import Plan
from kaiwo.workload.status import recorded_conditions
from kaiwo.workload.storage import volumes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaiwo.api.workload import Workload
    from kaiwo.engine.resource import Resource
    from kaiwo.plugin.backends import Backend
    from kaiwo.workload.model import ApiRejection, ChildRecord, Facts, Registry

REJECTED_RETRY_SECONDS = 60.0
"""Seconds until a rejected write is sent again: a quota or a policy may change without an event."""

CHANGED_BACK = "ChangedBack"
"""The reason of a rejection that is not the API server's: somebody undid the last writes of the object."""

_UNUSABLE = (400, 413, 422)
_FORBIDDEN = 403
_NOT_SERVED = 404
_NOT_NOW = frozenset({401, 429})
_SERVER_ERROR = 500


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
    about = "StorageReady" if rejection.resource == PERSISTENT_VOLUME_CLAIM else "Schedulable"
    if rejection.reason == CHANGED_BACK:
        text = (
            f"{rejection.message}; Kaiwo writes it ever more rarely. Find out who does that "
            "(kubectl get --show-managed-fields, or the audit log), and stop it"
        )
        return Blocked(CHANGED_BACK, text, condition=about)
    what = f"the API server refused {rejection.resource.kind}: {rejection.message}"
    if rejection.status in _UNUSABLE:
        return Blocked("InvalidSpec", what, condition=about)
    if rejection.status in _NOT_NOW or rejection.status >= _SERVER_ERROR:
        again = f"{what}. It is written as soon as the API server accepts it"
        return Blocked("WriteRefused", again, condition=about, status="PENDING")
    if rejection.status == _FORBIDDEN:
        return Blocked("Forbidden", what, condition=about)
    if rejection.status == _NOT_SERVED:
        return Blocked("BackendUnavailable", f"{what}; is its API installed?", condition=about)
    return Blocked(rejection.reason or "Rejected", what, condition=about)


def plan_without_kinds(
    workload: Workload, registry: Registry, facts: Facts, backend: Backend | None
) -> Plan | None:
    """The plan of a workload that needs a kind which the operator cannot list; None where it needs none.

    A child may run that cannot be seen, so nothing is created and a known state is kept.
    """
    blocked = _missing_kind(workload, registry, facts, backend) if backend is not None else None
    if blocked is None or backend is None:
        return None
    if facts.live is not None or workload.status.child_uid:
        return keep_status(workload, blocked, "SpecApplied")
    return plan_blocked(workload, blocked, backend=backend.name)


def _missing_kind(workload: Workload, registry: Registry, facts: Facts, backend: Backend) -> Blocked | None:
    """Which kinds cannot be listed; those that only other workloads need do not matter."""
    downloads = requested.wants(workload)
    own = {backend.child, *backend.secondary, *((JOB,) if downloads else ())}
    others = {
        kind for other in registry.backends for kind in (other.child, *other.secondary, *other.pod_owners)
    }
    others -= {*own, *backend.pod_owners}
    others |= set() if downloads else {CONFIG_MAP}
    others |= set() if volumes.enabled(workload) else {PERSISTENT_VOLUME_CLAIM, STORAGE_CLASS}
    others |= set() if workload.spec.priority_class else {PRIORITY_CLASS}
    needed = {kind: words for kind, words in facts.unreadable.items() if kind not in others}
    if needed:
        why = f"the operator may not list {_listed(needed)}. Grant its role the right (kaiwo manifests rbac)"
        if own.intersection(needed):
            return Blocked("BackendUnavailable", f"backend {backend.name} cannot run: {why}")
        return Blocked("Forbidden", why)
    needed = {kind: words for kind, words in facts.failing.items() if kind not in others}
    if not needed:
        return None
    why = f"the API server cannot list {_listed(needed)}. It goes on when that works; see what serves them"
    if {*own, *backend.pod_owners}.intersection(needed):
        return Blocked("BackendUnavailable", f"backend {backend.name} cannot run: {why}")
    return Blocked("QueueUnavailable", why, status="PENDING")


def _listed(kinds: Mapping[Resource, str]) -> str:
    return "; ".join(f"{kind}: {words}" for kind, words in sorted(kinds.items(), key=str))
