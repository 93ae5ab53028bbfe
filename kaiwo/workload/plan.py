"""The plan: what to create, change and report for one workload, from what is known at this moment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.api.conditions import Condition
from kaiwo.api.errors import InvalidWorkload
from kaiwo.api.workload import Workload, workload_kind
from kaiwo.plugin.facts import Blocked
from kaiwo.workload.backend_selection import RETRY_SECONDS, select_backend
from kaiwo.workload.defaults import queue_manages
from kaiwo.workload.errors import PluginError, SpecError
from kaiwo.workload.json_access import lenient_map
from kaiwo.workload.metadata import conflict, is_ours
from kaiwo.workload.model import Plan, PlanContext
from kaiwo.workload.plans import create, live, replacement
from kaiwo.workload.plans.blocked import plan_blocked
from kaiwo.workload.status import with_status

if TYPE_CHECKING:
    from datetime import datetime

    from kaiwo.engine.resource import Object
    from kaiwo.workload.backend_selection import BackendChoice
    from kaiwo.workload.model import Facts, Registry


def plan(workload: Workload, registry: Registry, facts: Facts, choice: BackendChoice | None = None) -> Plan:
    """What to do for a workload now. Pure: equal input gives an equal plan, and nothing is changed.

    Once its writes are done and their answers are among the facts, planning again gives no writes; once its
    last status is written too, it gives nothing at all.

    Args:
        workload: the workload.
        registry: loaded declarations.
        facts: what is known of the cluster.
        choice: the backend, where it was selected already.
    """
    if workload.deleting:
        return Plan()
    if workload.status.terminal:
        return with_status(workload, Plan(), facts.now)
    if choice is None:
        choice = select_backend(workload, registry, facts.settings, queue_manages(registry, facts))
    try:
        decided = _decide(workload, registry, facts, choice)
    except SpecError as error:
        decided = plan_blocked(workload, Blocked("InvalidSpec", str(error)))
    except PluginError as error:
        decided = plan_blocked(workload, Blocked("PluginError", str(error)), requeue_after=RETRY_SECONDS)
    return with_status(workload, decided, facts.now)


def _decide(workload: Workload, registry: Registry, facts: Facts, choice: BackendChoice) -> Plan:
    backend = choice.backend
    if backend is None:
        blocked = choice.blocked or Blocked("BackendNotLoaded", "no backend serves it")
        return plan_blocked(workload, blocked, requeue_after=choice.requeue_after)
    case = PlanContext(workload, registry, facts, backend, choice.switched)
    if backend.absent_at_zero and workload.spec.replicas == 0:
        return replacement.plan_scaled_to_zero(case)
    if facts.live is None:
        return create.plan_create(case)
    if not is_ours(facts.live, workload):
        blocked = conflict(facts.live, backend.child.kind, workload)
        return plan_blocked(workload, blocked, backend=backend.name)
    return live.plan_live(case)


def plan_object(obj: Object, registry: Registry, facts: Facts) -> Plan:
    """The plan for an object as it was read; one that cannot be understood gets a status that says why.

    Raises:
        InvalidWorkload: it is no workload at all, or has no name.
    """
    try:
        workload = Workload.from_object(obj)
    except InvalidWorkload as error:
        return plan_invalid(obj, error, facts.now)
    return plan(workload, registry, facts)


def plan_invalid(obj: Object, error: InvalidWorkload, now: datetime) -> Plan:
    """The plan for an object whose spec cannot be understood: nothing but a status that names the fields.

    Raises:
        InvalidWorkload: it is no workload at all, or has no name.
    """
    metadata = lenient_map(lenient_map(obj).get("metadata"))
    if not isinstance(metadata.get("name"), str):
        raise error
    kind = workload_kind(lenient_map(obj).get("kind"))
    bare = {name: metadata[name] for name in ("name", "namespace", "uid", "generation") if name in metadata}
    workload = Workload.from_object({"kind": kind, "metadata": bare, "spec": {}, "status": obj.get("status")})
    if metadata.get("deletionTimestamp"):
        return Plan()
    status, text = workload.status, str(error)
    if status.terminal:
        decided = Plan()
    elif status.child_uid and status.status not in ("", "ERROR"):
        # A child runs: it stays as it is, and the change is rejected.
        decided = live.keep(
            workload, Condition("SpecApplied", "False", "InvalidSpec", text, workload.generation or None)
        )
    else:
        decided = plan_blocked(workload, Blocked("InvalidSpec", text))
    return with_status(workload, decided, now)
