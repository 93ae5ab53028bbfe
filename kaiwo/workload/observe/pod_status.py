"""The state of pods: the worst problem of any of them, and whether a container runs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kaiwo.engine.timestamps import parse_time
from kaiwo.plugin.observation import Finding
from kaiwo.workload.json_access import lenient_map, lenient_maps
from kaiwo.workload.observe.crash_loop import CRASH_LOOP, looping, restarts
from kaiwo.workload.observe.exit_codes import exit_text
from kaiwo.workload.observe.image_pulls import IMAGE_PROBLEMS, PULLING, pull_problem, stable_pull
from kaiwo.workload.observe.pod_failure import line, pod_name, rejected_by_node
from kaiwo.workload.observe.unready_node import NODE_NOT_READY, on_unready_node, unready_node

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from datetime import datetime

    from kaiwo.engine.resource import Object

_CANNOT_START = "RunContainerError"
_WAITING = (
    *IMAGE_PROBLEMS,
    "CreateContainerConfigError",
    "CreateContainerError",
    _CANNOT_START,
    "PostStartHookError",
    CRASH_LOOP,
)
PROBLEMS = frozenset(
    {
        *_WAITING,
        "Unschedulable",
        "VolumeNotBound",
        "SchedulerMissing",
        "SchedulingGated",
        "NoPods",
        "FailedCreate",
        NODE_NOT_READY,
        "Evicted",
        "OOMKilled",
    }
)
"""Reasons that deserve a warning."""


_SKEW = 2.0
"""Seconds by which the clocks of two API servers may differ, whole seconds included."""

_NODE_SKEW = 300.0
"""Seconds by which the clock of a node may be behind that of the API server."""

_CREATION = 60.0
"""Seconds that a controller may take to create many pods before it notes the begin of a resumed run."""


def severity(reason: str) -> int:
    """The place of a reason among those of pods, 0 for the most severe."""
    return _RANK.get(reason, len(_RANK))


def current(pods: Iterable[Object], owner_uid: str | None = None) -> list[Object]:
    """The pods of the current run: not being deleted and, where they say so, controlled by this owner."""
    kept = []
    for pod in pods:
        metadata = lenient_map(pod.get("metadata"))
        owners = controllers(pod)
        if metadata.get("deletionTimestamp") or (owner_uid and owners and owner_uid not in owners):
            continue
        kept.append(pod)
    return kept


def owned(pods: Iterable[Object], uid: str | None) -> list[Object]:
    """The pods that an object controls, those that are being deleted included."""
    return [pod for pod in pods if uid in controllers(pod)]


def controllers(pod: Object) -> list[object]:
    """Uids of the objects that control a pod: one, or none."""
    references = lenient_maps(lenient_map(pod.get("metadata")).get("ownerReferences"))
    return [item.get("uid") for item in references if item.get("controller")]


def since(pods: Iterable[Object], child: Object) -> tuple[Object, ...]:
    """The pods that are not older than the child: those of a deleted one linger for a moment."""
    born = parse_time(lenient_map(child.get("metadata")).get("creationTimestamp"))
    return _not_before(pods, born, _SKEW)


def of_run(pods: Iterable[Object], begun: datetime | None) -> tuple[Object, ...]:
    """The pods of a run, without those that are older than its begin: of the run before an eviction.

    Args:
        pods: pods of one child, those included that no longer exist.
        begun: when its controller began the run (a Job's ``startTime``), None if unknown.
    """
    return _not_before(pods, begun, _CREATION)


def _not_before(pods: Iterable[Object], at: datetime | None, tolerance: float) -> tuple[Object, ...]:
    if at is None:
        return tuple(pods)
    ages = ((pod, parse_time(lenient_map(pod.get("metadata")).get("creationTimestamp"))) for pod in pods)
    return tuple(pod for pod, born in ages if born is None or (at - born).total_seconds() <= tolerance)


def containers(pod: Object, *, init: bool = False) -> list[Object]:
    """The statuses of a pod's containers, init containers first where asked for."""
    status = lenient_map(pod.get("status"))
    found = lenient_maps(status.get("containerStatuses"))
    return [*lenient_maps(status.get("initContainerStatuses")), *found] if init else found


def _state(container: Object, name: str) -> Object | None:
    state = lenient_map(container.get("state")).get(name)
    return state if isinstance(state, dict) else None


def runs(pod: Object) -> bool:
    """Whether a container of the pod runs now, init containers not counted."""
    return any(_state(container, "running") is not None for container in containers(pod))


def has_ended(pod: Object) -> bool:
    """Whether the pod succeeded or failed: none of its containers runs again."""
    return lenient_map(pod.get("status")).get("phase") in ("Succeeded", "Failed")


def gated(pod: Object) -> bool:
    """Whether the pod may not be scheduled yet: a queue, or somebody else, holds a scheduling gate."""
    return bool(lenient_map(pod.get("spec")).get("schedulingGates"))


def other_gates(pod: Object) -> list[str]:
    """The scheduling gates that no queue holds, by name.

    A queue marks its pods with labels or annotations of the domain of its gates.
    """
    metadata = lenient_map(pod.get("metadata"))
    marks = [*lenient_map(metadata.get("labels")), *lenient_map(metadata.get("annotations"))]
    domains = {str(key).partition("/")[0] for key in marks if "/" in str(key)}
    names = [
        str(gate.get("name")) for gate in lenient_maps(lenient_map(pod.get("spec")).get("schedulingGates"))
    ]
    return [name for name in names if name.partition("/")[0] not in domains]


def held_by_queue(pod: Object) -> bool:
    """Whether a queue holds a scheduling gate of the pod."""
    gates = lenient_maps(lenient_map(pod.get("spec")).get("schedulingGates"))
    return len(gates) > len(other_gates(pod))


def started(pods: Iterable[Object]) -> datetime | None:
    """The earliest start of a container, running or ended, init containers not counted.

    A kubelet reports 1970 for a container that the runtime could not start. So a time before the creation of
    the pod is no start.
    """
    times: list[datetime] = []
    for pod in pods:
        created = parse_time(lenient_map(pod.get("metadata")).get("creationTimestamp"))
        for container in containers(pod):
            states = [lenient_map(container.get(source)) for source in ("state", "lastState")]
            found = [
                parse_time(lenient_map(item.get(name)).get("startedAt")) for item in states for name in _RAN
            ]
            times += [at for at in found if at is not None and not _is_before(at, created)]
    return min(times, default=None)


def _is_before(at: datetime, created: datetime | None) -> bool:
    return created is not None and (created - at).total_seconds() > _NODE_SKEW


def problem(
    pods: Iterable[Object], recorded: Finding | None = None, now: datetime | None = None
) -> Finding | None:
    """The worst problem of any of the pods, None when there is none.

    Args:
        pods: pods of the current run.
        now: the time of this reconciliation, by which a crash loop is recognised while its container runs.
        recorded: reason and message of the status. They are kept while the same problem holds for any of the
            pods, so that texts that alternate cause no writes: a kubelet that cannot pull an image alternates
            between two reasons, a scheduler counts the nodes anew.
    """
    text = recorded.message if recorded else ""
    everywhere = list(pods)
    # What a node that is not reached has reported of its pods is old.
    known = [pod for pod in everywhere if not on_unready_node(pod)]
    found = [finding for pod in everywhere if (finding := unready_node(pod))]
    for pod in known:
        broken = [container for container, _ in looping(pod, now, recorded)] if now is not None else []
        found += [_stable(finding, text) for finding in (*_problems(pod, broken), *_crash_loops(pod, broken))]
    if not found and not any(runs(pod) for pod in known):
        # Such pods stay while others take their place.
        found = [finding for pod in known if (finding := rejected_by_node(pod))]
    if not found:
        return None
    worst = min(found, key=lambda one: (severity(one.reason), one.message not in text))
    return stable_pull(worst, recorded) if recorded is not None and worst.reason in PULLING else worst


def _stable(finding: Finding, recorded: str) -> Finding:
    """A finding with the recorded text where the difference is no new state.

    A scheduler counts the nodes for each of its reasons, and may count anew. A container that crashes is
    restarted for ever, with one exit code or another.

    Args:
        finding: of a pod.
        recorded: the message of the status.
    """
    if finding.reason == CRASH_LOOP:
        at = recorded.find(finding.message.partition(_EXITED)[0] + _EXITED)
        return Finding(finding.reason, recorded[at:]) if at >= 0 else finding
    if finding.reason not in _COUNTING or finding.message in recorded:
        return finding
    at = recorded.find(finding.message.partition(_SCHEDULER_SAYS)[0] + _SCHEDULER_SAYS)
    if at >= 0 and _reasons(recorded[at:]) == _reasons(finding.message):
        return Finding(finding.reason, recorded[at:])
    return finding


def _reasons(text: str) -> frozenset[str]:
    """A scheduler's reasons without their counts and order."""
    _, _, said = text.partition(_SCHEDULER_SAYS)
    return frozenset(_COUNT.sub("", part).strip(" .") for part in _BETWEEN_REASONS.split(said))


_EXITED = ", last "
_COUNTING = ("Unschedulable", "VolumeNotBound")
_SCHEDULER_SAYS = " cannot be scheduled: "
_COUNT = re.compile(r"\b\d+(/\d+)?\b")
_BETWEEN_REASONS = re.compile(r"[,.:] ")
_RAN = ("running", "terminated")
_ORDER = (*_WAITING, NODE_NOT_READY, "Evicted", "VolumeNotBound", "Unschedulable")
_RANK = {reason: rank for rank, reason in enumerate(_ORDER)}


def _problems(pod: Object, broken: Collection[Object]) -> Iterator[Finding]:
    """The problems of a pod.

    Args:
        pod: the pod.
        broken: its containers that are in a crash loop. A kubelet says of one that cannot be started at each
            try that this failed.
    """
    name, status = pod_name(pod), lenient_map(pod.get("status"))
    for container in containers(pod, init=True):
        waiting = _state(container, "waiting") or {}
        reason = waiting.get("reason")
        if reason in _WAITING and not (reason == _CANNOT_START and container in broken):
            what = f"container {container.get('name')} of pod {name}"
            if reason in IMAGE_PROBLEMS:
                yield pull_problem(what, reason, container.get("image", ""), waiting.get("message"))
            elif reason != CRASH_LOOP:
                yield Finding(reason, line(f"{what}: {reason}", waiting.get("message")))
            else:
                yield _crash_loop(pod, container)
    for condition in lenient_maps(status.get("conditions")):
        if condition.get("type") == "PodScheduled" and condition.get("reason") in _NOT_SCHEDULED:
            text = str(condition.get("message") or "")
            volume = any(words in text.lower() for words in _VOLUME_WORDS)
            yield Finding(
                "VolumeNotBound" if volume else "Unschedulable",
                line(f"pod {name} cannot be scheduled", text),
            )


def _crash_loops(pod: Object, broken: Collection[Object]) -> Iterator[Finding]:
    """The crash loops of containers that do not wait in back-off at this moment."""
    for container in broken:
        if (_state(container, "waiting") or {}).get("reason") != CRASH_LOOP:
            yield _crash_loop(pod, container)


def _crash_loop(pod: Object, container: Object) -> Finding:
    what = f"container {container.get('name')} of pod {pod_name(pod)}: {CRASH_LOOP}"
    parts = (what, restarts(container))
    return Finding(CRASH_LOOP, ", ".join(part for part in parts if part) + _last_exit(pod, container))


_NOT_SCHEDULED = ("Unschedulable", "SchedulerError")
"""Reasons of a scheduler: no node takes the pod, or the chosen one failed, mostly over a volume that took too
long."""

_VOLUME_WORDS = (
    "persistentvolumeclaim",
    "persistent volume",
    "volume node",
    "binding volumes",
    "non-existent pv",
)
"""What the scheduler says of pods that wait for a volume."""


def _last(container: Object) -> Object:
    """How the container ended the last time; empty when it never did."""
    return lenient_map(lenient_map(container.get("lastState")).get("terminated"))


def _last_exit(pod: Object, container: Object) -> str:
    last = _state(container, "terminated") or _last(container)
    return f"{_EXITED}{exit_text(last, container.get('name'), pod)}" if last else ""
