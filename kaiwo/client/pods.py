"""The pods of a workload as streams need them: which container, whether it runs, why there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kaiwo.api.status_words import TERMINAL
from kaiwo.client.errors import ClientError
from kaiwo.client.lookup import label, reference
from kaiwo.engine.resource import POD
from kaiwo.workload.labels import ADOPTED, DOWNLOADER, POD_LABEL, RUN_ID, TYPE
from kaiwo.workload.pods.requests import is_sidecar

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Object

DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"
"""Annotation by which a pod names the container that commands mean."""


_STARTING = ("", "PodInitializing", "ContainerCreating")
"""Reasons of a container that waits as every one does before its start."""


class NoPods(ClientError):
    """A workload has no pod that could be read from or connected to."""


class NoContainer(ClientError):
    """No pod of the workload has a container of that name."""

    exit_code = 3


class ContainerState(msgspec.Struct, frozen=True):
    """One container of a pod.

    Attributes:
        instance: changes with each restart; empty before the first start.
        running: whether it runs now.
        ended: whether the last instance has ended.
        waiting: why it does not run, empty otherwise.
    """

    instance: str = ""
    running: bool = False
    ended: bool = False
    waiting: str = ""


def selector(workload: Object, *, download: bool = False) -> str:
    """The label selector of a workload's pods, or of those of its download."""
    if found := adopted_pods(workload):
        return found
    sign = "=" if download else "!="
    return f"{RUN_ID}={workload['metadata']['uid']},{TYPE}{sign}{DOWNLOADER}"


def adopted_pods(workload: Object) -> str:
    """The label selector of the pods of an adopted object, which carry no label of Kaiwo's; else empty."""
    metadata = workload["metadata"]
    uid = (metadata.get("labels") or {}).get(ADOPTED)
    key = (metadata.get("annotations") or {}).get(POD_LABEL)
    return f"{key}={uid}" if uid and key else ""


async def list_pods(api: Client, workload: Object, *, download: bool = False) -> list[Object]:
    """The pods of a workload, oldest first."""
    found = api.list(
        POD, workload["metadata"]["namespace"], label_selector=selector(workload, download=download)
    )
    return in_order([pod async for pod in found])


def in_order(pods: Iterable[Object]) -> list[Object]:
    """Oldest first; those of one second by name."""
    return sorted(pods, key=lambda pod: (pod["metadata"].get("creationTimestamp") or "", pod_name(pod)))


def pod_name(pod: Object) -> str:
    """The name of a pod."""
    name: str = pod["metadata"]["name"]
    return name


def phase(pod: Object) -> str:
    """The phase of a pod; empty before it has one."""
    return str((pod.get("status") or {}).get("phase") or "")


def has_ended(pod: Object) -> bool:
    """Whether no container of the pod will run again."""
    return phase(pod) in ("Succeeded", "Failed")


def is_ready(pod: Object) -> bool:
    """Whether the pod serves requests."""
    if pod["metadata"].get("deletionTimestamp"):
        return False
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)


def is_running(pod: Object) -> bool:
    """Whether containers of the pod run and it is not being deleted."""
    return phase(pod) == "Running" and not pod["metadata"].get("deletionTimestamp")


def containers(pod: Object) -> list[str]:
    """All containers in the order in which they start."""
    spec = pod.get("spec") or {}
    listed = (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    return [str(container["name"]) for container in listed]


def main_container(pod: Object) -> str:
    """The container that is meant when none is named."""
    named = (pod["metadata"].get("annotations") or {}).get(DEFAULT_CONTAINER)
    if named in containers(pod):
        return str(named)
    return str(pod["spec"]["containers"][0]["name"])


def chosen_containers(pod: Object, container: str | None, *, all_containers: bool) -> list[str]:
    """The containers of a pod that are meant; empty when it has none of that name."""
    if all_containers:
        return containers(pod)
    if container is None:
        return [main_container(pod)]
    return [container] if container in containers(pod) else []


def unknown_container(pods: Sequence[Object], container: str) -> NoContainer:
    """The error for a container that no pod has."""
    known = dict.fromkeys(name for pod in pods for name in containers(pod))
    return NoContainer(
        f'container "{container}" not found in pod {pod_name(pods[0])}', f"its containers: {', '.join(known)}"
    )


def container_state(pod: Object, container: str) -> ContainerState:
    """What the pod's status says of one of its containers."""
    status = pod.get("status") or {}
    listed = (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ()))
    found = next((each for each in listed if each.get("name") == container), None)
    if found is None:
        return ContainerState(ended=has_ended(pod), waiting=_pod_waits(pod))
    state = found.get("state") or {}
    last = (found.get("lastState") or {}).get("terminated") or {}
    running, terminated, waits = (state.get(name) for name in ("running", "terminated", "waiting"))
    current = running or terminated or last
    instance = str(current.get("containerID") or "") or str(current.get("startedAt") or "")
    if running:
        instance = str(found.get("containerID") or "") or instance
    why = ""
    if not running and not terminated:
        reason, message = (waits or {}).get("reason") or "", (waits or {}).get("message") or ""
        why = ": ".join(part for part in (str(reason), str(message)) if part)
        if reason in _STARTING and not message:
            why = _pod_waits(pod)
    return ContainerState(
        instance=instance, running=bool(running), ended=bool(terminated or last) and not running, waiting=why
    )


