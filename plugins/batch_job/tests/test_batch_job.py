from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

import kaiwo_batch_job.plugin
import kaiwo_gpu_amd.plugin
from kaiwo.api.workload import Workload
from kaiwo.plugin.facts import Allocation, Blocked
from kaiwo.plugin.rendering import AllocationInput
from kaiwo.testing import assert_backend_contract, assert_golden, config, job, node, plugins, render
from kaiwo.testing.builders import NOW
from kaiwo.workload.gpus.nodes import node_fact
from kaiwo.workload.model import Facts, Registry
from kaiwo.workload.plan import plan_object

GOLDEN = Path(__file__).parent / "golden"
LOADED = plugins(kaiwo_batch_job.plugin, kaiwo_gpu_amd.plugin)
(BACKEND,) = kaiwo_batch_job.plugin.kaiwo_backends()
NODES = [node(f"amd-{number}", gpus={"amd.com/gpu": 8}) for number in range(2)]

MINIMAL = job(image="alpine:3", entrypoint="echo hello")
GPUS = job(
    name="finetune",
    namespace="research",
    labels={"team": "vision", "kueue.x-k8s.io/queue-name": "not-copied"},
    annotations={"note": "kept"},
    user="jane.doe+x@Amd.com",
    version="1.2",
    gpus=4,
    gpuModels=["mi300x"],
    image="registry.example/train:1",
    imagePullSecrets=[{"name": "pull"}],
    podTemplateSpecLabels={"stage": "train"},
    entrypoint="#!/bin/bash -e\npython prepare.py\npython train.py --epochs 3\n",
    env=[
        {"name": "MODE", "value": "fast"},
        {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "t", "key": "k"}}},
    ],
    secretVolumes=[
        {"name": "keys", "secretName": "keys", "key": "id", "subPath": "id.txt", "mountPath": "/keys"}
    ],
    storage={
        "storageEnabled": True,
        "storageClassName": "fast",
        "data": {"storageSize": "100Gi"},
        "huggingFace": {"storageSize": "50Gi", "mountPath": "/cache"},
    },
    priorityClass="high",
    requiredTopologyLabel="rack",
)
EMBEDDED = job(
    name="sweep",
    gpus=2,
    image="registry.example/sweep:1",
    resources={"limits": {"memory": "4Gi"}},
    job={
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"labels": {"own": "label"}, "annotations": {"own": "annotation"}, "name": "ignored"},
        "spec": {
            "parallelism": 2,
            "completions": 4,
            "completionMode": "Indexed",
            "backoffLimit": 6,
            "ttlSecondsAfterFinished": 60,
            "template": {
                "metadata": {"creationTimestamp": None, "labels": {"pod": "label"}},
                "spec": {
                    "restartPolicy": "OnFailure",
                    "initContainers": [{"name": "prepare"}],
                    "containers": [
                        {"name": "main", "command": ["run"], "resources": {"requests": {"cpu": "3"}}},
                        {"name": "side", "image": "side:1"},
                    ],
                },
            },
        },
    },
)


@pytest.mark.parametrize(
    ("name", "workload", "settings"),
    [
        ("minimal", MINIMAL, None),
        ("gpus", GPUS, config(nodes={"addTaintsToGpuNodes": True})),
        ("embedded", EMBEDDED, None),
    ],
)
def test_the_job_is_the_expected_one(
    name: str, workload: dict[str, Any], settings: dict[str, Any] | None
) -> None:
    """From the shortest job to one with everything: the objects as reviewed."""
    labels = {"amd.com/gpu.product-name": "MI300X"}
    labelled = [node(f"amd-{number}", gpus={"amd.com/gpu": 8}, labels=labels) for number in range(2)]
    assert_golden(render(workload, LOADED, nodes=labelled, config=settings), GOLDEN / f"{name}.yaml")


def test_the_back_end_keeps_the_contract() -> None:
    """What the host relies on holds for plain, GPU and embedded jobs."""
    specs = ({}, {"spec": {"parallelism": 0}}, {"spec": {"managedBy": "example.com/other"}})
    workloads = [MINIMAL, EMBEDDED, job(gpus=8), *(job(job=spec) for spec in specs)]
    assert_backend_contract(BACKEND, workloads, vendors=LOADED.vendors, nodes=NODES)


@pytest.mark.parametrize(
    ("spec", "chosen"), [({}, True), ({"job": {}}, True), ({"ray": True}, False), ({"rayJob": {}}, False)]
)
def test_it_runs_what_asks_for_no_ray(spec: dict[str, Any], chosen: bool) -> None:
    """A Ray block wins over an embedded Job."""
    workload = Workload.from_object(job(**{"job": {}, **spec}))
    assert BACKEND.load().serves(workload) is chosen


