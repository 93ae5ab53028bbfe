"""Containers that the cluster added to a Job's pods, and that go on when the Job's own have ended.

The proxy of a service mesh is one, unless it is a native sidecar. A Job ends with the last container of its
pods, so it would look like one that works.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kaiwo.plugin.kit import pod_status
from kaiwo.plugin.kit.json_access import lenient_map, lenient_maps, lenient_text
from kaiwo.plugin.kit.values import parse_time

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from kaiwo.plugin.kit.kinds import Object

ADDED_TIMEOUT = 60.0
"""Seconds that an added container may take to end after the others."""


class AddedContainer(NamedTuple):
    """What is said of a Job whose pods only run containers that were added.

    Attributes:
        message: what goes on, empty while it is too early to say.
        requeue_after: seconds until it is not, None when it is said.
    """

    message: str = ""
    requeue_after: float | None = None


def added_container(job: Object, pods: Iterable[Object], now: datetime) -> AddedContainer | None:
    """The container that keeps a Job from its end; None while one of the Job's own runs.

    Args:
        job: the live Job, whose template has its own containers.
        pods: its pods in which a container runs, at least one.
        now: the time of this reconciliation.
    """
    name = lenient_map(job.get("metadata")).get("name")
    template = lenient_map(lenient_map(lenient_map(job.get("spec")).get("template")).get("spec"))
    own = {lenient_text(item.get("name")) for item in lenient_maps(template.get("containers"))}
    found = [_in_pod(pod, own) for pod in pods]
    ends = [one for one in found if one is not None]
    if not ends or len(ends) != len(found):
        return None
    at, container, pod = max(ends, key=lambda one: one[0])
    left = ADDED_TIMEOUT - (now - at).total_seconds()
    if left > 0:
        return AddedContainer(requeue_after=left)
    why = pod_status.failure([pod])
    ended = why.message if why else f"the containers of Job {name} have ended"
    where = lenient_map(pod.get("metadata")).get("name")
    return AddedContainer(
        f"{ended}; but container {container} of pod {where} still runs, which the cluster added to the "
        "pod, and the Job ends only with it"
    )


def _in_pod(pod: Object, own: set[str]) -> tuple[datetime, str, Object] | None:
    """When the last of the Job's containers in a pod ended, and the added one that runs; None otherwise."""
    again = lenient_map(pod.get("spec")).get("restartPolicy") != "Never"
    ends, running = [], ""
    for container in pod_status.containers(pod):
        state = lenient_map(container.get("state"))
        name = lenient_text(container.get("name"))
        if name in own:
            ended = lenient_map(state.get("terminated"))
            at = parse_time(ended.get("finishedAt"))
            if at is None or (again and ended.get("exitCode")):
                return None
            ends.append(at)
        elif "running" in state:
            running = running or name
    return (max(ends), running, pod) if ends and running else None
