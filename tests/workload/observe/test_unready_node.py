"""A node that Kubernetes does not reach is named in the status of its workloads until it is back."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import kaiwo_deployment.plugin
from kaiwo.testing import plugins, service
from kaiwo.testing.builders import NOW
from kaiwo.workload.model import Registry
from kaiwo.workload.observe.unready_node import on_unready_node, unconfirmed, unready_node

if TYPE_CHECKING:
    from conftest import World
    from kaiwo.engine.resource import Object

SINCE = "2026-01-02T03:04:30Z"
NODE_TAINT = "node.kubernetes.io/unreachable"
RUNNING = {"name": "workload", "ready": True, "state": {"running": {"startedAt": "2026-01-02T03:04:15Z"}}}
DISRUPTED = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "DeletionByTaintManager",
    "message": "Taint manager: deleting due to NoExecute taint",
}


def conditions(ready: str, containers: str = "True", **more: Any) -> list[Object]:
    """What a pod has when its node was lost after its containers had become ready."""
    return [
        {"type": "ContainersReady", "status": containers},
        {"type": "Ready", "status": ready, "lastTransitionTime": SINCE, **more},
    ]


def on_node(pod: Object, *, deleted: bool = False, **spec: Any) -> Object:
    """A pod with a node."""
    metadata = {**pod["metadata"], **({"deletionTimestamp": SINCE} if deleted else {})}
    return {**pod, "metadata": metadata, "spec": {**pod.get("spec", {}), "nodeName": "gpu-7", **spec}}


def running(*extra: Object, ready: str = "False", **more: Any) -> Object:
    """A pod whose container ran when its node was last heard of."""
    status = {
        "phase": "Running",
        "containerStatuses": [RUNNING],
        "conditions": [*conditions(ready), *extra],
        **more,
    }
    return on_node({"metadata": {"name": "train-abc"}, "status": status})


def test_a_running_job_names_the_node_and_heals(world: World) -> None:
    """The containers' last known states say that they run; only the pod's Ready shows the node's."""
    world.settle()
    world.live(status={"startTime": "2026-01-02T03:04:10Z", "active": 1})

    def sees(ready: str) -> Object:
        pod = on_node(world.pod(phase="Running", containerStatuses=[RUNNING], conditions=conditions(ready)))
        pod["metadata"]["ownerReferences"][0]["name"] = "train"
        world.set(pods=(pod,))
        world.settle()
        return world.status

    assert (sees("True")["status"], world.status["reason"]) == ("RUNNING", "Running")
    begun = world.status["startTime"]
    assert (sees("False")["status"], world.status["reason"]) == ("RUNNING", "NodeNotReady")
    assert world.status["message"] == (
        f"node gpu-7 of pod train-abc is not ready or not reachable since {SINCE}; its containers may still "
        "run. Unless the node is back within 300 s, Kubernetes deletes the pod, and Job train counts it as "
        "failed"
    )
    assert [event.reason for event in world.events if event.type == "Warning"] == ["NodeNotReady"]
    assert (sees("True")["status"], world.status["reason"]) == ("RUNNING", "Running")
    assert world.status["startTime"] == begun


def test_a_deletion_that_no_node_confirms_is_said_before_and_after_the_job_gives_up(world: World) -> None:
    """The Job keeps the condition FailureTarget for as long as the pod stays."""
    world.settle()
    world.live(status={"startTime": "2026-01-02T03:04:10Z", "active": 1})
    made = world.pod(
        phase="Running", containerStatuses=[RUNNING], conditions=[*conditions("False"), DISRUPTED]
    )
    world.set(pods=(on_node(made),))
    world.settle()
    world.set(pods=(on_node(made, deleted=True),))
    world.settle()
    assert (world.status["status"], world.status["reason"]) == ("RUNNING", "NodeNotReady")
    assert "the pod was deleted, and stays until the node is back" in world.status["message"]
    assert "'kubectl delete node gpu-7'" in world.status["message"]
    target = {"type": "FailureTarget", "status": "True", "reason": "BackoffLimitExceeded"}
    world.live(status={"startTime": "2026-01-02T03:04:10Z", "conditions": [target]})
    world.at(NOW + timedelta(minutes=10))
    world.settle()
    assert (world.status["status"], world.status["reason"]) == ("RUNNING", "NodeLost")
    assert world.status["message"] == (
        "pod train-abc was deleted from node gpu-7: Taint manager: deleting due to NoExecute taint; node "
        "gpu-7 is not reachable, and the deletion waits for it; if it never comes back, run 'kubectl "
        "delete node gpu-7'"
    )