def decided(**spec: Any) -> Any:
    """The plan of a job on the two nodes."""
    from kaiwo.api.resolved_config import ResolvedConfig

    nodes = tuple(node_fact(item, LOADED.vendors) for item in NODES)
    facts = Facts(now=NOW, config=ResolvedConfig.defaults(), nodes=nodes)
    return plan_object(job(**spec), Registry.of(LOADED), facts)


def test_a_retry_is_never_made() -> None:
    """The limit is always 0, and another value is reported."""
    for given, warns in ((None, False), (0, False), (6, True)):
        spec = {} if given is None else {"backoffLimit": given}
        planned = decided(job={"spec": spec})
        assert planned.rendered[-1].child["spec"]["backoffLimit"] == 0
        assert any("backoffLimit" in warning for warning in planned.warnings) is warns


def test_retries_by_other_fields_are_reported_to_be_none() -> None:
    """The first failed pod ends a Job with backoffLimit 0, also of indexes and of containers restarted."""
    for spec, field in (
        (
            {"completionMode": "Indexed", "completions": 2, "backoffLimitPerIndex": 1},
            "backoffLimitPerIndex: 1",
        ),
        (
            {
                "completionMode": "Indexed",
                "completions": 2,
                "backoffLimitPerIndex": 0,
                "maxFailedIndexes": 1,
            },
            "backoffLimitPerIndex: 0",
        ),
        ({"template": {"spec": {"restartPolicy": "OnFailure", "containers": [{"name": "a"}]}}}, "OnFailure"),
    ):
        (warning,) = decided(job={"spec": spec}).warnings
        assert f"{field} has no effect" in warning


@pytest.mark.parametrize(
    ("spec", "word"),
    [
        ({"replicas": 3}, "spec.replicas: is ignored: a batch job is one pod"),
        ({"gpus": 8, "gpusPerReplica": 4, "replicas": 1}, "gpusPerReplica says 4"),
        ({"gpuModels": ["mi300x"]}, "spec.gpuModels is ignored"),
        ({"resources": {"limits": {"amd.com/gpu": 1}}}, "request GPUs with spec.gpus"),
    ],
)
def test_what_a_plain_job_does_not_use_is_reported(spec: dict[str, Any], word: str) -> None:
    """A number without effect is never passed over in silence."""
    assert any(word in warning for warning in decided(**spec).warnings)
    assert decided(gpus=1, gpuModels=[], replicas=1).warnings == ()


@pytest.mark.parametrize(
    ("spec", "expected"),
    [({}, 3600), ({"job": {"spec": {"ttlSecondsAfterFinished": 0}}}, 0)],
)
def test_a_finished_job_stays_an_hour_unless_set_otherwise(spec: dict[str, Any], expected: int) -> None:
    """A user's own value, 0 included, is kept."""
    assert decided(**spec).rendered[-1].child["spec"]["ttlSecondsAfterFinished"] == expected


def test_without_a_queue_the_job_starts_at_once() -> None:
    """Nobody would start a suspended Job."""
    assert "suspend" not in decided().rendered[-1].child["spec"]


@pytest.mark.parametrize(
    ("block", "pods"),
    [
        ({}, 1),
        ({"spec": {"parallelism": 4}}, 4),
        ({"spec": {"parallelism": 0}}, 0),
        ({"spec": {"parallelism": 4, "completions": 2}}, 2),
        ({"spec": []}, 1),
        ("nonsense", 1),
    ],
)
def test_parallel_pods_are_counted(block: Any, pods: int) -> None:
    """Each of the pods that run at the same time gets the GPUs; nonsense is judged elsewhere."""
    inp = AllocationInput(
        Workload.from_object(job(gpus=1, job=block)),
        LOADED.vendors,
        tuple(node_fact(item, LOADED.vendors) for item in NODES),
        "amd.com/gpu",
    )
    answer = BACKEND.load().allocate(inp)
    assert isinstance(answer, Allocation)
    assert (answer.pods, answer.gpus) == (pods, 1)


