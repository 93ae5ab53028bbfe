"""What a pod's status says to somebody who wants to read or connect."""

from __future__ import annotations

from typing import Any

import pytest

from kaiwo.client.pods import ContainerState, chosen_containers, container_state, may_restart, why_no_pods


def pod(*, phase: str = "Running", annotations: Any = None, **status: Any) -> dict[str, Any]:
    """A pod with an init container and two others."""
    return {
        "metadata": {"name": "train-0", "annotations": annotations or {}},
        "spec": {"initContainers": [{"name": "unpack"}], "containers": [{"name": "main"}, {"name": "side"}]},
        "status": {"phase": phase, **status},
    }


def of_main(**container: Any) -> dict[str, Any]:
    """A pod whose main container has a status."""
    return pod(containerStatuses=[{"name": "main", **container}])


ENDED = {"terminated": {"containerID": "c://1", "startedAt": "t1", "exitCode": 1}}


@pytest.mark.parametrize(
    ("given", "state"),
    [
        (
            of_main(state={"running": {"startedAt": "t1"}}, containerID="c://1"),
            ContainerState(instance="c://1", running=True),
        ),
        (of_main(state=ENDED, containerID="c://1"), ContainerState(instance="c://1", ended=True)),
        (
            of_main(
                state={"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}, lastState=ENDED
            ),
            ContainerState(instance="c://1", ended=True, waiting="CrashLoopBackOff: back-off"),
        ),
        (
            of_main(state={"running": {"startedAt": "t2"}}, containerID="c://2", lastState=ENDED),
            ContainerState(instance="c://2", running=True),
        ),
        (
            of_main(state={"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}),
            ContainerState(waiting="ImagePullBackOff: no such image"),
        ),
        (
            pod(
                phase="Pending",
                conditions=[
                    {
                        "type": "PodScheduled",
                        "status": "False",
                        "reason": "Unschedulable",
                        "message": "0/4 nodes are available",
                    }
                ],
            ),
            ContainerState(waiting="Unschedulable: 0/4 nodes are available"),
        ),
        (
            pod(
                phase="Pending",
                initContainerStatuses=[{"name": "unpack", "state": {"running": {"startedAt": "t"}}}],
                containerStatuses=[{"name": "main", "state": {"waiting": {"reason": "PodInitializing"}}}],
            ),
            ContainerState(waiting="init container unpack runs"),
        ),
        (pod(phase="Failed", reason="Evicted"), ContainerState(ended=True, waiting="Evicted")),
    ],
)
def test_the_state_of_a_container(given: dict[str, Any], state: ContainerState) -> None:
    """Which instance it is, whether it runs, and why not."""
    assert container_state(given, "main") == state


def test_the_main_container_is_the_annotated_or_the_first() -> None:
    """--all takes the init containers, too."""
    assert chosen_containers(pod(), None, all_containers=False) == ["main"]
    annotated = pod(annotations={"kubectl.kubernetes.io/default-container": "side"})
    assert chosen_containers(annotated, None, all_containers=False) == ["side"]
    assert chosen_containers(pod(), None, all_containers=True) == ["unpack", "main", "side"]
    assert chosen_containers(pod(), "unpack", all_containers=False) == ["unpack"]
    assert chosen_containers(pod(), "nope", all_containers=False) == []


@pytest.mark.parametrize(
    ("status", "download", "text"),
    [
        ({}, False, "job/train has no pod yet (not yet observed by an operator)"),
        (
            {"status": "PENDING", "message": "queue is full"},
            False,
            "job/train has no pod yet (PENDING: queue is full)",
        ),
        ({"status": "COMPLETE"}, False, "job/train has no pod any more (COMPLETE)"),
        ({"status": "RUNNING"}, True, "job/train has no download pod any more (RUNNING)"),
    ],
)
def test_why_there_is_no_pod(status: dict[str, str], download: bool, text: str) -> None:
    """In the words of the status."""
    storage = {"huggingFace": {"preCacheRepos": [{"repoId": "a/b"}]}}
    workload = {
        "kind": "KaiwoJob",
        "metadata": {"name": "train", "namespace": "team"},
        "spec": {"storage": storage},
        "status": status,
    }
    found = why_no_pods(workload, download=download)
    assert str(found) == text
    assert "train -n team" in found.next_step or "kaiwo doctor" in found.next_step


@pytest.mark.parametrize("spec", [{}, {"storage": None}, {"storage": {"data": {"storageSize": "1Gi"}}}])
def test_a_workload_without_downloads_never_had_a_download_pod(spec: dict[str, Any]) -> None:
    """A pod that is gone and one that never was are told apart, whatever the status is."""
    workload = {
        "kind": "KaiwoJob",
        "metadata": {"name": "train", "namespace": "team"},
        "spec": spec,
        "status": {},
    }
    found = why_no_pods(workload, download=True)
    assert str(found).startswith("job/train downloads nothing")
    assert found.next_step == "kaiwo logs job/train -n team"


def with_sidecar(policy: str, **status: Any) -> dict[str, Any]:
    """A pod with a sidecar before its init container."""
    made = pod(phase="Pending", **status)
    sidecar = {"name": "proxy", "restartPolicy": "Always"}
    return {
        **made,
        "spec": {**made["spec"], "restartPolicy": policy, "initContainers": [sidecar, {"name": "unpack"}]},
    }


@pytest.mark.parametrize(
    ("policy", "container", "code", "again"),
    [
        ("Never", "main", 1, False),
        ("OnFailure", "main", 1, True),
        ("Always", "main", 0, True),
        ("Never", "proxy", 1, True),
        ("OnFailure", "proxy", 0, True),
        ("Always", "unpack", 0, False),
        ("OnFailure", "unpack", 1, True),
    ],
)
def test_which_container_is_started_again(policy: str, container: str, code: int, *, again: bool) -> None:
    """A sidecar always is, also in the pod of a Job that restarts nothing."""
    ended = {"name": container, "state": {"terminated": {"startedAt": "t", "exitCode": code}}}
    found = with_sidecar(policy, initContainerStatuses=[ended])
    assert may_restart(found, container) is again


@pytest.mark.parametrize(
    ("unpack", "waiting"),
    [
        ({"running": {"startedAt": "t"}}, "init container unpack runs"),
        ({"waiting": {"reason": "ImagePullBackOff"}}, "init container unpack: ImagePullBackOff"),
    ],
)
def test_nothing_waits_for_the_end_of_a_sidecar(unpack: dict[str, Any], waiting: str) -> None:
    """What holds a pod up is the init container after it."""
    found = with_sidecar(
        "Never",
        initContainerStatuses=[
            {"name": "proxy", "state": {"running": {"startedAt": "t"}}},
            {"name": "unpack", "state": unpack},
        ],
        containerStatuses=[{"name": "main", "state": {"waiting": {"reason": "PodInitializing"}}}],
    )
    assert container_state(found, "main").waiting == waiting
