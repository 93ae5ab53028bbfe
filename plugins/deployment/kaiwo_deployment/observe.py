"""Reads the outcome of a KaiwoService from its live Deployment."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from kaiwo.plugin.kit import pod_status
from kaiwo.plugin.kit.json_access import lenient_map, lenient_maps
from kaiwo.plugin.kit.observe import NOTHING_FOUND, admission_message, check_pods, refused_pods
from kaiwo.plugin.kit.pod_status import looping, works
from kaiwo.plugin.kit.values import parse_time
from kaiwo.plugin.observation import Finding, Outcome
from kaiwo_deployment.scaled_to_zero import scaled_to_zero

if TYPE_CHECKING:
    from datetime import datetime

    from kaiwo.plugin.kit.kinds import Object
    from kaiwo.plugin.kit.observe import PodCheck
    from kaiwo.plugin.observation import Observation

PROGRESS_DEADLINE = 600
"""Seconds a rollout may stand still where ``progressDeadlineSeconds`` is absent (apps/v1)."""

EVENTS_INTERVAL = 30.0
"""Seconds until the events about rejected pods are read again."""

_REPLICA_SET = re.compile(r'[Rr]eplica ?[Ss]et "([^"]+)"')
"""Every message of the condition Progressing names the current revision's ReplicaSet so."""

_NO_REPLICA_SET = "ReplicaSetCreateError"
"""Reason of the condition Progressing where the API server rejects the ReplicaSet of the newest revision."""


def observe(seen: Observation) -> Outcome:
    """The outcome of a Deployment: the first that holds of scaled to zero, queued, ready, stuck, active."""
    metadata, spec = lenient_map(seen.child.get("metadata")), lenient_map(seen.child.get("spec"))
    status = lenient_map(seen.child.get("status"))
    name, wanted = str(metadata.get("name", "")), _count(spec.get("replicas"), 1)
    known = _count(status.get("observedGeneration")) >= _count(metadata.get("generation"))
    progressing = _progressing(seen.child)
    pods = [pod for pod in pod_status.current(seen.pods) if _owner(pod) is not None]
    if known:
        pods = _of_current_revision(pods, progressing)
    started = pod_status.started(pods)
    if wanted == 0:
        return scaled_to_zero(seen, name)
    if spec.get("paused") and not pods and not _count(status.get("replicas")):
        text = f"Deployment {name} is paused, so it makes no pods; set spec.deployment.spec.paused to false"
        return Outcome("PENDING", "Suspended", text)
    serving = _count(status.get("availableReplicas"))
    queued = _queued(seen, pods, serving, name)
    # A queue that admits pods one by one knows nothing of pods that the API server does not even create.
    refused = NOTHING_FOUND if pods else _refused(seen)
    if queued is not None and not serving and all(pod_status.held_by_queue(pod) for pod in pods):
        if refused.finding is None:
            return replace(queued, requeue_after=refused.requeue_after)
        queued = None
    if known and _is_ready(status, wanted) and not _crashing(seen, pods):
        return Outcome("READY", "Ready", f"{wanted} of {wanted} pods are ready", started=started)
    stuck = progressing.get("status") == "False" and progressing.get("reason") == "ProgressDeadlineExceeded"
    left: float | None = None
    if known and stuck and not any(pod_status.held_by_queue(pod) for pod in pods):
        left = _until_deadline(seen, spec)
        if left is None:
            return _stuck(seen, pods, name, spec, started)
    return _active(seen, pods, wanted, queued, left)


def _count(value: object, absent: int = 0) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else absent


def _owner(pod: Object) -> str | None:
    """Name of the ReplicaSet that controls the pod; a workload's other pods have none."""
    references = lenient_maps(lenient_map(pod.get("metadata")).get("ownerReferences"))
    for item in references:
        if item.get("controller") and item.get("kind") == "ReplicaSet":
            return str(item.get("name", ""))
    return None


def _of_current_revision(pods: list[Object], progressing: Object) -> list[Object]:
    """The pods of the newest ReplicaSet: the one the Deployment names, else that of the newest pod."""
    found = _REPLICA_SET.search(str(progressing.get("message", "")))
    current = found[1] if found else None
    if current is None and pods:
        newest = max(pods, key=lambda pod: str(lenient_map(pod.get("metadata")).get("creationTimestamp", "")))
        current = _owner(newest)
    return [pod for pod in pods if _owner(pod) == current]


def _queued(seen: Observation, pods: list[Object], serving: int, name: str) -> Outcome | None:
    """The pods wait for their queue."""
    gated = [pod for pod in pods if pod_status.held_by_queue(pod)]
    admission = seen.admission
    if admission is not None and admission.state in ("pending", "evicted") and (gated or not serving):
        return Outcome("PENDING", admission.reason, admission_message(admission, seen.recorded))
    if gated and len(gated) == len(pods) and not serving and admission and admission.state == "admitted":
        return None  # the gates are removed in a moment: the state after that is reported at once
    if gated:
        what = f"{len(gated)} of {len(pods)} pods of Deployment {name} wait for admission by their queue"
        if admission is not None and admission.pods_wait:
            what = admission.message
        return Outcome("PENDING", "Queued", what)
    if seen.queued and not pods and admission is None:
        return Outcome("PENDING", "Queued", f"Deployment {name} waits for its queue")
    return None


