"""Rules about what the operator and the backend say: what blocks, what failed, and what is well."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.workload.diagnosis.evidence import log_lines, quoted_events
from kaiwo.workload.diagnosis.model import DiagnosedCause, DiagnosisFacts, title
from kaiwo.workload.diagnosis.pods import downloads
from kaiwo.workload.json_access import lenient_maps, lenient_text, one_line
from kaiwo.workload.observe.pod_status import PROBLEMS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaiwo.plugin.diagnosis import LinkState

_BLOCKING = ("Schedulable", "StorageReady")
"""Conditions that are False while nothing is created."""

_STATES: dict[str, LinkState] = {
    "COMPLETE": "ok",
    "READY": "ok",
    "RUNNING": "ok",
    "PENDING": "waits",
    "STARTING": "waits",
    "TERMINATING": "waits",
    "FAILED": "failed",
    "ERROR": "failed",
    "TERMINATED": "failed",
}


def state_of(word: str, reason: str) -> LinkState:
    """Whether a status is well, waits, or needs somebody."""
    return "failed" if reason in PROBLEMS else _STATES.get(word, "unknown")


def ended_well(facts: DiagnosisFacts) -> Iterator[DiagnosedCause]:
    """A job that has completed: nothing else matters any more."""
    if facts.word == "COMPLETE" or (facts.outcome is not None and facts.outcome.status == "COMPLETE"):
        reason = lenient_text(facts.status.get("reason")) if facts.word == "COMPLETE" else "Completed"
        message = lenient_text(facts.status.get("message")) if facts.word == "COMPLETE" else ""
        yield DiagnosedCause(reason or "Completed", one_line(message) or "the job succeeded", "ok")


def blocked(facts: DiagnosisFacts) -> Iterator[DiagnosedCause]:
    """A workload for which nothing is created, with the operator's own words."""
    reason = lenient_text(facts.status.get("reason"))
    for condition in lenient_maps(facts.status.get("conditions")):
        if condition.get("type") not in _BLOCKING or condition.get("status") != "False":
            continue
        if lenient_text(condition.get("reason")) == reason and facts.word in ("ERROR", "PENDING"):
            since = lenient_text(condition.get("lastTransitionTime"))
            yield DiagnosedCause(
                reason,
                one_line(facts.status.get("message") or condition.get("message")),
                state_of(facts.word, reason),
                evidence=(f"condition {condition['type']} is False since {since}",) if since else (),
            )
            return


def child(facts: DiagnosisFacts) -> Iterator[DiagnosedCause]:
    """What the backend makes of the child, where it is neither well nor merely starting."""
    outcome = facts.outcome
    if outcome is None or facts.child is None:
        return
    state = state_of(outcome.status, outcome.reason)
    if state == "failed" or (state == "waits" and outcome.reason not in ("Starting", "Queued")):
        yield DiagnosedCause(
            outcome.reason,
            one_line(outcome.message),
            state,
            object=title(facts.child),
            evidence=quoted_events(facts, facts.child),
        )


def findings(facts: DiagnosisFacts) -> Iterator[DiagnosedCause]:
    """What diagnosis rules of plugins found."""
    for rule, finding in facts.findings:
        yield DiagnosedCause(finding.reason, one_line(finding.message), rule=rule)


def unapplied(facts: DiagnosisFacts) -> Iterator[DiagnosedCause]:
    """A change of the spec that the running object does not have."""
    for condition in lenient_maps(facts.status.get("conditions")):
        if condition.get("type") == "SpecApplied" and condition.get("status") == "False":
            reason = lenient_text(condition.get("reason")) or "Immutable"
            message = f"the last change is not applied: {one_line(condition.get('message'))}"
            yield DiagnosedCause(reason, message)


def recorded(facts: DiagnosisFacts) -> Iterator[DiagnosedCause]:
    """The status as the operator wrote it, where no other rule knows more."""
    outcome = facts.outcome
    live = outcome is not None and facts.word not in ("COMPLETE", "FAILED", "TERMINATED")
    if live and outcome is not None:
        yield DiagnosedCause(
            outcome.reason, one_line(outcome.message), state_of(outcome.status, outcome.reason)
        )
        return
    reason, message = lenient_text(facts.status.get("reason")), one_line(facts.status.get("message"))
    if facts.word or reason:
        yield DiagnosedCause(
            reason or facts.word.capitalize(),
            message or f"the status is {facts.word}",
            state_of(facts.word, reason),
            evidence=(*_ended(facts), *_of_download(facts)),
        )


def _ended(facts: DiagnosisFacts) -> tuple[str, ...]:
    at = lenient_text(facts.status.get("completionTime"))
    return (f"it ended at {at}",) if at else ()


def _of_download(facts: DiagnosisFacts) -> tuple[str, ...]:
    """What failed tries of the download left; without a child nothing else has pods."""
    pods = [pod for pod in facts.pods if downloads(pod)] if facts.child is None else []
    lines = [line for pod in pods for line in (*log_lines(facts, pod), *quoted_events(facts, pod))]
    return tuple(dict.fromkeys(lines))
