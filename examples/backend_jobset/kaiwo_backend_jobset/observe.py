"""What the state of a live JobSet means for its KaiwoJob."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.plugin.kit import pod_status
from kaiwo.plugin.kit.json_access import holding, lenient_map, one_line
from kaiwo.plugin.kit.observe import active, changed_at, ended, failure, reason_word, waiting
from kaiwo.plugin.observation import Finding

if TYPE_CHECKING:
    from kaiwo.plugin.kit.kinds import Object
    from kaiwo.plugin.observation import Observation, Outcome


def observe(observation: Observation) -> Outcome:
    """The status of a JobSet: the first that holds of completed, failed, waiting, active."""
    what = f"JobSet {observation.workload.name}"
    conditions = holding(lenient_map(observation.child.get("status")).get("conditions"))
    if completed := conditions.get("Completed"):
        finding = Finding("Completed", f"{what} completed")
        return ended(observation, "COMPLETE", finding, changed_at(completed))
    if failed := conditions.get("Failed"):
        return ended(observation, "FAILED", _failure(observation, failed, what), changed_at(failed))
    pods = pod_status.current(observation.pods)
    suspended = bool(lenient_map(observation.child.get("spec")).get("suspend"))
    if waits := waiting(observation, what, pods, suspended=suspended):
        return waits
    return active(observation, what, pods)


def _failure(observation: Observation, condition: Object, what: str) -> Finding:
    """What a failed pod says; without one, what JobSet says (``FailedJobs``, ``ReachedMaxRestarts``)."""
    if found := failure(observation):
        return found
    text = one_line(condition.get("message"))
    message = f"{what} failed: {text}" if text else f"{what} failed"
    return Finding(reason_word(condition.get("reason")), message)
