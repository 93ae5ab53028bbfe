"""What pods really do: the one problem worth telling, and whether a container runs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kaiwo.plugin.observation import Finding
from kaiwo.workload.json_access import lenient_map, lenient_maps
from kaiwo.workload.observe.stable_message import stable_message

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kaiwo.engine.resource import Object

SCHEDULER_TIMEOUT = 30.0
"""Seconds without any verdict of a scheduler after which it counts as missing."""

POD_TIMEOUT = 30.0
"""Seconds without any pod after which their creation counts as failing."""

WARNING_TIMEOUT = 3.0
"""Seconds without any pod after which the child's events are looked at for the reason."""

_IMAGE = ("ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError")
_WAITING = (
    *_IMAGE,
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
    "CrashLoopBackOff",
)
PROBLEMS = frozenset(
    {
        *_WAITING,
        "Unschedulable",
        "VolumeNotBound",
        "SchedulerMissing",
        "NoPods",
        "FailedCreate",
        "Evicted",
        "OOMKilled",
    }
)
"""Reasons that deserve a warning."""


_SKEW = 2.0
"""Seconds by which the clocks of two API servers may differ, whole seconds included."""


def moment(text: object) -> datetime | None:
    """A Kubernetes time, None when it is absent or none."""
    if not isinstance(text, str):
        return None
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        return None
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


def pod_name(pod: Object) -> str:
    """The pod's name, for messages."""
    return str(lenient_map(pod.get("metadata")).get("name", ""))


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
    born = moment(lenient_map(child.get("metadata")).get("creationTimestamp"))
    if born is None:
        return tuple(pods)
    ages = ((pod, moment(lenient_map(pod.get("metadata")).get("creationTimestamp"))) for pod in pods)
    return tuple(pod for pod, at in ages if at is None or (born - at).total_seconds() <= _SKEW)


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


def gated(pod: Object) -> bool:
    """Whether the pod may not be scheduled yet: a queue, or somebody else, holds a scheduling gate."""
    return bool(lenient_map(pod.get("spec")).get("schedulingGates"))


def started(pods: Iterable[Object]) -> datetime | None:
    """The earliest start of a container, running or ended, init containers not counted."""
    times: list[datetime | None] = []
    for pod in pods:
        for container in containers(pod):
            states = [lenient_map(container.get(source)) for source in ("state", "lastState")]
            times += [
                moment(lenient_map(item.get(name)).get("startedAt")) for item in states for name in _RAN
            ]
    return min((at for at in times if at is not None), default=None)


def problem(pods: Iterable[Object], before: Finding | None = None) -> Finding | None:
    """The worst trouble of any of the pods, None when there is none.

    Args:
        pods: pods of the current run.
        before: what was told last. What is still so stays told, whichever of several pods it is about. A
            kubelet that cannot pull an image alternates between two reasons and texts; once it backs off,
            what was told stays, so that the alternation is not told every time. A scheduler counts the nodes
            for each of its reasons; what was told stays until there is another reason.
    """
    told = before.message if before else ""
    known = list(pods)
    found = [stable_message(finding, told) for pod in known for finding in _problems(pod)]
    if not found and not any(runs(pod) for pod in known):
        found = [finding for pod in known if (finding := _rejection(pod))]
    if not found:
        return None
    worst = min(found, key=lambda one: (_RANK.get(one.reason, len(_RANK)), one.message not in told))
    if worst.reason not in _PULLING or before is None or before.reason != _PULLING[0]:
        return worst
    message = worst.message.replace(worst.reason, before.reason, 1)
    at = before.message.find(message.partition(_PULLS)[0])
    return Finding(before.reason, before.message[at:] if at >= 0 else message)


_PULLING = ("ImagePullBackOff", "ErrImagePull")
_PULLS = ": image "
_RAN = ("running", "terminated")
_ORDER = (*_WAITING, "Evicted", "VolumeNotBound", "Unschedulable")
_RANK = {reason: rank for rank, reason in enumerate(_ORDER)}


