"""Pods on a node that Kubernetes does not reach: what they do is not known until the node is back.

The kubelet of such a node writes nothing, so the containers keep the states that it wrote last. The node
controller sets the condition Ready of the pods to False, and nothing else. After a while the pods are
deleted, and stay as they are, since no kubelet confirms it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.plugin.observation import Finding
from kaiwo.workload.json_access import is_deleting, lenient_map, lenient_maps, lenient_text
from kaiwo.workload.metadata import controller_of
from kaiwo.workload.observe.pod_failure import pod_name

if TYPE_CHECKING:
    from kaiwo.engine.resource import Object

NODE_NOT_READY = "NodeNotReady"
"""The reason of the Event that the node controller writes about such a pod."""

_NOT_REACHED = (NODE_NOT_READY, "NodeLost", "NodeStatusUnknown", "NodeUnreachable")
_ENDED = ("Succeeded", "Failed")
_TAINTS = ("node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready")
_EVICTED_AFTER = 300
"""Seconds after which Kubernetes deletes the pods of such a node, where their tolerations do not say."""


def on_unready_node(pod: Object) -> bool:
    """Whether the node of a pod is not ready or not reachable, as far as the pod itself tells.

    A kubelet writes Ready=False for a pod whose containers are all ready only where a readiness gate is not
    met. Without one it was the node controller.
    """
    spec, status = _spec(pod), lenient_map(pod.get("status"))
    phase = status.get("phase")
    if phase in _ENDED or not spec.get("nodeName"):
        return False
    if phase == "Unknown" or status.get("reason") in _NOT_REACHED:
        return True
    conditions = _conditions(pod)
    ready = conditions.get("Ready", {})
    if ready.get("status") not in ("False", "Unknown"):
        return False
    if ready.get("reason") in _NOT_REACHED:
        return True
    gates = [lenient_text(item.get("conditionType")) for item in lenient_maps(spec.get("readinessGates"))]
    met = all(conditions.get(gate, {}).get("status") == "True" for gate in ("ContainersReady", *gates))
    return met and not ready.get("reason")


def unready_node(pod: Object) -> Finding | None:
    """The node that is not reached, since when, and what happens to the pod; None for any other pod."""
    if not on_unready_node(pod):
        return None
    since = lenient_text(_conditions(pod).get("Ready", {}).get("lastTransitionTime"))
    what = f"node {_node(pod)} of pod {pod_name(pod)} is not ready or not reachable"
    if since:
        what += f" since {since}"
    return Finding(NODE_NOT_READY, f"{what}; {_next(pod)}")


def unconfirmed(pod: Object) -> str:
    """What the deletion of a pod on a lost node waits for; empty for any other pod."""
    if not is_deleting(pod) or not on_unready_node(pod):
        return ""
    node = _node(pod)
    remove = _remove(node)
    return f"node {node} is not reachable, and the deletion waits for it; if it never comes back, {remove}"


def _next(pod: Object) -> str:
    remove = _remove(_node(pod))
    if is_deleting(pod):
        return f"the pod was deleted, and stays until the node is back; if it never comes back, {remove}"
    after = _evicted_after(pod)
    if after is None:
        return (
            "its containers may still run, and its tolerations keep the pod there; if the node never comes "
            f"back, {remove}"
        )
    return (
        f"its containers may still run. Unless the node is back within {after} s, Kubernetes deletes the "
        f"pod, and {_successor(pod)}"
    )


def _successor(pod: Object) -> str:
    owner = controller_of(pod) or {}
    kind, name = lenient_text(owner.get("kind")), lenient_text(owner.get("name"))
    if kind == "Job":
        return f"Job {name} counts it as failed"
    return f"{kind} {name} replaces it on another node" if kind else "nothing replaces it"


def _evicted_after(pod: Object) -> int | None:
    """Seconds that the pod stays on such a node; None for ever."""
    seconds: list[int] = []
    for taint in _TAINTS:
        found = [item for item in lenient_maps(_spec(pod).get("tolerations")) if _tolerates(item, taint)]
        times = [value for item in found if isinstance(value := item.get("tolerationSeconds"), int)]
        if found and not times:
            continue
        seconds.append(max(0, min(times)) if times else _EVICTED_AFTER)
    return min(seconds, default=None)


def _tolerates(toleration: Object, taint: str) -> bool:
    key, effect = toleration.get("key"), toleration.get("effect")
    every = not key and toleration.get("operator") == "Exists"
    return (every or key == taint) and effect in (None, "", "NoExecute")


def _spec(pod: Object) -> Object:
    return lenient_map(pod.get("spec"))


def _node(pod: Object) -> str:
    return lenient_text(_spec(pod).get("nodeName"))


def _remove(node: str) -> str:
    return f"run 'kubectl delete node {node}'"


def _conditions(pod: Object) -> dict[str, Object]:
    found = lenient_maps(lenient_map(pod.get("status")).get("conditions"))
    return {lenient_text(item.get("type")): item for item in found}