def _is_ready(status: Object, wanted: int) -> bool:
    names = ("updatedReplicas", "replicas", "availableReplicas")
    return all(_count(status.get(name)) == wanted for name in names)


def _crashing(seen: Observation, pods: list[Object]) -> bool:
    """Whether a container crashes again and again; without a readiness probe it is ready in between."""
    return any(looping(pod, seen.now, seen.recorded) for pod in pods)


def _until_deadline(seen: Observation, spec: Object) -> float | None:
    """Seconds until the progress deadline, counted from the admission; None when it has passed.

    The Deployment's own clock runs while the pods wait for their queue.
    """
    since = parse_time(seen.admission.since) if seen.queued and seen.admission else None
    if since is None:
        return None
    deadline = timedelta(seconds=_count(spec.get("progressDeadlineSeconds"), PROGRESS_DEADLINE))
    left = (since + deadline - seen.now).total_seconds()
    return left if left > 0 else None


def _refused(seen: Observation) -> PodCheck:
    """Why the ReplicaSet or its pods cannot be created; nothing in the first seconds."""
    if _lacks_replica_set(seen.child):
        # In the form of the condition that a ReplicaSet has whose pods are rejected.
        failed = {**_progressing(seen.child), "type": "ReplicaFailure", "status": "True"}
        return refused_pods([failed], seen.now)
    conditions = lenient_map(seen.child.get("status")).get("conditions")
    return refused_pods(conditions, seen.now, seen.warning_event)


def _lacks_replica_set(deployment: Object) -> bool:
    """Whether the newest revision has no ReplicaSet, as the API server rejects it.

    The Deployment controller stops there: it notes neither the generation nor the end of the deadline.
    """
    return _progressing(deployment).get("reason") == _NO_REPLICA_SET


def _check(seen: Observation, pods: list[Object]) -> PodCheck:
    return check_pods(seen, pods, f"Deployment {seen.workload.name}", None, expected=False)


def _stuck(
    seen: Observation, pods: list[Object], name: str, spec: Object, started: datetime | None
) -> Outcome:
    deadline = _count(spec.get("progressDeadlineSeconds"), PROGRESS_DEADLINE)
    message = f"Deployment {name} made no progress for {deadline} s (ProgressDeadlineExceeded)"
    finding, refused = _check(seen, pods).finding, False
    if finding is None:
        finding = _refused(seen).finding
        refused = finding is not None
    if finding:
        message = f"{message}; {finding.message}"
    return Outcome(
        "ERROR",
        "ProgressDeadlineExceeded",
        message,
        started=started,
        requeue_after=EVENTS_INTERVAL if refused else None,
        needs_events=seen.child if refused else None,
        pod_owner=_replica_set(seen.child),
    )


def _active(
    seen: Observation,
    pods: list[Object],
    wanted: int,
    queued: Outcome | None,
    deadline_in: float | None,
) -> Outcome:
    running = [pod for pod in pods if works(pod, seen.now, seen.recorded)]
    finding, requeue_after, _ = _check(seen, pods)
    delays = [deadline_in, requeue_after]
    if finding is None and queued is not None:
        finding = Finding(queued.reason, queued.message)
    refused, outdated = False, _lacks_replica_set(seen.child)
    if finding is None and (outdated or len(pods) < wanted):
        finding, requeue_after, _ = _refused(seen)
        refused = finding is not None and not outdated
        delays.append(EVENTS_INTERVAL if refused else requeue_after)
    next_check = min((seconds for seconds in delays if seconds is not None), default=None)
    if running:
        reached = sum(not pod_status.on_unready_node(pod) for pod in running)
        which = "of the revision before" if outdated else "not all are ready"
        message = f"{reached} of {wanted} pods run, {which}" if reached else "no pod is ready"
        if lenient_map(seen.child.get("spec")).get("paused"):
            message += "; the Deployment is paused, what changed waits until its paused is false"
        return Outcome(
            status="RUNNING",
            reason=finding.reason if finding else "Running",
            message=f"{message}; {finding.message}" if finding else message,
            started=pod_status.started(pods),
            passed=("STARTING",),
            requeue_after=next_check,
            needs_events=seen.child if refused else None,
            pod_owner=_replica_set(seen.child),
        )
    return Outcome(
        status="STARTING",
        reason=finding.reason if finding else "Starting",
        message=finding.message if finding else f"no container of Deployment {seen.workload.name} runs yet",
        started=pod_status.started(pods),
        requeue_after=next_check,
        needs_events=seen.child if refused else None,
        pod_owner=_replica_set(seen.child),
    )


def _replica_set(deployment: Object) -> tuple[str, str] | None:
    """The ReplicaSet of the current revision, as the Deployment names it."""
    found = _REPLICA_SET.search(str(_progressing(deployment).get("message", "")))
    return ("ReplicaSet", found[1]) if found else None


def _progressing(deployment: Object) -> Object:
    conditions = lenient_maps(lenient_map(deployment.get("status")).get("conditions"))
    return next((item for item in conditions if item.get("type") == "Progressing"), {})
