"""Rules about what comes before a workload's pods: its volumes, its downloads, and its queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.workload.diagnosis.evidence import log_lines, newest_warning, quoted_events
from kaiwo.workload.diagnosis.model import DiagnosedCause, DiagnosisFacts, title
from kaiwo.workload.diagnosis.pods import downloads
from kaiwo.workload.json_access import lenient_map, lenient_text, name_of
from kaiwo.workload.observe import pod_status
from kaiwo.workload.observe.waiting import pods_before
from kaiwo.workload.storage.claim_state import claim_state

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaiwo.engine.resource import Object
    from kaiwo.plugin.observation import Finding

_CLAIM = "PersistentVolumeClaim"
_NOT_FITTING = ("Pending", "Queued", "NoQuota", "Inadmissible", "QuotaReserved", "Preempted")

_BEFORE_THE_QUEUE = ("FailedCreate", "ProgressDeadlineExceeded", "ScaledToZero", "Suspended")
"""Reasons of a child whose pods do not exist: a queue that admits them one by one waits for them itself."""


def claims(facts: DiagnosisFacts) -> list[Object]:
    """The claims that were created for the workload."""
    return [obj for obj in facts.objects if obj.get("kind") == _CLAIM]


def volumes(facts: DiagnosisFacts) -> Iterator[DiagnosedCause]:
    """Claims that are not bound, of which no pod is awaited."""
    for claim in claims(facts):
        state = claim_state(
            name_of(claim), claim, facts.storage_classes, newest_warning(facts, claim), facts.now
        )
        if state.state == "pending":
            yield DiagnosedCause(
                "VolumePending",
                state.text,
                "failed" if state.needs_events is not None else "waits",
                object=title(claim),
                evidence=quoted_events(facts, claim),
            )


def download(facts: DiagnosisFacts) -> Iterator[DiagnosedCause]:
    """A download that has not ended well."""
    outcome = facts.download
    if outcome is None or outcome.status == "COMPLETE":
        return
    pods = [pod for pod in facts.pods if downloads(pod)]
    lines = [line for pod in pods for line in (*log_lines(facts, pod), *quoted_events(facts, pod))]
    waits = outcome.status == "PENDING" and outcome.reason not in pod_status.PROBLEMS
    yield DiagnosedCause(
        outcome.reason,
        outcome.message,
        "waits" if waits else "failed",
        object=next((title(pod) for pod in pods), ""),
        evidence=tuple(dict.fromkeys(lines)),
    )


def queue(facts: DiagnosisFacts) -> Iterator[DiagnosedCause]:
    """A child that its queue has not admitted."""
    explanation = facts.queue
    if explanation is None or explanation.finding is None:
        return
    said = facts.outcome.reason if facts.outcome is not None else lenient_text(facts.status.get("reason"))
    if said in _BEFORE_THE_QUEUE:
        return
    finding = explanation.finding
    waits = finding.reason in _NOT_FITTING and finding.reason not in ("NoQuota", "Inadmissible")
    yield DiagnosedCause(
        finding.reason,
        finding.message,
        "waits" if waits else "failed",
        object=next((f"{link.kind} {link.name}" for link in explanation.links if link.state != "ok"), ""),
        evidence=(*_pods_before(facts, finding), *explanation.evidence),
    )


def _pods_before(facts: DiagnosisFacts, finding: Finding) -> tuple[str, ...]:
    """What was wrong with the pods that an eviction has taken away: the status still knows."""
    if lenient_text(facts.status.get("reason")) != finding.reason:
        return ()
    before = pods_before(lenient_text(facts.status.get("message")))
    return (f"before the eviction: {before}",) if before else ()


def claim_message(claim: Object, facts: DiagnosisFacts) -> tuple[str, str]:
    """The state of a claim as a link of the chain, and its message."""
    state = claim_state(name_of(claim), claim, facts.storage_classes, newest_warning(facts, claim), facts.now)
    if state.state in ("bound", "expanding"):
        return "ok", state.text or lenient_text(lenient_map(claim.get("status")).get("phase")) or "Bound"
    return ("failed" if state.state == "pending" and state.needs_events else "waits"), state.text
