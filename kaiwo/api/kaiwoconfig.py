"""KaiwoConfig: what an administrator may change while the operator runs."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from kaiwo.api.base_model import Model
from kaiwo.api.config_names import DEFAULT_SCHEDULER
from kaiwo.api.core_types import ResourceRequirements
from kaiwo.api.scalars import (
    QUALIFIED_NAME,
    Count,
    DurationText,
    ImageReference,
    MountPath,
    ObjectName,
    Opaque,
    OrEmpty,
    Positive,
    QuantityText,
    QueueName,
    WholeDurationText,
)
from kaiwo.api.status import Conditions

GROUP = "config.kaiwo.silogen.ai"
API_VERSION = "config.kaiwo.silogen.ai/v1alpha1"
HISTORY = "kaiwo-config-history"
"""Name of the ConfigMap in the operator's namespace that keeps the last specs of the KaiwoConfig."""
GPU_TIME = "kaiwo-gpu-time"
"""Name of the ConfigMap beside it that keeps the GPU time which the metrics have counted."""

MAX_TARGET_NAMESPACES = 4096


_ClassName = Annotated[str, Field(max_length=253)]


class RaySection(Model):
    """Ray."""

    default_ray_image: Annotated[
        ImageReference, Field(description="Image of containers that name none, for every backend.")
    ] = "ghcr.io/silogen/rocm-ray:6.4"
    head_pod_memory: Annotated[QuantityText, Field(description="Memory of a Ray head pod.")] = "16Gi"


class DownloadLimitsSection(Model):
    """Limits of one download Job. What exceeds one fails the workload, whose status names the setting."""

    max_size: Annotated[
        QuantityText, Field(description="Size of all files of a workload's downloads together.")
    ] = "4Ti"
    max_files: Annotated[
        Positive,
        Field(description="Number of files of a workload's downloads, and of objects in one listing."),
    ] = 1_000_000
    timeout: Annotated[
        DurationText,
        Field(
            description="Time of one run of the download program; at least 1s. The Job has time for all its "
            "tries, and a day to be scheduled."
        ),
    ] = "24h"


class StorageSection(Model):
    """Storage. No field has a default in the schema, so that the older section ``data`` can fill it."""

    default_storage_class: Annotated[
        _ClassName | None,
        OrEmpty(),
        Field(description="StorageClass of volumes that name none; else the cluster's default."),
    ] = None
    default_data_mount_path: Annotated[
        MountPath | None,
        OrEmpty(),
        Field(description="Where data volumes are mounted; /workload if left out."),
    ] = None
    default_hf_mount_path: Annotated[
        MountPath | None,
        OrEmpty(),
        Field(description="Where Hugging Face caches are mounted, also HF_HOME; /hf_cache if left out."),
    ] = None
    download_image: Annotated[
        ImageReference | None,
        OrEmpty(),
        Field(description="Image of download pods; the operator's own version if left out."),
    ] = None
    download_resources: Annotated[
        ResourceRequirements | None,
        Field(
            description="Resources of download pods; 1 CPU, 1Gi requested and 2 CPU, 4Gi at most if left "
            "out. The limit of ephemeral-storage is 1Gi where it is not given."
        ),
    ] = None
    download_limits: Annotated[
        DownloadLimitsSection | None,
        Field(description="Limits of downloads; 4Ti, 1000000 files and 24h if left out."),
    ] = None
    ambient_credentials: Annotated[
        bool | None,
        Field(description="Let downloads use the cloud identity of the pod or node; false if left out."),
    ] = None
    allow_private_endpoints: Annotated[
        bool | None,
        Field(
            description="Let downloads reach private addresses (RFC 1918); true if left out. "
            "Link-local and metadata addresses are never reached."
        ),
    ] = None


