"""Rules about pods: what keeps them from starting, and how their containers ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.plugin.observation import Finding
from kaiwo.workload.diagnosis.evidence import (
    events_about,
    log_lines,
    missing_pull_secrets,
    newest_warning,
    quoted_events,
    references,
    restart_counts,
)
from kaiwo.workload.diagnosis.model import DiagnosedCause, DiagnosisFacts, title
from kaiwo.workload.json_access import is_deleting, lenient_map, lenient_maps, lenient_text, name_of, one_line
from kaiwo.workload.labels import DOWNLOADER, TYPE
from kaiwo.workload.observe import pod_failure, pod_status
from kaiwo.workload.observe.unready_node import unready_node
from kaiwo.workload.observe.waiting import unscheduled

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaiwo.engine.resource import Object

_MOUNTS = ("FailedMount", "FailedAttachVolume", "FailedMapVolume", "FailedCreatePodSandBox")
"""The kubelet's reasons for a pod that has a node and whose containers cannot be created; events only."""

_UNMOUNTED = "unable to attach or mount volumes"
"""How a kubelet begins what it says every two minutes of a pod whose volumes are not mounted."""


def own_pods(facts: DiagnosisFacts) -> list[Object]:
    """The pods that run the workload, those that are being deleted and those that download left out."""
    return [pod for pod in pod_status.current(facts.pods) if not downloads(pod)]


def downloads(obj: Object) -> bool:
    """Whether a pod or Job downloads for the workload."""
    return lenient_map(lenient_map(obj.get("metadata")).get("labels")).get(TYPE) == DOWNLOADER


def mounts(facts: DiagnosisFacts) -> Iterator[DiagnosedCause]:
    """Pods whose volumes cannot be mounted, or whose containers refer to what does not exist."""
    for pod in pod_status.current(facts.pods):
        if _phase(pod) != "Pending" or not lenient_text(lenient_map(pod.get("spec")).get("nodeName")):
            continue
        if cause := _missing_reference(facts, pod) or _failed_mount(facts, pod):
            yield cause
            return


def _missing_reference(facts: DiagnosisFacts, pod: Object) -> DiagnosedCause | None:
    absent = [f"{kind} {name}" for kind, name in references(pod) if (kind, name) in facts.missing]
    if not absent:
        return None
    names = " and ".join(absent)
    verb = "does" if len(absent) == 1 else "do"
    # A container of which the kubelet says so has the same reason in the status.
    given = pod_status.problem([pod])
    code = given.reason if given is not None and "Config" in given.reason else "FailedMount"
    namespace = lenient_text(facts.metadata.get("namespace"))
    return DiagnosedCause(
        code,
        f"{names} {verb} not exist in namespace {namespace}; pod {name_of(pod)} cannot start without",
        object=title(pod),
        evidence=(*((given.message,) if given else ()), *quoted_events(facts, pod)),
    )


def _failed_mount(facts: DiagnosisFacts, pod: Object) -> DiagnosedCause | None:
    found = [event for event in events_about(facts, pod) if event.get("reason") in _MOUNTS]
    if not found:
        return None
    event = min(found, key=_only_waited)
    return DiagnosedCause(
        lenient_text(event.get("reason")),
        f"pod {name_of(pod)} cannot start: {one_line(event.get('message'))}",
        object=title(pod),
        evidence=quoted_events(facts, pod),
    )


def _only_waited(event: Object) -> bool:
    """Whether an event says that volumes are not mounted yet, and not why; another one has the cause."""
    return _UNMOUNTED in lenient_text(event.get("message")).lower()


def problems(facts: DiagnosisFacts) -> Iterator[DiagnosedCause]:
    """The problems of live pods, the most severe first, each reason once."""
    recorded = Finding(lenient_text(facts.status.get("reason")), lenient_text(facts.status.get("message")))
    found: dict[str, tuple[Finding, Object, int]] = {}
    for pod in own_pods(facts):
        finding = pod_status.problem([pod], recorded, facts.now) or unscheduled([pod], facts.now).finding
        if finding is None or _phase(pod) in ("Failed", "Succeeded"):
            continue
        first, shown, count = found.get(finding.reason, (finding, pod, 0))
        found[finding.reason] = (first, shown, count + 1)
    for finding, pod, count in sorted(found.values(), key=lambda item: pod_status.severity(item[0].reason)):
        more = (f"{count - 1} more pods have the same problem",) if count > 1 else ()
        yield DiagnosedCause(
            finding.reason,
            finding.message,
            object=title(pod),
            evidence=(
                *missing_pull_secrets(facts, pod),
                *restart_counts(pod),
                *quoted_events(facts, pod),
                *log_lines(facts, pod),
                *more,
            ),
        )


def failures(facts: DiagnosisFacts) -> Iterator[DiagnosedCause]:
    """How containers ended, of a workload that has failed."""
    if "FAILED" not in (facts.word, facts.outcome.status if facts.outcome else ""):
        return
    if found := _failed_pod(facts):
        pod, finding = found
        yield DiagnosedCause(
            finding.reason,
            finding.message,
            object=title(pod),
            evidence=(*restart_counts(pod), *log_lines(facts, pod), *quoted_events(facts, pod)),
        )


def _failed_pod(facts: DiagnosisFacts) -> pod_failure.FailedPod | None:
    """The pod that the outcome names as the cause, otherwise the one that failed first.

    A backend leaves out pods that its child ignored or replaced, which may have failed before.
    """
    pods = [pod for pod in facts.pods if not downloads(pod)]
    said = facts.outcome.message if facts.outcome else lenient_text(facts.status.get("message"))
    for pod in pods:
        found = pod_failure.failed_pod([pod])
        if found is not None and found.finding.message in said:
            return found
    return pod_failure.failed_pod(pods)


def state_of(pod: Object, facts: DiagnosisFacts) -> tuple[str, str]:
    """The state of a pod as a link of the chain, and its message."""
    phase = _phase(pod)
    if is_deleting(pod):
        finding = unready_node(pod)
        return ("failed", finding.message) if finding else ("waits", "is being deleted")
    if phase == "Failed":
        finding = pod_failure.failure([pod])
        return "failed", finding.message if finding else "failed"
    if finding := pod_status.problem([pod], None, facts.now):
        return "failed", finding.message
    if phase == "Succeeded":
        return "ok", "succeeded"
    if pod_status.runs(pod):
        return "ok", f"runs on node {lenient_text(lenient_map(pod.get('spec')).get('nodeName')) or 'unknown'}"
    if pod_status.gated(pod):
        gates = pod_status.other_gates(pod)
        return (
            "waits",
            f"held by the scheduling gate {', '.join(gates)}" if gates else "held by its queue's gate",
        )
    warning = newest_warning(facts, pod)
    return "waits", f"{warning.reason}: {warning.message}" if warning else _begins(pod)


def _begins(pod: Object) -> str:
    node = lenient_text(lenient_map(pod.get("spec")).get("nodeName"))
    reasons = [
        lenient_text(lenient_map(lenient_map(item.get("state")).get("waiting")).get("reason"))
        for item in lenient_maps(lenient_map(pod.get("status")).get("containerStatuses"))
    ]
    what = next((reason for reason in reasons if reason), "")
    where = f"starts on node {node}" if node else "has no node yet"
    return f"{where} ({what})" if what else where


def _phase(pod: Object) -> str:
    return lenient_text(lenient_map(pod.get("status")).get("phase"))
