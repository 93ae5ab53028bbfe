"""What the state of a live JobSet means for its KaiwoJob."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.engine.timestamps import parse_time
from kaiwo.plugin.observation import Finding, Outcome
from kaiwo.workload.json_access import holding, lenient_map
from kaiwo.workload.observe import pod_status
from kaiwo.workload.observe.waiting import check_pods, waiting

if TYPE_CHECKING:
    from kaiwo.engine.resource import Object
    from kaiwo.plugin.observation import Observation


def observe(observation: Observation) -> Outcome:
    """The status of a JobSet: the first that holds of completed, failed, waiting, active."""
    name = observation.workload.name
    conditions = holding(lenient_map(observation.child.get("status")).get("conditions"))
    if completed := conditions.get("Completed"):
        finding = Finding("Completed", f"JobSet {name} completed")
        return _ended(observation, "COMPLETE", finding, completed)
    if failed := conditions.get("Failed"):
        return _ended(observation, "FAILED", _failure(observation, failed), failed)
    pods = pod_status.current(observation.pods)
    suspended = bool(lenient_map(observation.child.get("spec")).get("suspend"))
    if waits := waiting(observation, f"JobSet {name}", pods, suspended=suspended):
        return waits
    return _active(observation, pods)


def _ended(observation: Observation, status: str, finding: Finding, condition: Object) -> Outcome:
    # The pods of an ended JobSet may be terminating already; they still tell when they ran.
    started = pod_status.started(observation.pods)
    return Outcome(
        status=status,
        reason=finding.reason,
        message=finding.message,
        started=started,
        completed=parse_time(condition.get("lastTransitionTime")) or observation.now,
        passed=("STARTING", "RUNNING") if started else (),
    )


def _failure(observation: Observation, condition: Object) -> Finding:
    """What a failed pod says; without one, what JobSet says (``FailedJobs``, ``ReachedMaxRestarts``)."""
    if found := pod_status.failure([*observation.pods, *reversed(observation.gone)]):
        return found
    text = " ".join(str(condition.get("message") or "").split())
    reason = condition.get("reason")
    return Finding(
        reason if isinstance(reason, str) and reason.isalnum() else "Failed",
        f"JobSet {observation.workload.name} failed: {text}" if text else "the JobSet failed",
    )


def _active(observation: Observation, pods: list[Object]) -> Outcome:
    name = observation.workload.name
    running = [pod for pod in pods if pod_status.runs(pod)]
    finding, requeue_after, _ = check_pods(observation, pods, f"JobSet {name}", None, expected=False)
    if running:
        message = f"JobSet {name} runs"
        if finding:
            message = f"{len(running)} of {len(pods)} pods run; {finding.message}"
    else:
        message = finding.message if finding else f"no container of JobSet {name} runs yet"
    status = "RUNNING" if running else "STARTING"
    return Outcome(
        status=status,
        reason=finding.reason if finding else status.capitalize(),
        message=message,
        started=pod_status.started(pods),
        passed=("STARTING",) if running else (),
        requeue_after=requeue_after,
    )