class ExpectedGpus(Model):
    """Nodes that an autoscaler can add; they count when it is checked whether a workload can run."""

    vendor: Annotated[str, Field(min_length=1, max_length=63, description="GPU vendor (amd, nvidia).")]
    model: Annotated[
        str | None, Field(min_length=1, max_length=63, description="GPU model (mi300x); any if left out.")
    ] = None
    gpus_per_node: Annotated[Positive, Field(description="GPUs of one such node.")]
    max_nodes: Annotated[Count, Field(description="How many such nodes there can be.")]


class NodeSection(Model):
    """Nodes."""

    default_gpu_resource_key: Annotated[
        str,
        Field(
            max_length=317,
            pattern=QUALIFIED_NAME,
            description="Resource key of workloads with vendor default.",
        ),
    ] = "amd.com/gpu"
    default_gpu_taint_key: Annotated[
        str, Field(max_length=317, pattern=QUALIFIED_NAME, description="Key of the taint of GPU nodes.")
    ] = "kaiwo.silogen.ai/gpu"
    exclude_master_nodes_from_node_pools: Annotated[
        bool, Field(description="Leave control-plane nodes out of the node pools.")
    ] = False
    add_taints_to_gpu_nodes: Annotated[
        bool, Field(description="Taint GPU nodes with defaultGpuTaintKey.")
    ] = False
    expected_gpus: Annotated[
        tuple[ExpectedGpus, ...] | None,
        Field(strict=False, max_length=64, description="GPU nodes that an autoscaler can add."),
    ] = None


class SchedulingSection(Model):
    """Scheduling."""

    kube_scheduler_name: Annotated[ObjectName, Field(description="Scheduler of generated pods.")] = (
        DEFAULT_SCHEDULER
    )
    pending_threshold_for_preemption: Annotated[
        DurationText,
        Field(
            description="A workload that waits for GPUs longer may preempt workloads of the same vendor "
            "whose duration has passed."
        ),
    ] = "5m"
    preemption: Annotated[
        Literal["Enforce", "Report", "Disabled"],
        Field(
            description="Whether workloads whose duration has passed are ended for others. Report only says "
            "what would be done."
        ),
    ] = "Enforce"
    preemption_action: Annotated[
        Literal["Terminate", "Requeue"],
        Field(
            description="What becomes of a KaiwoJob that is preempted. Requeue creates it again, from its "
            "beginning, once the workload that it was preempted for has its GPUs. Services are always "
            "terminated."
        ),
    ] = "Terminate"
    preemption_protection: Annotated[
        DurationText,
        Field(description="A workload that has run for less is not preempted, whatever its duration."),
    ] = "10m"


class MonitoringSection(Model):
    """Resource monitoring. Whether it runs at all, and on which endpoint, is set for the process."""

    low_utilization_threshold: Annotated[
        float,
        Field(
            ge=0,
            le=100,
            allow_inf_nan=False,
            description="Per cent of the requested GPUs, 100 at most; below it a workload is underutilizing.",
        ),
    ] = 1
    target_namespaces: Annotated[
        tuple[ObjectName, ...] | None,
        Field(
            strict=False,
            max_length=MAX_TARGET_NAMESPACES,
            description="Namespaces that are monitored; all but kube-system if empty.",
        ),
    ] = None
    profile: Annotated[Literal["gpu"], Field(description="What is monitored.")] = "gpu"
    terminate_underutilized: Annotated[
        bool, Field(description="End workloads that underutilize for too long.")
    ] = False
    terminate_underutilized_after: Annotated[
        WholeDurationText,
        Field(description="How long a workload may underutilize before it is ended."),
    ] = "24h"