def _pod_waits(pod: Object) -> str:
    """Why a pod's containers have not started."""
    status = pod.get("status") or {}
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return f"{condition.get('reason')}: {condition.get('message') or 'not scheduled'}"
    sidecars = {
        each["name"] for each in filter(is_sidecar, (pod.get("spec") or {}).get("initContainers") or ())
    }
    for init in status.get("initContainerStatuses") or ():
        state = init.get("state") or {}
        if state.get("running") and init.get("name") in sidecars:
            # Nothing waits for its end.
            continue
        if state.get("running"):
            return f"init container {init.get('name')} runs"
        if reason := (state.get("waiting") or {}).get("reason"):
            return f"init container {init.get('name')}: {reason}"
        if (state.get("terminated") or {}).get("exitCode"):
            return f"init container {init.get('name')} failed"
    return str(status.get("reason") or "") or "its containers have not started"


def why_stuck(pod: Object, container: str) -> str:
    """Why a container is not started, or not again; empty while it starts as every one does."""
    status = pod.get("status") or {}
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return _pod_waits(pod)
    before = status.get("initContainerStatuses") or ()
    for each in (*before, *(status.get("containerStatuses") or ())):
        waits = (each.get("state") or {}).get("waiting") or {}
        if waits.get("reason", "") in _STARTING:
            continue
        if each.get("name") == container:
            return container_state(pod, container).waiting
        if each in before:
            return f"init container {each.get('name')}: {waits['reason']}"
    return ""


def restarts(pod: Object, container: str) -> int:
    """How often a container of a pod was started again."""
    status = pod.get("status") or {}
    listed = (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ()))
    counts = (each.get("restartCount") for each in listed if each.get("name") == container)
    return next((count for count in counts if isinstance(count, int)), 0)


def may_restart(pod: Object, container: str) -> bool:
    """Whether the kubelet would start a container of a pod again that has ended."""
    spec = pod.get("spec") or {}
    init = next((each for each in spec.get("initContainers") or () if each["name"] == container), None)
    if init is None:
        return bool(spec.get("restartPolicy") != "Never")
    if is_sidecar(init):
        # As long as the pod runs, whatever the policy of the pod is.
        return True
    # One that succeeded is not started again; one that failed is, unless the pod failed.
    statuses = (pod.get("status") or {}).get("initContainerStatuses") or ()
    own: Object = next((each for each in statuses if each.get("name") == container), {})
    ended = (own.get("state") or {}).get("terminated") or {}
    return bool(ended.get("exitCode") != 0)


def workload_word(workload: Object) -> str:
    """The status word; empty before an operator has observed the workload."""
    return str((workload.get("status") or {}).get("status") or "")


def is_terminal(workload: Object) -> bool:
    """Whether the workload has ended."""
    return workload_word(workload) in TERMINAL


def _downloads(workload: Object) -> bool:
    """Whether the workload names anything that is downloaded before it starts."""
    storage = (workload.get("spec") or {}).get("storage") or {}
    data, models = storage.get("data") or {}, storage.get("huggingFace") or {}
    return bool(data.get("download") or models.get("preCacheRepos"))


def why_no_pods(workload: Object, *, download: bool = False) -> NoPods:
    """The error for a workload without pods, in the words of its status."""
    name, word = label(workload), workload_word(workload)
    named = reference(workload)
    status = workload.get("status") or {}
    reason = str(status.get("message") or status.get("reason") or "")
    if download and not _downloads(workload):
        return NoPods(f"{name} downloads nothing: spec.storage names no download", f"kaiwo logs {named}")
    what = "download pod" if download else "pod"
    if not word:
        said = "not yet observed by an operator"
        return NoPods(f"{name} has no {what} yet ({said})", "kaiwo doctor checks whether an operator runs")
    said = f"{word}: {reason}" if reason else word
    if word in TERMINAL or (download and word in ("RUNNING", "READY")):
        return NoPods(f"{name} has no {what} any more ({said})", f"kaiwo status {named}")
    return NoPods(f"{name} has no {what} yet ({said})", f"kaiwo status {named}; logs -f waits for it")
