"""Values of a KaiwoConfig that are in force and cannot have the effect that is meant."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.api.errors import InvalidConfig
from kaiwo.api.resolved_config import ResolvedConfig
from kaiwo.engine.quantity import parse_quantity
from kaiwo.host.config_history import without_secrets
from kaiwo.host.config_warnings import ConfigFacts, warning_conditions

if TYPE_CHECKING:
    from collections.abc import Mapping

FACTS = ConfigFacts(
    plugins={"kueue": "loaded", "batch_job": "loaded", "aim": "not-selected"},
    with_settings=("kueue",),
    storage_classes=("fast", "slow"),
    queues=("kaiwo", "research"),
    gpu_keys={"amd": ("amd.com/gpu",)},
    largest_node=parse_quantity("1Ti"),
)


def warned(spec: Mapping[str, Any], facts: ConfigFacts = FACTS) -> list[tuple[str, str]]:
    """Reason and message of each condition."""
    conditions = warning_conditions(ResolvedConfig.from_object({"spec": spec}), facts, 1)
    assert all(condition.status == "False" for condition in conditions)
    return [(condition.reason, condition.message) for condition in conditions]


@pytest.mark.parametrize(
    ("spec", "reason", "words"),
    [
        (
            {"plugins": {"kueu": {"a": 1}}},
            "UnknownPlugin",
            ("spec.plugins.kueu: ", "is installed", 'did you mean "kueue"'),
        ),
        ({"plugins": {"aim": {}}}, "UnknownPlugin", ("spec.plugins.aim: the plugin is not-selected",)),
        ({"plugins": {"batch_job": {}}}, "UnknownPlugin", ("spec.plugins.batch_job: ", "has no settings")),
        (
            {"storage": {"defaultStorageClass": "fats"}},
            "StorageClassNotFound",
            ("spec.storage.defaultStorageClass: ", '"fats"', 'did you mean "fast"'),
        ),
        (
            {"defaultClusterQueueName": "reserch"},
            "QueueNotFound",
            ("spec.defaultClusterQueueName: ", 'did you mean "research"'),
        ),
        (
            {"ray": {"headPodMemory": "500000Gi"}},
            "NoNodeFits",
            ("spec.ray.headPodMemory: 500000Gi", "the largest has 1Ti"),
        ),
        (
            {"nodes": {"expectedGpus": [{"vendor": "intel", "gpusPerNode": 1, "maxNodes": 1}]}},
            "UnknownVendor",
            ("spec.nodes.expectedGpus[0].vendor: ", '"intel"', "known: amd"),
        ),
        (
            {"nodes": {"defaultGpuResourceKey": "amd.com/gpus"}},
            "UnknownVendor",
            ("spec.nodes.defaultGpuResourceKey: ", '"amd.com/gpus"'),
        ),
        (
            {"resourceMonitoring": {"terminateUnderutilized": True}},
            "MonitoringOff",
            ("spec.resourceMonitoring.terminateUnderutilized: ", "RESOURCE_MONITORING_ENABLED=true"),
        ),
    ],
)
def test_a_value_without_effect_is_named_with_its_field(
    spec: Mapping[str, Any], reason: str, words: tuple[str, ...]
) -> None:
    """One condition, which says where, what, and what to do."""
    [(found, message)] = warned(spec)
    assert found == reason
    for word in words:
        assert word in message


def test_defaults_and_good_values_have_no_condition() -> None:
    """Also where nothing is known about queues, vendors and nodes."""
    good = {
        "plugins": {"kueue": {}},
        "storage": {"defaultStorageClass": "fast"},
        "defaultClusterQueueName": "research",
        "ray": {"headPodMemory": "1Ti"},
        "resourceMonitoring": {"lowUtilizationThreshold": 1, "terminateUnderutilizedAfter": "1440m"},
    }
    assert warned({}) == warned(good) == []
    monitored = {"resourceMonitoring": {"terminateUnderutilized": True, "targetNamespaces": ["team"]}}
    assert warned(monitored, replace(FACTS, monitored=True)) == []
    unknown = replace(FACTS, queues=None, gpu_keys={}, largest_node=None)
    far = {"defaultClusterQueueName": "later", "ray": {"headPodMemory": "9Pi"}}
    assert warned(far, unknown) == []


def test_an_autoscaler_may_add_a_node_for_a_large_ray_head() -> None:
    """With expected nodes the largest node of today says nothing."""
    expected = [{"vendor": "amd", "gpusPerNode": 8, "maxNodes": 1}]
    assert warned({"ray": {"headPodMemory": "2Ti"}, "nodes": {"expectedGpus": expected}}) == []


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"scheduling": {"kubeSchedulerName": "Bad Name!"}}, "spec.scheduling.kubeSchedulerName"),
        ({"ray": {"defaultRayImage": "not an image"}}, "spec.ray.defaultRayImage"),
        ({"ray": {"defaultRayImage": "Ubuntu"}}, "spec.ray.defaultRayImage"),
        ({"ray": {"defaultRayImage": "ray:"}}, "spec.ray.defaultRayImage"),
        ({"storage": {"downloadImage": "a//b"}}, "spec.storage.downloadImage"),
    ],
)
def test_a_value_that_can_never_be_used_is_refused(spec: Mapping[str, Any], path: str) -> None:
    """The last values stay in force, and the field is named."""
    with pytest.raises(InvalidConfig) as caught:
        ResolvedConfig.from_object({"spec": spec})
    assert [problem.path for problem in caught.value.problems] == [path]


@pytest.mark.parametrize(
    "image",
    [
        "ray",
        "rayproject/ray:2.9.0-py310",
        "ghcr.io/silogen/rocm-ray:6.4",
        "localhost:5000/a/b_c/d--e.f:V1",
        "[fd00::1]:5000/a",
        "Registry.Example.com/team/ray@sha256:" + "0" * 64,
        "ray:2@sha256:" + "a" * 64,
    ],
)
def test_every_form_of_an_image_reference_is_taken(image: str) -> None:
    """Registry with port, several path parts, tag and digest."""
    assert (
        ResolvedConfig.from_object({"spec": {"ray": {"defaultRayImage": image}}}).default_ray_image == image
    )


def test_texts_that_may_be_secret_are_not_kept() -> None:
    """Only in plugin settings, and only values: the name of a Secret is no secret."""
    spec = {
        "ray": {"headPodMemory": "1Gi"},
        "plugins": {
            "x": {"apiToken": "s3cret", "secretName": "team", "list": [{"password": "p", "user": "u"}]}
        },
    }
    kept, left_out = without_secrets(spec)
    assert kept["plugins"] == {"x": {"secretName": "team", "list": [{"user": "u"}]}}
    assert kept["ray"] == spec["ray"]
    assert left_out == ("spec.plugins.x.apiToken", "spec.plugins.x.list[0].password")


def test_a_vendor_may_be_written_in_any_case() -> None:
    """Its expected nodes count, so nothing is to be warned about."""
    assert warned({"nodes": {"expectedGpus": [{"vendor": "AMD", "gpusPerNode": 8, "maxNodes": 1}]}}) == []
