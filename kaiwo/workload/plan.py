"""The plan: what to create, change and report for one workload, from what is known at this moment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.api.conditions import Condition
from kaiwo.api.errors import InvalidWorkload
from kaiwo.api.workload import Workload, read_status, workload_kind
from kaiwo.plugin.facts import Blocked
from kaiwo.workload.backend_selection import select_backend
from kaiwo.workload.defaults import queue_manages
from kaiwo.workload.errors import PluginError, SpecError
from kaiwo.workload.json_access import lenient_map
from kaiwo.workload.metadata import conflict, is_ours
from kaiwo.workload.model import Plan, PlanContext
from kaiwo.workload.plans import create, live, replacement
from kaiwo.workload.plans.blocked import plan_blocked
from kaiwo.workload.status import settled

if TYPE_CHECKING:
    from kaiwo.engine.resource import Object
    from kaiwo.workload.model import Facts, Registry

RETRY_SECONDS = 30.0
"""When to look again after a plugin failed: nothing tells when it would not."""


def plan(workload: Workload, registry: Registry, facts: Facts) -> Plan:
    """What to do for a workload now. Pure: equal input gives an equal plan, and nothing is changed.

    Once its writes are done and their answers are among the facts, planning again gives no writes; once its
    last status is written too, it gives nothing at all.
    """
    if workload.deleting:
        return Plan()
    if workload.status.terminal:
        return Plan(statuses=settled(workload))
    try:
        return _plan(workload, registry, facts)
    except SpecError as error:
        return plan_blocked(workload, facts, Blocked("InvalidSpec", str(error)))
    except PluginError as error:
        return plan_blocked(workload, facts, Blocked("PluginError", str(error)), requeue_after=RETRY_SECONDS)


def _plan(workload: Workload, registry: Registry, facts: Facts) -> Plan:
    choice = select_backend(workload, registry, facts.settings, queue_manages(registry, facts))
    if choice.backend is None:
        return plan_blocked(
            workload, facts, choice.refusal or Blocked("BackendNotLoaded", "no backend serves it")
        )
    backend = choice.backend
    if replacement.is_scaled_to_zero(workload, backend):
        return replacement.plan_scaled_to_zero(PlanContext(workload, registry, facts, backend))
    if facts.live is None:
        return create.plan_create(PlanContext(workload, registry, facts, backend))
    if not is_ours(facts.live, workload):
        return plan_blocked(
            workload, facts, conflict(facts.live, backend.child.kind, workload), backend=backend.name
        )
    return live.plan_live(PlanContext(workload, registry, facts, backend), choice.switched)


def plan_object(obj: Object, registry: Registry, facts: Facts) -> Plan:
    """The plan for an object as it was read; one that cannot be understood gets a status that says why.

    Raises:
        InvalidWorkload: it is no workload at all, or has no name.
    """
    try:
        workload = Workload.from_object(obj)
    except InvalidWorkload as error:
        return plan_invalid(obj, error, facts)
    return plan(workload, registry, facts)


def plan_invalid(obj: Object, error: InvalidWorkload, facts: Facts) -> Plan:
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
    status = read_status(obj.get("status"))
    if status.terminal:
        return Plan(statuses=settled(workload))
    text = str(error)
    if status.child_uid and status.status not in ("", "ERROR"):
        # A child runs: it goes on, and the change is what is refused.
        applied = Condition("SpecApplied", "False", "InvalidSpec", text, workload.generation or None)
        return live.keep(workload, facts, applied)
    return plan_blocked(workload, facts, Blocked("InvalidSpec", text))
