"""The plan: what to create, change and report for one workload, from what is known at this moment."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kaiwo.api.workload import Workload
from kaiwo.plugin.facts import Blocked
from kaiwo.workload.backend_selection import RETRY_SECONDS, select_backend
from kaiwo.workload.defaults import queue_manages
from kaiwo.workload.ending.carry_out import plan_ending
from kaiwo.workload.ending.record import ending_of
from kaiwo.workload.ending.requeue import plan_held, with_requeue
from kaiwo.workload.errors import PluginError, SpecError
from kaiwo.workload.labels import ADOPTED
from kaiwo.workload.metadata import conflict, is_ours
from kaiwo.workload.model import Plan, PlanContext
from kaiwo.workload.monitoring.report import with_utilization
from kaiwo.workload.plans import adopted
from kaiwo.workload.plans.blocked import keep_status, plan_blocked, plan_without_kinds
from kaiwo.workload.plans.create import plan_create
from kaiwo.workload.plans.live import plan_live
from kaiwo.workload.plans.replacement import plan_scaled_to_zero
from kaiwo.workload.status import with_status

if TYPE_CHECKING:
    from kaiwo.engine.resource import Object
    from kaiwo.workload.backend_selection import BackendChoice
    from kaiwo.workload.model import Facts, Registry


def plan(workload: Workload, registry: Registry, facts: Facts, choice: BackendChoice) -> Plan:
    """What to do for a workload now. Pure: equal input gives an equal plan, and nothing is changed.

    Once its writes are done and their answers are among the facts, planning again gives no writes; once its
    last status is written too, it gives nothing at all.

    Args:
        workload: the workload.
        registry: loaded declarations.
        facts: what is known of the cluster.
        choice: its backend, or why it has none.
    """
    if workload.deleting:
        return Plan()
    if workload.status.terminal:
        return with_status(workload, Plan(), facts.now)
    unlisted = bool(facts.unreadable or facts.failing)
    stopped = plan_without_kinds(workload, registry, facts, choice.backend) if unlisted else None
    decided = stopped or _decide(workload, registry, facts, choice)
    if facts.monitoring is not None or workload.status.utilization:
        decided = with_utilization(workload, decided, facts)
    if workload.status.termination:
        decided = with_requeue(workload, decided)
    return with_status(workload, decided, facts.now)


def _decide(workload: Workload, registry: Registry, facts: Facts, choice: BackendChoice) -> Plan:
    blocked, requeue_after, name = choice.blocked, choice.requeue_after, ""
    try:
        if choice.backend is not None:
            answer = _with_backend(PlanContext(workload, registry, facts, choice.backend, choice.switched))
            if isinstance(answer, Plan):
                return answer
            if answer is not None:
                blocked, name = answer, choice.backend.name
    except SpecError as error:
        blocked = Blocked("InvalidSpec", str(error))
    except PluginError as error:
        blocked, requeue_after = Blocked("PluginError", str(error)), RETRY_SECONDS
    if blocked is None:
        blocked = Blocked("BackendNotLoaded", "no backend serves it")
    if choice.keeps_child:
        return keep_status(workload, blocked, "SpecApplied")
    return plan_blocked(workload, blocked, requeue_after=requeue_after, backend=name)


def _with_backend(case: PlanContext) -> Plan | Blocked | None:
    """The plan of a workload whose backend is known, why there is none, or None where its error says why."""
    workload, live = case.workload, case.facts.live
    ours = live is not None and is_ours(live, workload, case.facts.made)
    # Once the status says so, the workload is never rendered again, whatever becomes of its label.
    said = any(item.get("type") == adopted.CONDITION for item in workload.status.conditions)
    if workload.status.status == "TERMINATING" and (record := ending_of(workload)):
        return plan_ending(replace(case, adopted=said or ADOPTED in workload.labels), record)
    if said or ADOPTED in workload.labels:
        return plan_live(replace(case, adopted=True)) if ours else adopted.plan_unowned(case)
    if workload.error:
        # Its child is observed all the same.
        return plan_live(case) if ours else None
    if case.backend.absent_at_zero and workload.spec.replicas == 0:
        return plan_scaled_to_zero(case)
    if live is None:
        held = plan_held(case) if workload.status.termination else None
        return held or plan_create(case)
    return plan_live(case) if ours else conflict(live, case.backend.child.kind, workload)


def plan_object(obj: Object, registry: Registry, facts: Facts) -> Plan:
    """The plan for an object as it was read; one with an invalid spec gets a status that says why.

    Raises:
        InvalidWorkload: it is no workload at all, or has no name.
    """
    workload = Workload.from_live(obj)
    choice = select_backend(workload, registry, facts.settings, queue_manages(registry, facts))
    return plan(workload, registry, facts, choice)