class GpuPreemptionSection(Model):
    """Idle GPUs that are taken back, where the operator has a plugin for that.

    No field has a default in the schema, so that the process settings of the plugin can fill it in.
    """

    default_threshold: Annotated[
        float | None,
        Field(
            ge=0,
            le=100,
            allow_inf_nan=False,
            description="Per cent of use below which GPUs are idle; 5 if left out.",
        ),
    ] = None
    default_grace_period: Annotated[
        DurationText | None,
        Field(description="How long GPUs may be idle before they may be taken back; 10m if left out."),
    ] = None
    default_policy: Annotated[
        Literal["OnPressure", "Always", "Report"] | None,
        Field(
            description="When idle GPUs are taken back: OnPressure when another workload waits for them, "
            "Always after the grace period, Report never. OnPressure if left out."
        ),
    ] = None
    default_aggregation: Annotated[
        Literal["Min", "Max", "Avg"] | None,
        Field(description="Which figure of all GPUs of a workload counts; Max if left out."),
    ] = None
    default_ttl: Annotated[
        DurationText | None,
        Field(
            alias="defaultTTL",
            description="How long a GpuWorkload is kept after its workload; 0s for ever, 24h if left out.",
        ),
    ] = None


class KaiwoConfigSpec(Model):
    """``spec`` of a KaiwoConfig."""

    ray: Annotated[RaySection, Field(description="Ray.")] = RaySection()
    storage: Annotated[StorageSection, Field(description="Volumes and downloads.")] = StorageSection()
    data: Annotated[
        StorageSection | None,
        Field(description="Deprecated: older name of storage. Fields of storage win."),
    ] = None
    nodes: Annotated[NodeSection, Field(description="Nodes and GPUs.")] = NodeSection()
    scheduling: Annotated[SchedulingSection, Field(description="Scheduling and preemption.")] = (
        SchedulingSection()
    )
    resource_monitoring: Annotated[MonitoringSection, Field(description="Resource monitoring.")] = (
        MonitoringSection()
    )
    gpu_preemption: Annotated[
        GpuPreemptionSection, Field(description="Defaults for idle GPUs, read by the plugin gpu_preemption.")
    ] = GpuPreemptionSection()
    default_cluster_queue_name: Annotated[
        QueueName, Field(description="Queue of workloads that name none.")
    ] = "kaiwo"
    default_cluster_queue_cohort_name: Annotated[
        ObjectName,
        Field(description="Cohort of the default queue; queues of a cohort lend each other quota."),
    ] = "kaiwo"
    default_topology_name: Annotated[
        ObjectName | None,
        Field(
            description="Name of a Topology that is made from the nodes' labels kaiwo/topology-block, "
            "kaiwo/topology-rack and kubernetes.io/hostname. The discovered flavors refer to it, so that all "
            "their workloads go through topology-aware scheduling. Without a name there is none."
        ),
    ] = None
    dynamically_update_default_cluster_queue: Annotated[
        bool, Field(description="Keep the default queue's quotas equal to what the nodes have.")
    ] = False
    plugins: Annotated[
        dict[str, Opaque] | None, Field(description="Settings of plugins, by plugin name.")
    ] = None


class PluginReport(Model):
    """What became of one plugin."""

    name: Annotated[str, Field(description="Name of the plugin.")]
    distribution: Annotated[str, Field(description="Distribution that it comes from.")] = ""
    version: Annotated[str, Field(description="Version of its distribution.")] = ""
    state: Annotated[str, Field(description="loaded, disabled, not-selected, not-allowed or broken.")]
    message: Annotated[str, Field(description="Why, when it is not loaded.")] = ""


class KaiwoConfigStatus(Model):
    """``status`` of a KaiwoConfig."""

    conditions: Annotated[Conditions, Field(description="Ready says whether the values are in force.")] = ()
    plugins: Annotated[
        tuple[PluginReport, ...], Field(strict=False, description="State of each plugin.")
    ] = ()
    queue_plugin: Annotated[
        str,
        Field(
            description="Plugin whose queue system is in force, or last was. While it is not loaded, no "
            "workload that names a queue is started; remove the value to run them without one."
        ),
    ] = ""
    observed_generation: Annotated[int | None, Field(ge=0, description="Generation that is in force.")] = None