def _problems(pod: Object) -> Iterator[Finding]:
    name, status = pod_name(pod), lenient_map(pod.get("status"))
    if status.get("reason") == "Evicted":
        yield Finding("Evicted", _line(f"pod {name} was evicted", status.get("message")))
    for container in containers(pod, init=True):
        waiting = _state(container, "waiting") or {}
        reason = waiting.get("reason")
        if reason in _WAITING:
            what = f"container {container.get('name')} of pod {name}: {reason}"
            if reason in _IMAGE:
                # The kubelet's own text alternates with the reason; the image is what one needs to know.
                yield Finding(
                    reason, f"{what}{_PULLS}{container.get('image', '')!r} cannot be pulled{_why(waiting)}"
                )
            elif reason == "CrashLoopBackOff":
                yield Finding(reason, what + _last_exit(container))
            else:
                yield Finding(reason, _line(what, waiting.get("message")))
    for condition in lenient_maps(status.get("conditions")):
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "Unschedulable":
            text = str(condition.get("message") or "")
            volume = any(words in text.lower() for words in _VOLUME_WORDS)
            yield Finding(
                "VolumeNotBound" if volume else "Unschedulable",
                _line(f"pod {name} cannot be scheduled", text),
            )


def _rejection(pod: Object) -> Finding | None:
    """Why a node sent a pod away before a container ran, such as UnexpectedAdmissionError for a broken GPU.

    Such pods stay while others take their place, so they count only where none of those runs.
    """
    status = lenient_map(pod.get("status"))
    reason = _NO_WORD.sub("", str(status.get("reason") or ""))
    if status.get("phase") != "Failed" or not reason:
        return None
    return Finding(reason, _line(f"pod {pod_name(pod)} failed ({reason})", status.get("message")))


_NO_WORD = re.compile(r"[^A-Za-z0-9]")
_VOLUME_WORDS = ("persistentvolumeclaim", "persistent volume", "volume node")
"""What the scheduler says of pods that wait for a volume."""

_DENIED = (
    ("not found", "; it does not exist there"),
    ("denied", "; access was denied"),
    ("unauthorized", "; access was denied"),
)


def _why(waiting: Object) -> str:
    text = str(waiting.get("message") or "").lower()
    return next((words for sign, words in _DENIED if sign in text), "")


def _last(container: Object) -> Object:
    """How the container ended the last time; empty when it never did."""
    return lenient_map(lenient_map(container.get("lastState")).get("terminated"))


def _last_exit(container: Object) -> str:
    last = _last(container)
    return f", {_exit(last)}" if last else ""


def _exit(terminated: Object) -> str:
    if terminated.get("reason") == "OOMKilled":
        return "killed because it used more memory than its limit (OOMKilled)"
    text = f"exited with code {terminated.get('exitCode')}"
    return f"{text} by signal {terminated['signal']}" if terminated.get("signal") else text


def _line(text: str, detail: object) -> str:
    detail = " ".join(str(detail or "").split())
    return f"{text}: {detail}" if detail else text


_DISRUPTIONS = {
    "DeletionByTaintManager": "NodeLost",
    "DeletionByPodGC": "NodeLost",
    "EvictionByEvictionAPI": "Evicted",
    "PreemptionByScheduler": "PreemptedByScheduler",
}
"""Reasons of the pod condition DisruptionTarget (core/v1), and what they mean for a workload."""


def _disruption(pod: Object) -> Finding | None:
    """Why the cluster itself took the pod away; what its containers exited with is a consequence."""
    for condition in lenient_maps(lenient_map(pod.get("status")).get("conditions")):
        word = _DISRUPTIONS.get(str(condition.get("reason")))
        if condition.get("type") == "DisruptionTarget" and condition.get("status") == "True" and word:
            return Finding(word, _line(f"pod {pod_name(pod)} was deleted", condition.get("message")))
    return None


def failure(pods: Iterable[Object]) -> Finding | None:
    """Why pods failed: a lost node, exit code, memory, eviction; None when no pod tells."""
    for pod in pods:
        if disruption := _disruption(pod):
            return disruption
        status, name = lenient_map(pod.get("status")), pod_name(pod)
        if status.get("phase") not in ("Failed", "Running"):
            continue
        for container in containers(pod, init=True):
            ended = _state(container, "terminated") or _last(container)
            if ended and ended.get("exitCode"):
                reason = "OOMKilled" if ended.get("reason") == "OOMKilled" else "ExitCode"
                where = f"container {container.get('name')} of pod {name}"
                return Finding(reason, _line(f"{where} {_exit(ended)}", ended.get("message")))
        if status.get("reason"):
            word = str(status["reason"])
            text = f"pod {name} was evicted" if word == "Evicted" else f"pod {name} failed"
            return Finding(word, _line(text, status.get("message")))
    return None


