"""The plan of a workload with what monitoring says about its GPUs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kaiwo.api.conditions import find_condition
from kaiwo.api.status_words import TERMINAL
from kaiwo.workload.gpu_hours import allocated_gpus
from kaiwo.workload.monitoring.underuse import MEASURED, UNDERUSE, is_monitored, judge, recorded_condition

if TYPE_CHECKING:
    from kaiwo.api.workload import Workload
    from kaiwo.workload.model import Facts, Plan


def with_utilization(workload: Workload, plan: Plan, facts: Facts) -> Plan:
    """The plan with the condition, the figures and the warnings; without those of an earlier run.

    What ends keeps what was said of it last.
    """
    outcome, status = plan.outcome, workload.status
    recorded = find_condition(status.conditions, UNDERUSE)
    if outcome is None or any(condition.type == UNDERUSE for condition in outcome.conditions):
        return plan
    if outcome.status in TERMINAL or outcome.status == "TERMINATING":
        kept = recorded_condition(recorded)
        return (
            plan
            if kept is None
            else replace(plan, outcome=replace(outcome, conditions=(*outcome.conditions, kept)))
        )
    gpus = allocated_gpus(status.allocation or {})
    known = facts.monitoring
    if (
        known is None
        or outcome.status not in MEASURED
        or not gpus
        or not is_monitored(workload.namespace, facts.config)
    ):
        return replace(plan, utilization={})
    judgement = judge(
        status.conditions, status.utilization or {}, known.use, facts.config,
        gpus=gpus, now=facts.now, monotonic=known.monotonic,
    )  # fmt: skip
    conditions = (*outcome.conditions, *([judgement.condition] if judgement.condition else []))
    return replace(
        plan,
        outcome=replace(outcome, conditions=conditions),
        utilization=judgement.utilization,
        events=(*plan.events, *judgement.events),
    )
