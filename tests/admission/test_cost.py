"""The CPU that one review takes; ``pytest tests/admission/test_cost.py -s`` prints it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from kaiwo.admission.names import VALIDATE_WORKLOADS
from kaiwo.admission.review import review
from kaiwo.testing import job
from kaiwo.testing.admission import admission_review

if TYPE_CHECKING:
    from conftest import Webhooks
    from kaiwo.engine.resource import Object

SECONDS = 0.002
"""CPU of one review at most; 0.001 is promised on a machine that does nothing else."""

SECRET = {"secretName": "s3", "secretKey": "id"}
FILES = [{"path": "a/b", "targetPath": "data/b"}]
DOWNLOAD = {
    "s3": [
        {
            "endpointUrl": "https://s3.example.com",
            "accessKeyId": SECRET,
            "secretKey": SECRET,
            "buckets": [{"name": "b", "files": FILES, "folders": [{"path": "a", "targetPath": "data"}]}],
        }
    ],
    "git": [{"repository": "https://example.com/a.git", "branch": "main", "targetPath": "src"}],
}
ORDINARY = job(
    labels={"team": "a"},
    user="jane@example.com",
    gpus=4,
    gpuVendor="amd",
    ray=False,
    replicas=1,
    dangerous=False,
    image="registry.example/train:1",
    entrypoint="python train.py --epochs 3\n",
    env=[
        {"name": "A", "value": "1"},
        {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
    ],
    clusterQueue="team-a",
    resources={"requests": {"memory": "128Gi"}, "limits": {"memory": "128Gi"}},
    storage={
        "storageEnabled": True,
        "accessMode": "ReadWriteMany",
        "data": {"storageSize": "100Gi", "mountPath": "/workload", "download": DOWNLOAD},
        "huggingFace": {"storageSize": "200Gi", "preCacheRepos": [{"repoId": "meta/llama"}]},
    },
)
"""A KaiwoJob with GPUs and three downloads, with the API server's defaults."""

RUNNING = {"status": {"status": "RUNNING", "childUID": "c", "allocation": {"backend": "batch_job"}}}
LONGER = {"spec": {**ORDINARY["spec"], "duration": "1h"}}
LABELLED = {"metadata": {**ORDINARY["metadata"], "labels": {}}}


@pytest.mark.parametrize(
    ("what", "obj", "old"),
    [
        ("create", ORDINARY, None),
        ("update", ORDINARY | LONGER, ORDINARY | RUNNING),
        ("label", ORDINARY | LABELLED, ORDINARY),
    ],
)
def test_an_ordinary_review_takes_less_than_a_millisecond(
    webhooks: Webhooks, what: str, obj: Object, old: Object | None
) -> None:
    """A submission of five hundred workloads does not keep the operator from its work."""
    body, best = admission_review(obj, old=old), 1.0
    for _ in range(20):
        began = time.thread_time()
        for _ in range(25):
            answer = review(body, webhooks.reviewers, VALIDATE_WORKLOADS)
        best = min(best, (time.thread_time() - began) / 25)
    assert b'"allowed":true' in answer
    assert b"warnings" not in answer
    print(f"{what}: {best * 1e6:.0f} µs")  # noqa: T201 (the figure)
    assert best < SECONDS
