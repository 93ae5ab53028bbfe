from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

import kaiwo_gpu_amd.plugin
from kaiwo import testing
from kaiwo.api.workload import Workload
from kaiwo.plugin.observation import Observation
from kaiwo.testing.builders import NOW
from kaiwo.workload.errors import SpecError
from kaiwo_backend_jobset import plugin

GOLDEN = Path(__file__).parent / "golden"
LOADED = testing.plugins(plugin, kaiwo_gpu_amd.plugin)
(BACKEND,) = LOADED.backends
NODES = [
    testing.node(f"amd-{n}", gpus={"amd.com/gpu": 8}, labels={"amd.com/gpu.product-name": "MI300X"})
    for n in range(2)
]

GENERATED = testing.job(jobSet={}, replicas=2, gpus=16, image="example.com/train:1", entrypoint="train")
EMBEDDED = testing.job(
    gpus=4,
    image="example.com/train:1",
    entrypoint="python train.py",
    jobSet={
        "metadata": {"labels": {"team": "vision"}},
        "spec": {
            "failurePolicy": {"maxRestarts": 3},
            "replicatedJobs": [
                {"name": "trainer", "replicas": 2, "template": {"spec": {"parallelism": 1}}},
                {
                    "name": "loader",
                    "template": {
                        "spec": {
                            "template": {"spec": {"containers": [{"name": "serve", "command": ["serve"]}]}}
                        }
                    },
                },
            ],
        },
    },
)


@pytest.mark.parametrize(("name", "workload"), [("generated", GENERATED), ("embedded", EMBEDDED)])
def test_the_jobset_is_the_expected_one(name: str, workload: dict[str, Any]) -> None:
    """From an empty block, and from a JobSet with two replicated Jobs of which the first gets the GPUs."""
    testing.assert_golden(testing.render(workload, LOADED, nodes=NODES), GOLDEN / f"{name}.yaml")


def test_the_backend_keeps_the_contract() -> None:
    """What the host relies on holds for generated and embedded JobSets, which match their CRD."""
    workloads = [testing.job(jobSet={}), GENERATED, EMBEDDED]
    crd = yaml.safe_load((GOLDEN.parent / "jobset_crd.yaml").read_text(encoding="utf-8"))
    testing.assert_backend_contract(BACKEND, workloads, vendors=LOADED.vendors, nodes=NODES, crds=[crd])


@pytest.mark.parametrize(
    ("block", "name", "path"),
    [
        ("text", "train", "spec.jobSet"),
        ({"spec": {"replicatedJobs": {}}}, "train", "spec.jobSet.spec.replicatedJobs"),
        ({"network": {"enableDNSHostnames": True}}, "train", "spec.jobSet.network"),
        ({"spec": {"replicatedJobs": [{}]}}, "train", "spec.jobSet.spec.replicatedJobs[0].name"),
        (
            {"spec": {"replicatedJobs": [{"name": "a", "replicas": "two"}]}},
            "train",
            "spec.jobSet.spec.replicatedJobs[0].replicas",
        ),
        ({"spec": {"replicatedJobs": [{"name": "a" * 20, "replicas": 11}]}}, "t" * 40, "metadata.name"),
    ],
)
def test_what_jobset_would_not_accept_is_an_error_with_its_path(block: Any, name: str, path: str) -> None:
    """Users get the field before anything is created; JobSet's webhook would only stop the operator."""
    with pytest.raises(SpecError) as caught:
        BACKEND.load().validate(Workload.from_object(testing.job(name, jobSet=block)))
    assert caught.value.path == path


def observed(
    status: dict[str, Any], pods: tuple[dict[str, Any], ...] = (), **spec: Any
) -> tuple[str, str, str]:
    """Status, reason and message of a JobSet with this status."""
    child = {"metadata": {"name": "train"}, "spec": spec, "status": status}
    workload = Workload.from_object(GENERATED)
    found = BACKEND.load().observe(Observation(workload, child, pods, admission=None, queued=False, now=NOW))
    return found.status, found.reason, found.message


def condition(type_: str, reason: str, message: str) -> dict[str, Any]:
    """A status with one condition that holds."""
    at = "2026-01-02T03:04:05Z"
    return {
        "conditions": [
            {
                "type": type_,
                "status": "True",
                "reason": reason,
                "message": message,
                "lastTransitionTime": at,
            }
        ]
    }


def pod(state: dict[str, Any], phase: str = "Running") -> dict[str, Any]:
    """A pod whose one container is in a state."""
    return {
        "metadata": {"name": "train-workers-0-0-x"},
        "spec": {"nodeName": "amd-0"},
        "status": {"phase": phase, "containerStatuses": [{"name": "workload", "state": state}]},
    }


RUNNING = pod({"running": {"startedAt": "2026-01-02T03:04:05Z"}})
KILLED = pod(
    {"terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": "2026-01-02T03:04:05Z"}}, "Failed"
)
FAILED = condition("Failed", "FailedJobs", "jobset failed due to one or more job failures")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (({}, ()), ("STARTING", "Starting", "no container of JobSet train runs yet")),
        (({}, (RUNNING,)), ("RUNNING", "Running", "JobSet train runs")),
        (
            (condition("Completed", "AllJobsCompleted", "jobset completed successfully"), ()),
            ("COMPLETE", "Completed", "JobSet train completed"),
        ),
        (
            (FAILED, ()),
            ("FAILED", "FailedJobs", "JobSet train failed: jobset failed due to one or more job failures"),
        ),
    ],
)
def test_the_status_follows_conditions_and_pods(given: Any, expected: tuple[str, str, str]) -> None:
    """Running is what a pod proves, an end is what JobSet says."""
    assert observed(*given) == expected


def test_a_failed_pod_says_why_the_jobset_failed() -> None:
    """The cause is worth more than that something failed."""
    status, reason, message = observed(FAILED, (KILLED,))
    assert (status, reason) == ("FAILED", "OOMKilled")
    assert "train-workers-0-0-x" in message


def test_a_suspended_jobset_is_pending() -> None:
    """Nobody starts it but who suspended it."""
    assert observed({}, suspend=True)[:2] == ("PENDING", "Suspended")
