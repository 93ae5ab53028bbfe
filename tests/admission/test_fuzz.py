"""Fuzzed AdmissionReviews: each gets an answer, within bounds of CPU and memory.

``KAIWO_EXAMPLES=10000`` runs so many. The slow test runs 10,000 and measures memory.
"""

from __future__ import annotations

import gc
import json
import os
import random
import time
import tracemalloc
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kaiwo.admission.names import VALIDATE_WORKLOADS
from kaiwo.admission.request import MAX_BODY
from kaiwo.admission.review import review
from kaiwo.testing import job, service
from kaiwo.testing.admission import admission_review, answered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from conftest import Webhooks

EXAMPLES = int(os.environ.get("KAIWO_EXAMPLES", "400"))
SECONDS = 0.4
"""CPU for one review; 0.2 is promised on a machine that does nothing else."""

GROWTH = 1_000_000
"""Bytes that may be allocated after 9,000 reviews beside those that were allocated before."""

SECRET = {"secretName": "s", "secretKey": "k"}
POD = {
    "metadata": {"labels": {"a": "b"}, "annotations": {"a": "b"}},
    "spec": {
        "containers": [
            {
                "name": "main",
                "image": "image:1",
                "env": [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {"secretKeyRef": SECRET}}],
                "resources": {"requests": {"cpu": "1", "amd.com/gpu": 1}, "limits": {"amd.com/gpu": 1}},
                "ports": [{"containerPort": 80}],
                "volumeMounts": [{"name": "v", "mountPath": "/v"}],
                "securityContext": {"privileged": False},
            }
        ],
        "initContainers": [{"name": "first"}],
        "volumes": [{"name": "v", "emptyDir": {}}],
        "affinity": {"nodeAffinity": {}},
        "tolerations": [{"key": "a", "operator": "Exists"}],
    },
}
COMMON: dict[str, Any] = {
    "user": "jane@example.com",
    "version": "1",
    "podTemplateSpecLabels": {"team": "a"},
    "gpus": 4,
    "gpuVendor": "amd",
    "gpuModels": ["mi300x"],
    "replicas": 2,
    "gpusPerReplica": 2,
    "duration": "1h",
    "image": "image:1",
    "imagePullSecrets": [{"name": "pull"}],
    "env": [{"name": "A", "value": "1"}],
    "resources": {"requests": {"cpu": "8"}, "limits": {"memory": "64Gi"}},
    "secretVolumes": [{"name": "v", "secretName": "s", "key": "k", "mountPath": "/s"}],
    "storage": {
        "storageEnabled": True,
        "data": {
            "storageSize": "10Gi",
            "mountPath": "/w",
            "download": {
                "s3": [
                    {
                        "endpointUrl": "https://s3.example.com",
                        "accessKeyId": SECRET,
                        "secretKey": SECRET,
                        "buckets": [{"name": "b", "files": [{"path": "a/b", "targetPath": "b"}]}],
                    }
                ],
                "git": [{"repository": "https://example.com/a.git", "branch": "main", "targetPath": "src"}],
            },
        },
        "huggingFace": {"storageSize": "20Gi", "preCacheRepos": [{"repoId": "meta/llama"}]},
    },
    "clusterQueue": "team-a",
    "priorityClass": "high",
    "entrypoint": "python train.py",
    "dangerous": False,
}
RAY = {"headGroupSpec": {"template": POD}, "workerGroupSpecs": [{"groupName": "w", "template": POD}]}
CORPUS = (
    job(**COMMON),
    job(**COMMON, job={"spec": {"template": POD, "backoffLimit": 1}}),
    job(**COMMON, ray=True, rayJob={"spec": {"rayClusterSpec": RAY, "submitterPodTemplate": POD}}),
    service(**COMMON, deployment={"spec": {"template": POD}}),
    service(**COMMON, serveConfigV2="applications: []", rayService={"spec": {"rayClusterConfig": RAY}}),
    {
        "apiVersion": "config.kaiwo.silogen.ai/v1alpha1",
        "kind": "KaiwoConfig",
        "metadata": {"name": "kaiwo"},
        "spec": {
            "ray": {"headPodMemory": "8Gi"},
            "storage": {"downloadLimits": {"maxSize": "1Ti", "maxFiles": 5, "timeout": "1h"}},
            "nodes": {"expectedGpus": [{"vendor": "amd", "model": "m", "gpusPerNode": 8, "maxNodes": 4}]},
            "plugins": {"kueue": {"labelNamespaces": True}, "ray_service": {"wrap": "always"}},
        },
    },
    {
        "apiVersion": "kaiwo.silogen.ai/v1alpha1",
        "kind": "KaiwoQueueConfig",
        "metadata": {"name": "kaiwo"},
        "spec": {
            "clusterQueues": [{"name": "a", "namespaces": ["b"], "spec": {"cohort": "c"}}],
            "resourceFlavors": [{"name": "f", "nodeLabels": {"a": "b"}, "taints": [{"key": "a"}]}],
            "workloadPriorityClasses": [{"name": "p", "value": 5}],
        },
    },
    {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}, "spec": {"template": POD}},
)  # fmt: skip
STATUSES = (
    {},
    {"status": "RUNNING", "childUID": "c", "allocation": {"backend": "batch_job"}},
    {"status": "READY", "childUID": "c", "allocation": {"backend": "ray_service", "gpus": 4}},
    {"status": "COMPLETE", "conditions": [{"type": "SpecApplied", "status": "False"}]},
    {"status": 7, "conditions": {}, "childUID": []},
)
LEAVES = (
    None, True, False, 0, 1, -1, 2**31, 2**53, -(2**63), 10**30, 0.5, 1e308, "", "x", "no", "1Gi", "1e9999",
    "9" * 400, "-1", "1h", "system:serviceaccount:a:b", "../../etc", "é\u2028\x00", "\x7f\n", "a" * 70,
    "a" * 2000, "#!/bin/x", "#!",
    [], {}, [[]], [None], {"": None}, {"a": [{}]}, [1] * 300, {str(n): n for n in range(300)},
)  # fmt: skip