@pytest.mark.parametrize(
    ("fewest", "said"),
    [(None, "as 9 pods of 8"), (9, "as 9 pods of 8"), (2, ""), (1, ""), (5, "as 5 pods of 8")],
)
def test_gpus_are_needed_for_the_pods_with_which_a_queue_starts_the_job(
    fewest: int | None, said: str
) -> None:
    """A Job that may start with fewer pods waited for nodes for all of them; it still asks for all."""
    inp = AllocationInput(
        Workload.from_object(job(gpus=8, job={"spec": {"parallelism": 9}})),
        LOADED.vendors,
        tuple(node_fact(item, LOADED.vendors) for item in NODES),
        "amd.com/gpu",
        fewest_pods=lambda _: fewest,
    )
    answer = BACKEND.load().allocate(inp)
    if said:
        assert isinstance(answer, Blocked)
        assert (answer.reason, said in answer.message) == ("InsufficientGPUs", True)
    else:
        assert isinstance(answer, Allocation)
        assert answer.pods == 9


def test_gpus_of_an_embedded_template_are_the_workloads() -> None:
    """A template that requests GPUs itself: NUM_GPUS has their number, and they must fit."""
    template = {"spec": {"containers": [{"name": "a", "resources": {"limits": {"amd.com/gpu": 2}}}]}}
    planned = decided(job={"spec": {"template": template}})
    container = planned.rendered[-1].child["spec"]["template"]["spec"]["containers"][0]
    assert {"name": "NUM_GPUS", "value": "2"} in container["env"]
    assert container["resources"]["limits"]["amd.com/gpu"] == 2
    template["spec"]["containers"][0]["resources"]["limits"]["amd.com/gpu"] = 9
    assert decided(job={"spec": {"template": template}}).statuses[0]["reason"] == "GPUsExceedNode"


@pytest.mark.parametrize(
    ("block", "path"),
    [
        ([], "spec.job:"),
        ({"spec": 1}, "spec.job.spec:"),
        ({"metadata": []}, "spec.job.metadata:"),
        ({"spec": {"template": []}}, "spec.job.spec.template:"),
        ({"spec": {"template": {"spec": {"containers": {}}}}}, "spec.job.spec.template.spec.containers:"),
        ({"spec": {"completions": "3"}}, "spec.job.spec.completions:"),
        ({"metadata": {"labels": {"a": 1}}}, "spec.job.metadata.labels[a]:"),
        ({"template": {"spec": {"containers": [{"name": "a"}]}}}, "spec.job.template:"),
        ({"kind": "Deployment", "spec": {}}, "spec.job.kind:"),
        ({"apiVersion": "apps/v1", "spec": {}}, "spec.job.apiVersion:"),
    ],
)
def test_nonsense_is_reported_by_its_field(block: Any, path: str) -> None:
    """The user finds the place in the file."""
    (status,) = decided(job=block).statuses
    assert status["reason"] == "InvalidSpec"
    assert path in status["message"]


PASTED = {
    "metadata": {"labels": {"team": "vision", "batch.kubernetes.io/job-name": "old"}},
    "spec": {
        "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}},
        "template": {
            "metadata": {
                "labels": {
                    "team": "vision",
                    "batch.kubernetes.io/controller-uid": "u",
                    "controller-uid": "u",
                    "batch.kubernetes.io/job-name": "old",
                    "job-name": "old",
                }
            },
            "spec": {"containers": [{"name": "c"}]},
        },
    },
}


def test_a_live_job_can_be_pasted() -> None:
    """Its selector and labels name the Job that it was; with them the API server would take no other."""
    planned = decided(image="i", job=PASTED)
    made = planned.rendered[0].child
    assert "selector" not in made["spec"]
    for labels in (made["metadata"]["labels"], made["spec"]["template"]["metadata"]["labels"]):
        assert labels["team"] == "vision"
        assert not [key for key in labels if "controller-uid" in key or "job-name" in key]
    assert any("spec.job.spec.selector is not used" in text for text in planned.warnings)
    assert PASTED["spec"]["selector"], "what was given does not change"


def test_a_selector_of_the_users_own_is_kept() -> None:
    """With manualSelector the labels are the user's to write."""
    own = {"manualSelector": True, "selector": {"matchLabels": {"job-name": "mine"}}}
    template = {"metadata": {"labels": {"job-name": "mine"}}, "spec": {"containers": [{"name": "c"}]}}
    made = decided(image="i", job={"spec": {**own, "template": template}}).rendered[0].child
    assert made["spec"]["selector"] == own["selector"]
    assert made["spec"]["template"]["metadata"]["labels"]["job-name"] == "mine"


def test_golden_files_are_whole_objects() -> None:
    """Every golden file holds objects that could be sent."""
    documents = [
        document
        for path in GOLDEN.glob("*.yaml")
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8"))
    ]
    assert documents
    assert all(document["metadata"]["ownerReferences"][0]["controller"] is True for document in documents)
