"""Workloads that are too large are refused by count, before anything is made of them."""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import kaiwo_batch_job.plugin
import kaiwo_gpu_amd.plugin
import kaiwo_ray_job.plugin
import kaiwo_storage_s3_gcs_azure_git_hf.plugin as storage_plugin
from kaiwo.api.spec_rules import MAX_RENDERED_VALUES, MAX_SPEC_VALUES, RENDERED_SIZE, SPEC_SIZE
from kaiwo.api.spec_size import count_values
from kaiwo.testing import plugins
from kaiwo.testing.overrides import override_methods
from kaiwo.workload.download.job import as_yaml
from kaiwo.workload.model import Registry

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import World

SECONDS = 1.0
"""Ten times what the largest object takes on a slow machine: a step that is quadratic takes far more."""


def secret_volumes(count: int, **more: str) -> list[dict[str, str]]:
    """Secrets to mount."""
    return [
        {"name": f"v{index}", "secretName": "s", "mountPath": f"/m{index}", **more} for index in range(count)
    ]


def containers(count: int) -> dict[str, Any]:
    """An embedded Job of that many containers."""
    pod = {"containers": [{"name": f"c{index}", "image": "i"} for index in range(count)]}
    return {"spec": {"template": {"spec": pod}}}


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"job": {"spec": {"x": [0] * MAX_SPEC_VALUES}}}, "spec.job"),
        ({"nobody": {"a": [[]] * MAX_SPEC_VALUES}}, "spec.nobody"),
        ({"env": [{"name": "A", "value": "x"}] * (MAX_SPEC_VALUES // 3)}, "spec.env"),
        ({"env": [{}] * (MAX_SPEC_VALUES + 1)}, "spec.env"),
        ({f"f{index}": {} for index in range(MAX_SPEC_VALUES)}, "spec"),
    ],
)
def test_a_workload_of_too_many_values_is_refused(world: World, spec: dict[str, Any], path: str) -> None:
    """Its status names the field that is too large, the limit, and the way out."""
    world.obj["spec"] |= spec
    world.settle()
    assert not world.writes
    assert (world.status["status"], world.status["reason"]) == ("ERROR", "SpecTooLarge")
    assert world.status["message"] == f"{path}: {SPEC_SIZE.message}"


def test_labels_count_as_well(world: World) -> None:
    """The API server takes any number of labels; each stands on every pod."""
    world.obj["metadata"]["labels"] = {f"l{index}": "x" for index in range(MAX_SPEC_VALUES)}
    world.settle()
    assert world.status["message"] == f"metadata.labels: {SPEC_SIZE.message}"


def test_a_workload_of_just_as_many_values_as_are_allowed_runs(world: World) -> None:
    """The bound is where it is said to be."""
    world.obj["spec"]["job"] = {"spec": {"template": {"spec": {"x": []}}}}
    left = MAX_SPEC_VALUES - count_values([{}, {}, world.obj["spec"]])
    world.obj["spec"]["job"]["spec"]["template"]["spec"]["x"] = [0] * left
    world.settle()
    assert world.status["reason"] == "Starting"


PRODUCTS = [
    ({"secretVolumes": secret_volumes(200), "job": containers(2000)}, "spec.secretVolumes"),
    (
        {"resources": {"limits": {f"x/{i}": 1 for i in range(200)}}, "job": containers(2000)},
        "spec.resources",
    ),
    ({"env": [{"name": f"E{i}", "value": "x" * 100_000} for i in range(12)], "ray": True}, "spec.env"),
]


@pytest.mark.parametrize(("spec", "path"), PRODUCTS, ids=[path for _, path in PRODUCTS])
def test_what_would_be_repeated_too_often_is_refused_before_it_is_rendered(
    world: World, spec: dict[str, Any], path: str
) -> None:
    """Two harmless lists whose product fills the memory: no container of them is ever made."""
    registry = Registry.of(plugins(kaiwo_batch_job.plugin, kaiwo_ray_job.plugin))
    rendered: list[object] = []
    backends = tuple(override_methods(item, render=rendered.append) for item in registry.backends)
    world.registry = dataclasses.replace(registry, backends=backends)
    world.obj["spec"] |= spec
    if spec.get("ray"):
        groups = [{"groupName": f"g{index}", "template": {}} for index in range(5)]
        world.obj["spec"]["rayJob"] = {"spec": {"rayClusterSpec": {"workerGroupSpecs": groups}}}
    world.settle()
    assert not rendered
    assert world.status["reason"] == "SpecTooLarge"
    assert world.status["message"] == f"{path}: {RENDERED_SIZE.message}"


def test_everyday_products_are_far_from_the_bound(world: World) -> None:
    """Fifty containers that each mount a hundred Secrets run."""
    world.obj["spec"] |= {"secretVolumes": secret_volumes(100), "job": containers(50)}
    world.settle()
    assert world.status["reason"] == "Starting"
    assert MAX_RENDERED_VALUES > 5 * 100 * 50


def test_a_running_workload_that_became_too_large_is_still_observed(world: World) -> None:
    """Its Job goes on and its end is reported; only the change is not applied."""
    world.settle()
    world.edit(job={"spec": {"x": [0] * MAX_SPEC_VALUES}})
    world.settle()
    assert world.status["reason"] == "Starting"
    assert world.condition("SpecApplied")["reason"] == "SpecTooLarge"
    written = len(world.writes)
    world.live(status={"conditions": [{"type": "Complete", "status": "True"}]})
    world.settle()
    assert world.status["status"] == "COMPLETE"
    assert len(world.writes) == written


def test_a_running_workload_that_a_newer_schema_refuses_is_still_observed(world: World) -> None:
    """An upgrade that lowers a bound stops no job that was accepted before."""
    world.settle()
    world.edit(env=[{"name": f"E{index}"} for index in range(4097)])
    world.live(status={"conditions": [{"type": "Complete", "status": "True"}]})
    world.settle()
    assert world.status["status"] == "COMPLETE"


def filled(make: Callable[[int], Any]) -> list[Any]:
    """As many items as a workload may have."""
    return [make(index) for index in range((MAX_SPEC_VALUES - 200) // count_values([make(0)]))]


def tolerations(half: int) -> dict[str, Any]:
    """The template of a Ray group with half of all tolerations."""
    found = filled(lambda index: {"key": f"k{half}-{index}", "operator": "Exists"})
    return {"spec": {"tolerations": found[: len(found) // 2]}}


def downloading(**sources: Any) -> dict[str, Any]:
    """Storage with downloads."""
    return {"storageEnabled": True, "data": {"storageSize": "1Gi", "download": sources}}


def reference(index: int) -> dict[str, str]:
    """A key with a file of its own."""
    return {"secretName": f"s{index}", "secretKey": "k", "file": f"/run/{index}"}


GIT = {"repository": "https://git.example/r", "targetPath": "t"}
LARGEST: dict[str, Callable[[], dict[str, Any]]] = {
    "tolerations of two groups": lambda: {
        "ray": True,
        "storage": downloading(git=[GIT]),
        "rayJob": {
            "spec": {
                "rayClusterSpec": {
                    "headGroupSpec": {"template": tolerations(0)},
                    "workerGroupSpecs": [{"template": tolerations(1)}],
                }
            }
        },
    },
    "files with references": lambda: {
        "storage": downloading(git=filled(lambda index: {**GIT, "token": reference(index)}))
    },
    "single files": lambda: {
        "storage": downloading(
            s3=[
                {
                    "endpointUrl": "https://s3.example",
                    "buckets": [
                        {"name": "b", "files": filled(lambda i: {"path": f"p{i}", "targetPath": f"t{i}"})}
                    ],
                }
            ]
        )
    },
    "keys in one directory": lambda: {
        "secretVolumes": [
            {**volume, "mountPath": "/m", "key": volume["name"]} for volume in secret_volumes(1024)
        ]
    },
    "containers": lambda: {"job": containers((MAX_SPEC_VALUES - 200) // 3)},
    "resources of a container": lambda: {
        "job": {
            "spec": {
                "template": {
                    "spec": {
                        "containers": [
                            {"name": "c", "resources": {"limits": {f"x/{i}": "1" for i in range(19_000)}}}
                        ]
                    }
                }
            }
        }
    },
    "wrong items": lambda: {
        "storage": downloading(
            s3=[{"endpointUrl": "https://s3.example", "buckets": [{"name": "b", "files": [{"x": 1}] * 9000}]}]
        )
    },
    "wrong variables": lambda: {"env": [{"value": 1}] * 9000},
}


@pytest.mark.parametrize("make", LARGEST.values(), ids=LARGEST)
def test_no_step_is_worse_than_linear_in_the_largest_workloads(
    world: World, make: Callable[[], dict[str, Any]]
) -> None:
    """A plan of anything that passes the bounds is a matter of milliseconds."""
    world.registry = Registry.of(
        plugins(kaiwo_batch_job.plugin, kaiwo_ray_job.plugin, kaiwo_gpu_amd.plugin, storage_plugin)
    )
    world.plan()  # imports
    world.obj["spec"] |= make()
    started = time.process_time()
    plan = world.plan()
    assert time.process_time() - started < SECONDS
    assert plan.statuses[-1]["reason"] not in ("SpecTooLarge", "BackendNotLoaded", "PluginError")


@given(st.recursive(st.text() | st.integers() | st.booleans(), lambda part: st.dictionaries(st.text(), part)))
def test_the_configuration_of_a_download_is_json_that_yaml_reads(value: object) -> None:
    """Whatever is in a path or a URL, the download program reads what the user wrote."""
    assert yaml.safe_load(as_yaml({"items": [value]})) == {"items": [value]}
