"""Why a Ray cluster has a head and no worker: KubeRay makes both, and the API server rejects the workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.engine.timestamps import parse_time
from kaiwo.workload.json_access import lenient_map, lenient_maps
from kaiwo.workload.observe.waiting import NOTHING_FOUND, PodCheck, missing_pods

if TYPE_CHECKING:
    from kaiwo.engine.resource import Object
    from kaiwo.plugin.observation import Observation

_NODE_TYPE = "ray.io/node-type"
_REFUSED = "FailedToCreateWorkerPod"
"""Reason of KubeRay's events about a worker that the API server rejects."""

_RAN = ("RUNNING", "READY")


def with_workers(check: PodCheck, seen: Observation, cluster: object, what: str) -> PodCheck:
    """What was found about the pods that there are, else about the workers that there are not.

    Args:
        check: of the pods.
        seen: what is known of the child.
        cluster: the spec of the RayCluster in it.
        what: kind and name of the object with this spec, for messages.
    """
    if check.finding is not None:
        return check
    workers = check_workers(seen, cluster, what)
    delays = [delay for delay in (check.requeue_after, workers.requeue_after) if delay is not None]
    return PodCheck(workers.finding, min(delays, default=None), check.needs_events or workers.needs_events)


def check_workers(seen: Observation, cluster: object, what: str) -> PodCheck:
    """Why there is no worker beside the head, where some are wanted.

    A quota often has room for the head alone. KubeRay's status shows that late or never: a RayService does
    not follow the conditions of its RayCluster, and before 1.5 a RayJob does not either.

    Args:
        seen: what is known of the child.
        cluster: the spec of the RayCluster in it.
        what: kind and name of the object with this spec, for messages.
    """
    types = [(node_type(pod), pod) for pod in seen.pods]
    heads = [pod for kind, pod in types if kind == "head"]
    begun = [parse_time(lenient_map(pod.get("metadata")).get("creationTimestamp")) for pod in heads]
    # Workers of a cluster that ran before are replaced one by one, within a second or two.
    ran = seen.workload.status.status in _RAN
    if ran or not _wanted(cluster) or any(kind == "worker" for kind, _ in types):
        return NOTHING_FOUND
    event = seen.warning_event
    refused = event if event is not None and event.reason == _REFUSED else None
    latest = max((at for at in begun if at is not None), default=None)
    return missing_pods(latest, seen.now, f"every worker group of {what}", refused)


def node_type(pod: Object) -> object:
    """``head`` or ``worker``, as KubeRay labels a pod of a RayCluster; None for another pod."""
    return lenient_map(lenient_map(pod.get("metadata")).get("labels")).get(_NODE_TYPE)


def _wanted(cluster: object) -> bool:
    """Whether a RayCluster has workers."""
    groups = lenient_maps(lenient_map(cluster).get("workerGroupSpecs"))
    return any(not group.get("suspend") and group.get("replicas") for group in groups)
