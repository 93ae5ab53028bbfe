"""KaiwoConfig: documented defaults, the older section, and values that cannot be used."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from kaiwo.api.errors import InvalidConfig
from kaiwo.api.resolved_config import ResolvedConfig
from kaiwo.engine.quantity import parse_quantity


def resolved(**spec: Any) -> ResolvedConfig:
    """The resolved form of a spec."""
    return ResolvedConfig.from_object({"metadata": {"name": "kaiwo", "generation": 2}, "spec": spec})


def test_documented_defaults() -> None:
    """Every default of the reference, where nothing is configured."""
    config = ResolvedConfig.defaults()
    assert config.default_ray_image == "ghcr.io/silogen/rocm-ray:6.4"
    assert config.head_pod_memory == parse_quantity("16Gi")
    assert config.default_storage_class is None
    assert config.default_data_mount_path == "/workload"
    assert config.default_hf_mount_path == "/hf_cache"
    assert config.default_gpu_resource_key == "amd.com/gpu"
    assert config.default_gpu_taint_key == "kaiwo.silogen.ai/gpu"
    assert config.exclude_master_nodes_from_node_pools is False
    assert config.add_taints_to_gpu_nodes is False
    assert config.expected_gpus == ()
    assert config.kube_scheduler_name == "kaiwo-scheduler"
    assert config.pending_threshold_for_preemption == timedelta(minutes=5)
    assert config.low_utilization_threshold == 1
    assert config.target_namespaces == frozenset()
    assert config.profile == "gpu"
    assert config.terminate_underutilized is False
    assert config.terminate_underutilized_after == timedelta(hours=24)
    assert config.default_cluster_queue_name == "kaiwo"
    assert config.default_cluster_queue_cohort_name == "kaiwo"
    assert config.dynamically_update_default_cluster_queue is False
    assert config.ambient_credentials is False
    assert config.allow_private_endpoints is True
    assert config.download_image.startswith("ghcr.io/silogen/kaiwo-downloader:")
    assert config.download_resources.requests == {"cpu": "1", "memory": "1Gi"}
    assert config.download_resources.limits == {"cpu": "2", "memory": "4Gi", "ephemeral-storage": "1Gi"}
    assert (config.download_max_bytes, config.download_max_files) == (4 * 1024**4, 1_000_000)
    assert config.download_timeout == timedelta(hours=24)
    assert config.warnings == ()


def test_the_older_section_fills_what_the_newer_leaves_out() -> None:
    """Field by field: storage, then data, then the default; the older name is pointed out."""
    config = resolved(
        storage={"defaultStorageClass": "fast"},
        data={"defaultStorageClass": "slow", "defaultDataMountPath": "/data", "allowPrivateEndpoints": False},
    )
    names = ("defaultStorageClass", "defaultDataMountPath", "defaultHfMountPath", "downloadImage")
    empty = dict.fromkeys(names, "")
    assert resolved(storage=empty, data={"defaultStorageClass": "slow"}).default_storage_class == "slow"
    assert resolved(storage=empty) == resolved()
    assert config.default_storage_class == "fast"
    assert config.default_data_mount_path == "/data"
    assert config.default_hf_mount_path == "/hf_cache"
    assert config.allow_private_endpoints is False
    assert [str(warning) for warning in config.warnings] == [
        'spec.data: is the older name of this section (rename it to "storage")'
    ]


def test_values_are_parsed_once() -> None:
    """Durations, quantities and node lists arrive as what they mean."""
    config = resolved(
        ray={"headPodMemory": "32768Mi"},
        scheduling={"pendingThresholdForPreemption": "1h30m"},
        resourceMonitoring={"lowUtilizationThreshold": 2.5, "terminateUnderutilizedAfter": "90m"},
        nodes={"expectedGpus": [{"vendor": "amd", "model": "mi300x", "gpusPerNode": 8, "maxNodes": 4}]},
        plugins={"kueue": {"labelNamespaces": False}},
    )
    assert str(config.head_pod_memory) == "32Gi"
    assert config.pending_threshold_for_preemption == timedelta(minutes=90)
    assert config.low_utilization_threshold == 2.5
    assert config.terminate_underutilized_after == timedelta(minutes=90)
    assert (config.expected_gpus[0].model, config.expected_gpus[0].max_nodes) == ("mi300x", 4)
    assert config.plugins["kueue"] == {"labelNamespaces": False}
    assert config.generation == 2


def test_equal_configurations_are_equal() -> None:
    """A rewrite that changes nothing causes no reconciliation."""
    assert resolved(ray={"headPodMemory": "16Gi"}) == resolved(ray={"headPodMemory": "16384Mi"})
    assert resolved(data={"defaultDataMountPath": "/a"}) != resolved(data={"defaultDataMountPath": "/b"})


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"ray": {"headPodMemory": "lots"}}, r'spec\.ray\.headPodMemory: "lots" is not a quantity'),
        (
            {"scheduling": {"pendingThresholdForPreemption": "5"}},
            r"pendingThresholdForPreemption: .* not a duration",
        ),
        ({"resourceMonitoring": {"terminateUnderutilizedAfter": "1d"}}, "for example 24h or 1h30m"),
        (
            {"resourceMonitoring": {"terminateUnderutilizedAfter": "2562048h"}},
            r"terminateUnderutilizedAfter: .* longer than a duration can be",
        ),
        ({"resourceMonitoring": {"lowUtilizationThreshold": -1}}, "-1 is less than 0"),
        (
            {"resourceMonitoring": {"lowUtilizationThreshold": 150}},
            r"lowUtilizationThreshold: 150 is greater than 100 \(the largest value is 100\)",
        ),
        ({"resourceMonitoring": {"lowUtilizationThreshold": True}}, "got the boolean true"),
        ({"resourceMonitoring": {"profile": "cpu"}}, "expected 'gpu'"),
        ({"nodes": {"defaultGpuResourceKey": "a b"}}, r"not a name like gpu or example\.com/gpu"),
        ({"nodes": []}, r"spec\.nodes: expected a mapping, got a list"),
        ({"defaultClusterQueueName": ""}, r"spec\.defaultClusterQueueName: is empty"),
        ({"defaultClusterQueueName": "q" * 64}, r"spec\.defaultClusterQueueName: .* 63"),
        ({"ray": {"headPodMemory": "-1Gi"}}, r'spec\.ray\.headPodMemory: must be greater than 0, got "-1Gi"'),
        (
            {"storage": {"downloadResources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}},
            r"spec\.storage\.downloadResources",
        ),
        (
            {"storage": {"downloadLimits": {"maxSize": "0"}}},
            r"downloadLimits\.maxSize: must be greater than 0",
        ),
        ({"storage": {"downloadLimits": {"maxFiles": 0}}}, r"downloadLimits\.maxFiles: 0 is less than 1"),
        (
            {"storage": {"downloadLimits": {"timeout": "20ms"}}},
            r"downloadLimits\.timeout: must be at least 1s",
        ),
    ],
)
def test_values_that_cannot_be_used_are_named(spec: dict[str, Any], message: str) -> None:
    """The operator keeps the last good values and can say which field is wrong."""
    with pytest.raises(InvalidConfig, match=message):
        resolved(**spec)


@pytest.mark.parametrize("obj", [None, [], {"spec": []}, {"spec": "x"}])
def test_nonsense_is_refused_not_crashed_on(obj: object) -> None:
    """Whatever somebody wrote, the answer is a sentence."""
    with pytest.raises(InvalidConfig, match="must be a mapping"):
        ResolvedConfig.from_object(obj)


def test_unknown_fields_are_ignored_when_reading() -> None:
    """An older operator lives with a newer KaiwoConfig."""
    assert resolved(ray={"futureField": 1}, futureSection={}) == resolved()