def keys(value: Any) -> set[str]:
    """All names in a value."""
    if isinstance(value, dict):
        return set(value).union(*map(keys, value.values()))
    return set().union(*map(keys, value)) if isinstance(value, list) else set()


NAMES = sorted(keys([*CORPUS]))


def mutated(rng: random.Random, value: Any, rate: float) -> Any:
    """The value with other values, names and lengths here and there."""
    if rng.random() < rate:
        return rng.choice(LEAVES)
    if isinstance(value, dict):
        found = {key: mutated(rng, item, rate) for key, item in value.items() if rng.random() > rate}
        if rng.random() < rate:
            found[rng.choice(NAMES)] = rng.choice((*LEAVES, *value.values()))
        return found
    if isinstance(value, list):
        found_items = [mutated(rng, item, rate) for item in value]
        return found_items * rng.choice((0, 2, 50)) if rng.random() < rate else found_items
    return value


DEPTHS = (50, 101, 5_000, 100_000)
NUMBERS = (b"1e999", b"9" * 5000, b"-0", b"NaN", b"0x1")
NO_REVIEWS = (b"", b"null", b"[]", b"0", b'""', b"{}", b" " * 1000, b'{"request":{}}')
INSERTED = (b"\x00", b"\xff\xfe", b'"', b"{", b"]", b",", b"\\")


def cut(rng: random.Random, body: bytes) -> bytes:
    """The first part of it, with or without a byte that has no place there and the rest."""
    position = rng.randrange(len(body) + 1)
    return body[:position] + rng.choice((b"", rng.choice(INSERTED) + body[position:]))


def replaced(old: bytes, *others: bytes) -> Callable[[random.Random, bytes], bytes]:
    """Another text in place of one."""
    return lambda rng, body: body.replace(old, rng.choice(others), 1)


GARBLED: tuple[Callable[[random.Random, bytes], bytes], ...] = (
    cut,
    lambda rng, body: body.decode().encode(rng.choice(("utf-16", "utf-32", "utf-8-sig"))),
    lambda rng, _: rng.choice(NO_REVIEWS),
    replaced(b'"uid"', b'"uid":"1","uid"', b'"UID"', b'"uid":null,"x"'),
    replaced(b'"spec":', b'"spec":{"user":"first"},"spec":'),
    replaced(b"admission.k8s.io/v1", b"admission.k8s.io/v1beta1", b"v1"),
    replaced(b"{}", *(b'{"a":' * depth + b"1" + b"}" * depth for depth in DEPTHS)),
    replaced(b'"gpus":4', *(b'"gpus":' + b"[" * depth + b"]" * depth for depth in DEPTHS)),
    replaced(b'"gpus":4', *(b'"gpus":' + number for number in NUMBERS)),
    replaced(b'"image:1"', b'"\\ud800"', b'"\\u0000"', b'"\\x"'),
    replaced(b'"env":[', b'"env":[' + b"0," * 1000, b'"env":[' + b"{}," * 120_000),
)