def test_a_service_counts_only_the_pods_that_are_reached(world: World) -> None:
    """One of two pods is on the lost node: one runs, and the message says which node is missing."""
    world.registry = Registry.of(plugins(kaiwo_deployment.plugin))
    world.obj = service("web", image="image:1", replicas=2)
    world.settle()
    owner = {"kind": "ReplicaSet", "name": "web-1", "controller": True, "uid": "r"}

    def pod(name: str, ready: str) -> Object:
        made = running(ready=ready)
        return {**made, "metadata": {"name": name, "ownerReferences": [owner]}}

    world.live(status={"observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 1})
    world.set(pods=(pod("web-1-a", "True"), pod("web-1-b", "False")))
    world.settle()
    assert (world.status["status"], world.status["reason"]) == ("RUNNING", "NodeNotReady")
    assert world.status["message"].startswith(
        "1 of 2 pods run, not all are ready; node gpu-7 of pod web-1-b is not ready or not reachable"
    )
    assert world.status["message"].endswith("and ReplicaSet web-1 replaces it on another node")
    world.set(pods=(pod("web-1-b", "False"),))
    world.settle()
    assert world.status["message"].startswith("no pod is ready; node gpu-7 of pod web-1-b")


@pytest.mark.parametrize(
    "pod",
    [
        running(),
        running(ready="Unknown"),
        {**running(ready="True"), "status": {"phase": "Unknown", "reason": "NodeLost"}},
        running(ready="True", reason="NodeLost"),
        on_node({
            "metadata": {"name": "a"},
            "status": {"phase": "Running", "conditions": conditions("False", "False", reason="NodeNotReady")},
        }),
    ],
    ids=["marked", "unknown", "phase", "reason", "condition"],
)  # fmt: skip
def test_every_mark_of_kubernetes_is_understood(pod: Object) -> None:
    """The node controller sets Ready alone; older releases and cloud providers write words of their own."""
    found = unready_node(pod)
    assert found is not None
    assert found.message.startswith("node gpu-7 of pod ")


@pytest.mark.parametrize(
    "pod",
    [
        running(ready="True"),
        on_node({
            "metadata": {"name": "a"},
            "status": {"phase": "Running", "conditions": conditions("False", "False")},
        }),
        {**running(), "spec": {"nodeName": "gpu-7", "readinessGates": [{"conditionType": "lb/ready"}]}},
        on_node({
            "metadata": {"name": "a"},
            "status": {
                "phase": "Running",
                "conditions": conditions("False", reason="ReadinessGatesNotReady"),
            },
        }),
        {**running(), "spec": {}},
        {**running(), "status": {**running()["status"], "phase": "Succeeded"}},
        {"metadata": {}, "spec": {"nodeName": 5}, "status": {"conditions": 3}},
    ],
    ids=["ready", "probe", "gate", "gate-said", "no-node", "ended", "nonsense"],
)  # fmt: skip
def test_a_pod_that_is_only_not_ready_says_nothing_of_its_node(pod: Object) -> None:
    """A readiness probe or gate, and a pod that ended, say nothing of the node."""
    assert not on_unready_node(pod)
    assert unready_node(pod) is None
    assert unconfirmed(pod) == ""


@pytest.mark.parametrize(
    ("tolerations", "text"),
    [
        ([], "within 300 s"),
        ([{"key": NODE_TAINT, "operator": "Exists", "tolerationSeconds": 40}], "within 40 s"),
        ([{"key": NODE_TAINT, "operator": "Exists", "tolerationSeconds": 900}], "within 300 s"),
        ([{"operator": "Exists"}], "its tolerations keep the pod there"),
        ([{"operator": "Exists", "effect": "NoSchedule"}], "within 300 s"),
    ],
    ids=["none", "shorter", "longer", "all", "other-effect"],
)
def test_what_happens_next_is_what_the_tolerations_say(tolerations: list[Object], text: str) -> None:
    """The first of the two taints that may come ends the pod."""
    pod = running()
    found = unready_node({**pod, "spec": {**pod["spec"], "tolerations": tolerations}})
    assert found is not None
    assert text in found.message
