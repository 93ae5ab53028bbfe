"""The failure of pods is explained by what happened first, not by what was stopped because of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kaiwo.workload.observe.pod_failure import failure

if TYPE_CHECKING:
    from kaiwo.engine.resource import Object
    from kaiwo.plugin.observation import Finding


def ended(name: str, code: int, at: str, reason: str = "Error") -> Object:
    """The status of a container that has ended."""
    terminated = {"exitCode": code, "reason": reason, "finishedAt": f"2026-01-02T03:05:{at}Z"}
    return {"name": name, "state": {"terminated": terminated}}


def pod(name: str, *containers: Object, stopped: bool = False, **status: Any) -> Object:
    """A failed pod."""
    metadata = {"name": name, **({"deletionTimestamp": "2026-01-02T03:05:40Z"} if stopped else {})}
    return {
        "metadata": metadata,
        "status": {"phase": "Failed", "containerStatuses": list(containers), **status},
    }


def cause(*pods: Object) -> Finding:
    """Why the pods failed."""
    found = failure(pods)
    assert found is not None
    return found


def test_a_sidecar_that_is_stopped_at_the_end_is_not_the_cause() -> None:
    """A kubelet stops the sidecars once the program has failed; they end in the same second, or later."""
    failed = pod("a", ended("main", 1, "10"), initContainerStatuses=[ended("logs", 143, "10")])
    failed["spec"] = {"initContainers": [{"name": "logs", "restartPolicy": "Always"}]}
    assert cause(failed).message == "container main of pod a exited with code 1"


def test_an_init_container_that_fails_is_the_cause() -> None:
    """The containers after it never started."""
    failed = pod("a", {"name": "main", "state": {"waiting": {}}}, initContainerStatuses=[ended("i", 4, "10")])
    assert cause(failed).message == "container i of pod a exited with code 4"


def test_the_container_that_failed_first_is_the_cause() -> None:
    """A kubelet lists containers by name, whichever failed."""
    assert "container main" in cause(pod("a", ended("agent", 143, "30"), ended("main", 1, "10"))).message


def test_the_pod_that_failed_first_is_the_cause() -> None:
    """The Job controller stops the other pods of a parallel job, and these end with its signal."""
    stopped, broken = pod("a", ended("m", 143, "12"), stopped=True), pod("b", ended("m", 2, "10"))
    assert "pod b exited with code 2" in cause(stopped, broken).message
    at_once = pod("a", ended("m", 143, "10"), stopped=True)
    assert "pod b exited with code 2" in cause(at_once, broken).message


def test_an_eviction_is_the_cause_though_its_containers_have_a_code() -> None:
    """A node that is short of disk kills the containers and says why on the pod."""
    said = "The node was low on resource: ephemeral-storage."
    evicted = pod("a", ended("main", 137, "10"), reason="Evicted", message=said)
    assert cause(evicted).reason == "Evicted"
    assert cause(evicted).message == f"pod a was evicted: {said}"


def test_what_a_node_says_is_a_word() -> None:
    """A reason of a status has letters and digits alone."""
    assert cause(pod("a", reason="OutOfamd.com/gpu", message="none")).reason == "OutOfamdcomgpu"


def test_a_failed_node_is_the_cause_of_what_ends_before_it_is_noticed() -> None:
    """The other workers time out minutes before the node counts as lost."""
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "DeletionByTaintManager",
        "message": "node is gone",
        "lastTransitionTime": "2026-01-02T03:09:00Z",
    }
    gone = pod("b", stopped=True, conditions=[condition])
    assert cause(pod("a", ended("m", 1, "10")), gone).reason == "NodeLost"


def test_a_pod_that_a_device_taint_deletes_says_so() -> None:
    """Kubernetes 1.36 deletes pods whose GPU, of a ResourceClaim, has a taint; SIGTERM says nothing."""
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "DeletionByDeviceTaintManager",
        "message": "Device Taint manager: deleting due to NoExecute taint",
    }
    gone = pod("a", ended("m", 143, "10"), stopped=True, conditions=[condition])
    gone["spec"] = {"nodeName": "amd-1"}
    assert cause(gone).reason == "Evicted"
    assert cause(gone).message == f"pod a was deleted from node amd-1: {condition['message']}"


def test_a_pod_that_kueue_ends_says_so() -> None:
    """Kueue 0.17 fails pods that wait for a node with a new taint; no container of theirs ever ran."""
    condition = {
        "type": "TerminatedByKueue",
        "status": "True",
        "reason": "UnschedulableOnAssignedNode",
        "message": "Pod terminated by Kueue NodeController due to node taint",
    }
    ended_by_kueue = pod("a", conditions=[condition])
    assert cause(ended_by_kueue).reason == "UnschedulableOnAssignedNode"
    assert cause(ended_by_kueue).message == f"pod a was ended by its queue: {condition['message']}"
    ran = pod("a", ended("m", 3, "10"), conditions=[condition])
    assert cause(ran).reason == "ExitCode", "what its container says comes first"