def fuzzed(rng: random.Random) -> bytes:
    """One AdmissionReview, more or less."""
    rate = rng.choice((0.0, 0.005, 0.02, 0.2))
    obj = rng.choice(CORPUS)
    old = None
    if rng.random() < 0.4:
        old = mutated(rng, obj, rng.choice((0.0, rate)))
    if isinstance(old, dict) and rng.random() < 0.5:
        old = {**old, "status": mutated(rng, rng.choice(STATUSES), rate)}
    body = admission_review(
        obj, dry_run=rng.random() < 0.3, subresource="status" if rng.random() < 0.1 else ""
    )
    document = msgspec.json.decode(body)
    document["request"] |= {"object": mutated(rng, obj, rate), "oldObject": old}
    operations = ("CREATE", "UPDATE") if rng.random() < 0.9 else ("DELETE", "CONNECT", "")
    document["request"]["operation"] = rng.choice(operations)
    if rng.random() < 0.1:
        document = mutated(rng, document, rate)
    encoded = json.dumps(document).encode() if rng.random() < 0.2 else msgspec.json.encode(document)
    return rng.choice(GARBLED)(rng, encoded) if rng.random() < 0.3 else encoded


@pytest.fixture(autouse=True, scope="module")
def _own_garbage_only() -> Iterator[None]:
    """Objects of other tests, of which a process has half a gigabyte, cost no review a collection."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def check(webhooks: Webhooks, path: str, body: bytes, limit: float = SECONDS) -> None:
    """Ask, and check that the answer is one that the API server can read, and in time."""
    began = time.thread_time()
    raw = review(body, webhooks.reviewers, path)
    seconds = time.thread_time() - began
    assert seconds < limit, (seconds, path, body[:2000])
    document = msgspec.json.decode(raw)
    assert (document["apiVersion"], document["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    response = answered(raw)
    assert isinstance(response["uid"], str)
    assert isinstance(response["allowed"], bool)
    assert response["allowed"] is ("status" not in response)
    assert len(raw) < 20_000
    if not response["allowed"]:
        assert response["status"]["code"] in (400, 403, 413, 422), (response, path, body[:2000])
        assert response["status"]["message"]
    for warning in response.get("warnings", ()):
        assert not warning.startswith("not validated"), (warning, path, body[:2000])
        assert "PluginError" not in warning, (warning, path, body[:2000])


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.function_scoped_fixture,
        HealthCheck.data_too_large,
    ],
)
@given(seed=st.integers(0, 2**64))
def test_any_review_is_answered_in_time(webhooks: Webhooks, checking: Webhooks, seed: int) -> None:
    """No bytes make a webhook fail or hang, at any path, in either mode of identity."""
    body = fuzzed(random.Random(seed))
    for path in webhooks.reviewers:
        check(webhooks, path, body)
        check(checking, path, body)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_ten_thousand_reviews_leave_no_memory_behind(webhooks: Webhooks) -> None:
    """An operator that is sent rubbish for weeks is as large as before."""
    paths = list(webhooks.reviewers)

    def run(seeds: range, limit: float = SECONDS) -> None:
        for seed in seeds:
            check(webhooks, paths[seed % len(paths)], fuzzed(random.Random(seed)), limit)

    run(range(10_000))
    traced = 20 * SECONDS  # counting allocations takes most of the time
    tracemalloc.start()
    try:
        run(range(1000), traced)
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        run(range(1000, 10_000), traced)
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] - before < GROWTH
    finally:
        tracemalloc.stop()


def largest(filler: Any, size: int = MAX_BODY) -> bytes:
    """A review of a KaiwoJob of a size; the filler is repeated in an embedded block."""
    item = msgspec.json.encode(filler)
    around = admission_review(job(image="i", job={"spec": {"x": []}}))
    count = (size - len(around)) // (len(item) + 1)
    return around.replace(b"[]", b"[" + b",".join([item] * count) + b"]", 1)


FILLERS = [0, "x" * 1000, {}, [[]], {"name": "a", "value": "b"}, '"\\', {"a": {"b": {}}}]


@pytest.mark.parametrize("filler", FILLERS)
def test_the_largest_body_is_answered_in_time(webhooks: Webhooks, filler: Any) -> None:
    """3 MB of anything take less than the limit; more values than the operator reads are refused in words."""
    body = largest(filler)
    assert len(body) > 0.99 * MAX_BODY
    for path in webhooks.reviewers:
        check(webhooks, path, body)
    if filler != "x" * 1000:
        response = answered(review(body, webhooks.reviewers, VALIDATE_WORKLOADS))
        assert (response["allowed"], response["status"]["code"]) == (False, 422)


def test_a_larger_body_is_refused_at_once(webhooks: Webhooks) -> None:
    """30 MB are not decoded; the refusal names the limit."""
    body = largest({"a": 1}, 30_000_000)
    began = time.process_time()
    response = answered(review(body, webhooks.reviewers, VALIDATE_WORKLOADS))
    assert time.process_time() - began < 0.01
    assert response["status"]["code"] == 413
    assert f"at most {MAX_BODY} are read" in response["status"]["message"]
