"""Why pods failed: what happened first, for the rest follows from it.

When one container of a job fails, its controller stops the other pods, and a kubelet stops the sidecars. They
end with a code of their own, which explains nothing.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from kaiwo.engine.timestamps import parse_time
from kaiwo.plugin.observation import Finding
from kaiwo.workload.json_access import is_deleting, lenient_map, lenient_maps, one_line
from kaiwo.workload.observe.exit_codes import OOM_KILLED, exit_message, exit_text
from kaiwo.workload.pods.requests import is_sidecar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kaiwo.engine.resource import Object

_DISRUPTIONS = {
    "DeletionByTaintManager": "NodeLost",
    "DeletionByPodGC": "NodeLost",
    "EvictionByEvictionAPI": "Evicted",
    "DeletionByDeviceTaintManager": "Evicted",
    "PreemptionByScheduler": "PreemptedByScheduler",
}
"""Reasons of the pod condition DisruptionTarget (core/v1, and of the controller of device taints), and what
they mean for a workload."""

_QUEUE_CONDITIONS = ("TerminatedByKueue", "KueueFailureRecovery")
"""Conditions with which Kueue marks a pod as failed: its node has a taint, or is not reached any more."""

_FIRST = datetime.min.replace(tzinfo=UTC)
_LAST = datetime.max.replace(tzinfo=UTC)
_NO_WORD = re.compile(r"[^A-Za-z0-9]")


class FailedPod(NamedTuple):
    """A pod and why it failed."""

    pod: Object
    finding: Finding


class _Cause(NamedTuple):
    """Why a pod failed, with what tells a cause from a consequence.

    Attributes:
        at: when it happened.
        stopped: whether the pod is being deleted, perhaps because of another one.
        failed: the pod.
    """

    at: datetime
    stopped: bool
    failed: FailedPod


def failure(pods: Iterable[Object]) -> Finding | None:
    """Why pods failed: a lost node, eviction, exit code, memory; None when no pod has a cause."""
    found = failed_pod(pods)
    return found.finding if found else None


def failed_pod(pods: Iterable[Object]) -> FailedPod | None:
    """The pod that failed first, and why; of several at the same time the first one given."""
    causes = [cause for pod in pods if (cause := _cause(pod))]
    return min(causes, key=lambda cause: cause[:2]).failed if causes else None


def rejected_by_node(pod: Object) -> Finding | None:
    """Why the node itself ended a pod: it evicted or rejected it, or is shut down; None where it did not."""
    status, name = lenient_map(pod.get("status")), pod_name(pod)
    word = _NO_WORD.sub("", str(status.get("reason") or ""))
    if status.get("phase") != "Failed" or not word:
        return None
    text = f"pod {name} was evicted" if word == "Evicted" else f"pod {name} failed ({word})"
    return Finding(word, line(text, status.get("message")))


def pod_name(pod: Object) -> str:
    """The pod's name, for messages."""
    return str(lenient_map(pod.get("metadata")).get("name", ""))


def line(text: str, detail: object) -> str:
    """A sentence, and what somebody else says of it."""
    detail = one_line(detail)
    return f"{text}: {detail}" if detail else text


def _cause(pod: Object) -> _Cause | None:
    stopped = is_deleting(pod)
    for condition in lenient_maps(lenient_map(pod.get("status")).get("conditions")):
        word = _DISRUPTIONS.get(str(condition.get("reason")))
        if condition.get("type") == "DisruptionTarget" and condition.get("status") == "True" and word:
            node = lenient_map(pod.get("spec")).get("nodeName")
            what = f"pod {pod_name(pod)} was deleted" + (f" from node {node}" if node else "")
            finding = Finding(word, line(what, condition.get("message")))
            # A node counts as lost minutes after the other pods have missed it.
            return _Cause(_FIRST, stopped=False, failed=FailedPod(pod, finding))
    ends = sorted(_ends(pod), key=lambda end: end[:2])
    at = ends[0].at if ends else _LAST
    if rejection := rejected_by_node(pod):
        return _Cause(at, stopped, FailedPod(pod, rejection))
    found = ends[0].finding if ends else _ended_by_queue(pod)
    return _Cause(at, stopped, FailedPod(pod, found)) if found else None


def _ended_by_queue(pod: Object) -> Finding | None:
    """Why a queue marked a pod as failed; None where it did not."""
    status = lenient_map(pod.get("status"))
    for condition in lenient_maps(status.get("conditions")):
        word = _NO_WORD.sub("", str(condition.get("reason") or ""))
        known = condition.get("type") in _QUEUE_CONDITIONS and condition.get("status") == "True"
        if known and word and status.get("phase") == "Failed":
            text = line(f"pod {pod_name(pod)} was ended by its queue", condition.get("message"))
            return Finding(word, text)
    return None


class _End(NamedTuple):
    """How a container failed; a sidecar is stopped after the others, whose end is the cause."""

    sidecar: bool
    at: datetime
    finding: Finding


def _ends(pod: Object) -> Iterator[_End]:
    """How containers of a pod failed, init containers first."""
    status, spec = lenient_map(pod.get("status")), lenient_map(pod.get("spec"))
    if status.get("phase") not in ("Failed", "Running"):
        return
    sidecars = {item.get("name") for item in filter(is_sidecar, lenient_maps(spec.get("initContainers")))}
    for group in ("initContainerStatuses", "containerStatuses"):
        for container in lenient_maps(status.get(group)):
            ended = _ended(container, "state") or _ended(container, "lastState")
            if not ended.get("exitCode"):
                continue
            name = container.get("name")
            reason = OOM_KILLED if ended.get("reason") == OOM_KILLED else "ExitCode"
            text = f"container {name} of pod {pod_name(pod)} {exit_text(ended, name, pod)}"
            yield _End(
                group == "initContainerStatuses" and name in sidecars,
                parse_time(ended.get("finishedAt")) or _LAST,
                Finding(reason, line(text, exit_message(ended))),
            )


def _ended(container: Object, state: str) -> Object:
    return lenient_map(lenient_map(container.get(state)).get("terminated"))
