"""What is observed of a workload, as diagnosis rules, backends and listeners get it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kaiwo.api.workload import Workload
from kaiwo.plugin.lifecycle import Transition
from kaiwo.plugin.observation import Observation
from kaiwo.testing.builders import CREATED, NOW, UID, job
from kaiwo.workload.labels import NAME, RUN_ID, TYPE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from kaiwo.api.plugin_fields import WorkloadKind
    from kaiwo.engine.resource import Object

CHILD_UID = "22222222-2222-4333-8444-555555555555"
"""The uid of every built child."""


def pod(
    name: str = "train-0",
    *,
    phase: str = "",
    waiting: str = "",
    exit_code: int | None = None,
    reason: str = "",
    message: str = "",
    restarts: int = 0,
    owner: Mapping[str, str] | None = None,
    **status: Any,
) -> Object:
    """A pod with one container, which runs unless something else is said.

    Args:
        name: its name.
        phase: its phase; by default the one that follows from the container.
        waiting: the container waits for this reason (``ImagePullBackOff``).
        exit_code: the container ended with this code.
        reason: reason of a container that ended (``OOMKilled``).
        message: message of the container's state.
        restarts: how often the container was started again.
        owner: apiVersion, kind, name and uid of its controller; the built child by default.
        status: more fields of its status.
    """
    if waiting:
        state: Object = {"waiting": {"reason": waiting, "message": message}}
    elif exit_code is not None:
        ended = {"exitCode": exit_code, "startedAt": CREATED, "finishedAt": CREATED}
        state = {"terminated": {**ended, "reason": reason or _reason(exit_code), "message": message}}
    else:
        state = {"running": {"startedAt": CREATED}}
    follows = (
        "Pending" if waiting else "Running" if exit_code is None else "Failed" if exit_code else "Succeeded"
    )
    container = {"name": "main", "state": state, "ready": "running" in state, "restartCount": restarts}
    controller = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": CHILD_UID, **(owner or {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-of-{name}",
            "creationTimestamp": CREATED,
            "labels": {RUN_ID: UID, NAME: "train", TYPE: "kaiwojob"},
            "ownerReferences": [{**controller, "controller": True}],
        },
        "spec": {"containers": [{"name": "main", "image": "registry.example/train:1"}]},
        "status": {"phase": phase or follows, "containerStatuses": [container], **status},
    }


def _reason(exit_code: int) -> str:
    return "Error" if exit_code else "Completed"


def observation(
    workload: Object | None = None,
    *,
    child: Object | None = None,
    pods: Sequence[Object] = (),
    now: datetime = NOW,
    **more: Any,
) -> Observation:
    """An observation of a workload.

    Args:
        workload: the workload; a KaiwoJob by default.
        child: its live child; an object without a status by default.
        pods: its pods, see :func:`pod`.
        now: the time.
        more: other fields of :class:`~kaiwo.plugin.observation.Observation`.
    """
    read = Workload.from_object(workload or job())
    live = child or {"metadata": {"name": read.name, "namespace": read.namespace, "uid": CHILD_UID}}
    given: dict[str, Any] = {"admission": None, "queued": False, **more}
    return Observation(workload=read, child=live, pods=tuple(pods), now=now, **given)


def transition(
    after: str = "FAILED",
    *,
    before: str = "RUNNING",
    reason: str = "Error",
    message: str = "container main of pod train-0 exited with 1",
    kind: WorkloadKind = "KaiwoJob",
    namespace: str = "default",
    name: str = "train",
    at: datetime = NOW,
    **more: Any,
) -> Transition:
    """A change of a workload's status, as transition listeners get it; `more` are its other fields."""
    return Transition(kind, namespace, name, UID, before, after, reason, message, at, **more)
