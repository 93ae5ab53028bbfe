"""A child that is gone: created again, or the end of its workload. What may have run never runs twice."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kaiwo.api.status_words import TERMINAL
from kaiwo.engine.timestamps import parse_time
from kaiwo.plugin.observation import Observation, Outcome
from kaiwo.workload import plugin_calls
from kaiwo.workload.ending.requeue import is_preempted_child
from kaiwo.workload.json_access import lenient_map
from kaiwo.workload.model import Plan
from kaiwo.workload.status import recorded_conditions

if TYPE_CHECKING:
    from datetime import datetime

    from kaiwo.api.workload import Workload
    from kaiwo.plugin.backends import Backend
    from kaiwo.workload.model import DeletedChild, Facts

TTL_SECONDS = 3600
"""How long a finished child stays unless the embedded object says otherwise."""


def plan_missing_child(workload: Workload, facts: Facts, backend: Backend) -> Plan | None:
    """The end of a workload whose child is gone for good; None when a child may be created (again)."""
    if workload.kind != "KaiwoJob":
        return None
    missing = facts.missing_child
    if missing is not None and is_preempted_child(workload, missing):
        missing = None
    if missing is not None:
        outcome = _last_seen(workload, facts, missing, backend)
    elif workload.status.child_uid and not _never_started(workload, facts.now, backend):
        outcome = _unknown_end(workload, facts, backend)
    else:
        outcome = None
    if outcome is None:
        return None
    return Plan(replace(outcome, conditions=recorded_conditions(workload)), backend=backend.name)


def _last_seen(workload: Workload, facts: Facts, missing: DeletedChild, backend: Backend) -> Outcome | None:
    seen = Observation(
        workload=workload,
        child=missing.obj,
        pods=facts.pods,
        admission=None,
        queued=False,
        now=facts.now,
        gone=facts.gone_pods,
        settings=facts.settings.get(backend.plugin),
    )
    outcome = plugin_calls.observed(backend, seen)
    if outcome.status in TERMINAL:
        return replace(outcome, requeue_after=None, needs_events=None)
    started = lenient_map(missing.obj.get("status")).get("startTime") or outcome.started
    if missing.deletion_seen or not started:
        return None
    return _unknown_end(workload, facts, backend)


def _never_started(workload: Workload, now: datetime, backend: Backend) -> bool:
    """Whether nothing had started by the last status, too recently for an ended child to be collected."""
    status = workload.status
    if status.start_time is not None or status.status not in ("", "PENDING", "ERROR"):
        return False
    known = [parse_time(item.get("lastTransitionTime")) for item in status.conditions]
    last = max((at for at in known if at is not None), default=workload.created)
    return (now - last).total_seconds() < _ttl(workload, backend)


def _ttl(workload: Workload, backend: Backend) -> int:
    block = workload.blocks.get(backend.fields[0].path[0]) if backend.fields else None
    given = lenient_map(lenient_map(block).get("spec")).get("ttlSecondsAfterFinished")
    return given if isinstance(given, int) else TTL_SECONDS


def _unknown_end(workload: Workload, facts: Facts, backend: Backend) -> Outcome:
    return Outcome(
        status="FAILED",
        reason="ChildLost",
        message=(
            f"{backend.child.kind} {workload.name} is gone and its end was not observed; it may have been "
            "collected after its end while the operator was down. It is not run a second time: check the "
            "job's own output, and delete the workload and submit it again to run it once more"
        ),
        completed=facts.now,
    )