def unscheduled(pods: Iterable[Object], now: datetime) -> tuple[Finding | None, float | None]:
    """Pods that no scheduler looked at: the finding once patience is over, or the seconds until then."""
    waits: list[float] = []
    for pod in pods:
        status, spec = lenient_map(pod.get("status")), lenient_map(pod.get("spec"))
        types = {item.get("type") for item in lenient_maps(status.get("conditions"))}
        if "PodScheduled" in types or spec.get("nodeName") or status.get("phase", "Pending") != "Pending":
            continue
        created = moment(lenient_map(pod.get("metadata")).get("creationTimestamp"))
        if created is None:
            continue
        left = SCHEDULER_TIMEOUT - (now - created).total_seconds()
        if left <= 0:
            scheduler = spec.get("schedulerName") or "default-scheduler"
            text = (
                f"pod {pod_name(pod)} waits for scheduler {scheduler!r}, which has not looked at it for "
                f"{SCHEDULER_TIMEOUT:.0f} s; install it, or set KaiwoConfig scheduling.kubeSchedulerName"
            )
            return Finding("SchedulerMissing", text), None
        waits.append(left)
    return None, min(waits, default=None)


_REFUSED = "FailedCreate"
_KUBERAY_REFUSED = "FailedToCreate"
"""How KubeRay's reasons for a pod that is refused begin."""

_NAMED_POD = re.compile(r'\bpods "[^"]*" is')
"""How the API server refuses a pod; each try has a name of its own, which is no news."""


def refused_pods(
    conditions: object, now: datetime, warning_event: Finding | None = None
) -> tuple[Finding | None, float | None]:
    """Why pods cannot be created, as a condition ReplicaFailure tells, or the seconds until it is told.

    A refusal that the next try overcomes is no news.

    Args:
        conditions: of a Deployment or a RayCluster.
        now: the moment of looking.
        warning_event: what the newest warning about the maker of the pods says: a Deployment's condition
            keeps
            the text of its first refusal.
    """
    for item in lenient_maps(conditions):
        if item.get("type") == "ReplicaFailure" and item.get("status") == "True":
            text = str(item.get("message") or "").removeprefix(str(item.get("reason") or ""))
            since = moment(item.get("lastTransitionTime"))
            left = WARNING_TIMEOUT - (now - since).total_seconds() if since else 0.0
            if left > 0:
                return None, left
            text = (
                warning_event.message
                if warning_event is not None and warning_event.reason == _REFUSED
                else text
            )
            return Finding(_REFUSED, _refusal(text) or "pods cannot be created"), None
    return None, None


def _refusal(text: str) -> str:
    return _NAMED_POD.sub("each pod is", " ".join(text.split()))


def ray_cluster(status: Object) -> tuple[str, str] | None:
    """Kind and name of the RayCluster that a status of KubeRay names, which makes the pods."""
    name = status.get("rayClusterName")
    return ("RayCluster", name) if isinstance(name, str) and name else None


@dataclass(frozen=True, slots=True)
class Absence:
    """A child that began and has no pod.

    Attributes:
        finding: what is told of it, None while it is too early.
        requeue_after: seconds until it may be told, None when only an event changes it.
        needs_events: the child's own events should be looked at.
    """

    finding: Finding | None = None
    requeue_after: float | None = None
    needs_events: bool = False


def absent(begun: datetime | None, now: datetime, what: str, warning_event: Finding | None = None) -> Absence:
    """What is to be told of a child that began and has no pod.

    Args:
        begun: when its controller began with it, None while it has not.
        now: the moment of looking.
        what: the child's kind and name, for the message.
        warning_event: what the newest warning about the child says.
    """
    if begun is None:
        return Absence()
    if warning_event is not None:
        reason = _REFUSED if warning_event.reason.startswith(_KUBERAY_REFUSED) else warning_event.reason
        return Absence(Finding(reason, _line(f"{what} has no pod", _refusal(warning_event.message))))
    waited = (now - begun).total_seconds()
    if waited < WARNING_TIMEOUT:
        return Absence(requeue_after=WARNING_TIMEOUT - waited)
    if waited < POD_TIMEOUT:
        return Absence(requeue_after=POD_TIMEOUT - waited, needs_events=True)
    text = (
        f"{what} began {POD_TIMEOUT:.0f} s ago or earlier and has no pod; a quota, a policy or a bad field "
        "may stop them: its events say which"
    )
    return Absence(Finding("NoPods", text), needs_events=True)
