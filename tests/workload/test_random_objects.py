"""Random objects of each kind, from their bytes to a plan: an answer within bounds of time and memory.

The normal run takes seconds. ``KAIWO_EXAMPLES=10000`` runs so many objects of each kind.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kaiwo_batch_job.plugin
import kaiwo_deployment.plugin
import kaiwo_gpu_amd.plugin
import kaiwo_ray_job.plugin
import kaiwo_ray_service.plugin
import kaiwo_storage_s3_gcs_azure_git_hf.plugin
from kaiwo.api.crds import KAIWO_CONFIG, WORKLOADS
from kaiwo.api.errors import InvalidConfig
from kaiwo.api.resolved_config import ResolvedConfig
from kaiwo.api.validate import Validator
from kaiwo.api.workload import Workload
from kaiwo.api.workload_spec import CommonSpec
from kaiwo.engine.cached_object import ObjectDecoder, Projection
from kaiwo.testing import plugins
from kaiwo.workload.backend_selection import select_backend
from kaiwo.workload.model import Registry
from kaiwo.workload.plan import plan

if TYPE_CHECKING:
    from conftest import World
    from kaiwo.api.plugin_fields import WorkloadKind

EXAMPLES = int(os.environ.get("KAIWO_EXAMPLES", "40"))
pytestmark = pytest.mark.timeout(120 + EXAMPLES)
"""Seconds for all objects of a test. The limit of other tests ends 10,000 of them in the midst of one, which
Hypothesis then reports as a failure of that object."""

SECONDS = 2.0
"""CPU of this thread for one object. The worst takes a tenth of it, a step that is quadratic far more."""

MEGABYTES = 64
"""By which one object may raise the peak of memory; without bounds a single one takes 350."""

PLUGINS = plugins(
    kaiwo_batch_job.plugin,
    kaiwo_deployment.plugin,
    kaiwo_gpu_amd.plugin,
    kaiwo_ray_job.plugin,
    kaiwo_ray_service.plugin,
    kaiwo_storage_s3_gcs_azure_git_hf.plugin,
)
REGISTRY = Registry.of(PLUGINS)
BLOCKS = ("job", "rayJob", "deployment", "rayService", "serveConfigV2", "nobody")
# fmt: off
KEYS = (
    "spec", "metadata", "template", "containers", "initContainers", "volumes", "env", "ports", "volumeMounts",
    "resources", "limits", "requests", "labels", "annotations", "affinity", "tolerations", "name", "image",
    "value", "valueFrom", "rayClusterSpec", "headGroupSpec", "workerGroupSpecs", "groupName",
    "storageEnabled",
    "data", "huggingFace", "storageSize", "download", "s3", "git", "buckets", "files", "path", "targetPath",
    "endpointUrl", "repository", "preCacheRepos", "repoId", "token", "secretName", "secretKey", "file",
    "mountPath", "key", "parallelism", "replicas", "nodes", "storage", "plugins", "",
)
TEXTS = ("", "x", "1Gi", "2", "1h", "https://a.example/b", "/m", "a" * 300, "é\u2028", "\x7f", '{[",')
# fmt: on
leaves = (
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.sampled_from(TEXTS) | st.text(max_size=6)
)
small = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=8,
)
counts = st.sampled_from((1, 2, 5, 400, 4000))
"""How often a value is repeated: most objects are small, some are beyond a bound."""

many = (
    st.builds(lambda item, count: [item] * count, small, counts)
    | st.builds(lambda item, count: {f"k{number}": item for number in range(count)}, small, counts)
    | st.builds(lambda item: [item] * 60_000, st.sampled_from((0, "", [], {}, {"": 0})))
)
anything = small | many | st.dictionaries(st.sampled_from(KEYS), many, max_size=1)
pod = st.fixed_dictionaries(
    {"containers": anything},
    optional=dict.fromkeys(("initContainers", "volumes", "affinity", "tolerations"), small),
)
template = st.fixed_dictionaries({"spec": pod | anything}, optional={"metadata": anything})
cluster = st.fixed_dictionaries(
    {},
    optional={
        "headGroupSpec": st.fixed_dictionaries({"template": template}) | anything,
        "workerGroupSpecs": st.lists(st.fixed_dictionaries({"template": template}), max_size=7) | anything,
    },
)
blocks = st.fixed_dictionaries(
    {
        "spec": st.fixed_dictionaries({"template": template})
        | st.fixed_dictionaries({"rayClusterSpec": cluster})
        | anything
    }
)
fields = st.sampled_from([info.alias or name for name, info in CommonSpec.model_fields.items()])
specs = st.builds(
    lambda common, embedded: {**common, **embedded},
    st.dictionaries(fields, anything, max_size=5),
    st.dictionaries(st.sampled_from(BLOCKS), blocks | anything, max_size=2),
)
MANY = settings(
    max_examples=EXAMPLES,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.large_base_example,
    ],
)
LARGEST = 1_500_000
"""Bytes that the API server takes."""


def peak() -> float:
    """The most memory that this process had at once, in MB."""
    status = Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) / 1024


def raw(kind: str, spec: object, metadata: dict[str, Any]) -> bytes:
    """An object as the API server sends it."""
    return msgspec.json.encode(
        {
            "apiVersion": "kaiwo.silogen.ai/v1alpha1",
            "kind": kind,
            "metadata": {
                "name": "train",
                "namespace": "team",
                "uid": "u",
                "resourceVersion": "1",
                **metadata,
            },
            "spec": spec,
        }
    )


@pytest.mark.parametrize("kind", WORKLOADS)
@MANY
@given(spec=specs, labels=st.dictionaries(st.sampled_from(KEYS), st.sampled_from(TEXTS), max_size=3))
def test_any_workload_gets_a_status_within_bounds(
    world: World, kind: WorkloadKind, spec: dict[str, Any], labels: dict[str, str]
) -> None:
    """Whatever anybody writes: no error, no long computation, no memory that others need."""
    body = raw(kind, spec, {"labels": labels})
    if len(body) > LARGEST:
        return
    before, began = peak(), time.thread_time()
    entry = ObjectDecoder(WORKLOADS[kind], Projection()).decode(body)
    workload = Workload.from_live(entry.readable(), entry.undecodable)
    (status,) = plan(workload, REGISTRY, world.facts, select_backend(workload, REGISTRY)).statuses[-1:]
    assert time.thread_time() - began < SECONDS
    assert peak() - before < MEGABYTES
    assert status["status"] in ("PENDING", "ERROR")
    assert status["reason"] != "PluginError"
    assert status["message"]


@MANY
@given(spec=st.dictionaries(st.sampled_from(KEYS), anything, max_size=5))
def test_any_configuration_is_taken_or_refused_within_bounds(spec: dict[str, Any]) -> None:
    """A configuration is read or its error names a field; validation says the same without an exception."""
    body = raw("KaiwoConfig", spec, {"name": "kaiwo"})
    if len(body) > LARGEST:
        return
    entry = ObjectDecoder(KAIWO_CONFIG, Projection()).decode(body)
    if entry.undecodable:
        return
    began = time.thread_time()
    with suppress(InvalidConfig):
        ResolvedConfig.from_object(entry.full())
    Validator(PLUGINS.fields(), PLUGINS.settings_models()).validate(entry.full())
    assert time.thread_time() - began < SECONDS


@pytest.mark.parametrize("kind", WORKLOADS)
@MANY
@given(spec=specs)
def test_any_file_is_validated_within_bounds(kind: WorkloadKind, spec: dict[str, Any]) -> None:
    """The command line answers as fast, also where nearly everything is wrong."""
    validator = Validator(PLUGINS.fields(), PLUGINS.settings_models())
    validator.model(kind)
    obj = msgspec.json.decode(raw(kind, spec, {}))
    began = time.thread_time()
    validator.validate(obj)
    assert time.thread_time() - began < SECONDS
