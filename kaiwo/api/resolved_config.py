"""KaiwoConfig as the operator uses it: every value resolved, every quantity and duration parsed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from pydantic import ValidationError

from kaiwo.api.core_types import ResourceRequirements
from kaiwo.api.duration import parse_duration
from kaiwo.api.errors import InvalidConfig, Problem
from kaiwo.api.kaiwoconfig import (
    DownloadLimitsSection,
    ExpectedGpus,
    GpuPreemptionSection,
    KaiwoConfigSpec,
    StorageSection,
)
from kaiwo.api.spec_checks import check_config
from kaiwo.api.validation_errors import explain
from kaiwo.engine.quantity import parse_quantity

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta

    from kaiwo.engine.quantity import Quantity

DEFAULT_DATA_MOUNT_PATH = "/workload"
DEFAULT_HF_MOUNT_PATH = "/hf_cache"
DOWNLOAD_IMAGE_REPOSITORY = "ghcr.io/silogen/kaiwo-downloader"
EPHEMERAL_STORAGE = "ephemeral-storage"
DEFAULT_EPHEMERAL_STORAGE = "1Gi"
"""Limit of what a download pod writes beside its volumes: logs, and temporary files in /tmp."""

DEFAULT_DOWNLOAD_RESOURCES = ResourceRequirements(
    requests={"cpu": "1", "memory": "1Gi"}, limits={"cpu": "2", "memory": "4Gi"}
)


@dataclass(frozen=True, slots=True)
class ResolvedConfig:
    """The configuration in force. Equal configurations compare equal, whatever they were written as.

    Attributes:
        default_ray_image: image of containers that name none.
        head_pod_memory: memory of a Ray head pod.
        default_storage_class: StorageClass of volumes that name none, None for the cluster's default.
        default_data_mount_path: where a data volume is mounted unless the workload sets it.
        default_hf_mount_path: where a Hugging Face cache is mounted unless the workload sets it.
        download_image: image of download pods.
        download_resources: requests and limits of download pods.
        download_max_bytes: bytes of all files of one download Job.
        download_max_files: files of one download Job.
        download_timeout: time of one run of the download program.
        ambient_credentials: whether downloads may use the node's or the pod's own cloud identity.
        allow_private_endpoints: whether downloads may go to private addresses (RFC 1918).
        default_gpu_resource_key: resource key of vendor ``default``.
        default_gpu_taint_key: taint, and toleration, of GPU nodes.
        exclude_master_nodes_from_node_pools: whether control-plane nodes belong to no pool.
        add_taints_to_gpu_nodes: whether GPU nodes get the taint.
        expected_gpus: nodes that an autoscaler can add.
        kube_scheduler_name: scheduler of generated pods.
        pending_threshold_for_preemption: how long a workload waits before others may be preempted for it.
        preemption: whether workloads past their duration are ended for others, or that is only reported.
        preemption_action: what becomes of a KaiwoJob that is preempted.
        preemption_protection: how long each run of a workload has its GPUs for certain.
        low_utilization_threshold: per cent of the requested GPUs below which a workload is underutilizing.
        target_namespaces: namespaces that are monitored, empty for all but kube-system.
        profile: what is monitored.
        terminate_underutilized: whether underutilizing workloads are ended.
        terminate_underutilized_after: how long they may underutilize before.
        gpu_preemption: defaults for idle GPUs, as written: None for what is left out.
        default_cluster_queue_name: queue of workloads that name none.
        default_cluster_queue_cohort_name: cohort of the default queue.
        default_topology_name: Topology of the discovered flavors, empty for none.
        dynamically_update_default_cluster_queue: whether the default queue follows the nodes.
        plugins: settings by plugin name, as written.
        generation: generation of the object they came from, 0 without one.
        warnings: what deserves attention, for example the deprecated section ``data``.
    """

    default_ray_image: str
    head_pod_memory: Quantity
    default_storage_class: str | None
    default_data_mount_path: str
    default_hf_mount_path: str
    download_image: str
    download_resources: ResourceRequirements
    download_max_bytes: int
    download_max_files: int
    download_timeout: timedelta
    ambient_credentials: bool
    allow_private_endpoints: bool
    default_gpu_resource_key: str
    default_gpu_taint_key: str
    exclude_master_nodes_from_node_pools: bool
    add_taints_to_gpu_nodes: bool
    expected_gpus: tuple[ExpectedGpus, ...]
    kube_scheduler_name: str
    pending_threshold_for_preemption: timedelta
    preemption: Literal["Enforce", "Report", "Disabled"]
    preemption_action: Literal["Terminate", "Requeue"]
    preemption_protection: timedelta
    low_utilization_threshold: float
    target_namespaces: frozenset[str]
    profile: Literal["gpu"]
    terminate_underutilized: bool
    terminate_underutilized_after: timedelta
    gpu_preemption: GpuPreemptionSection
    default_cluster_queue_name: str
    default_cluster_queue_cohort_name: str
    default_topology_name: str
    dynamically_update_default_cluster_queue: bool
    plugins: Mapping[str, Mapping[str, Any]]
    generation: int = 0
    warnings: tuple[Problem, ...] = ()

    @classmethod
    def defaults(cls) -> ResolvedConfig:
        """The documented defaults, in force where no KaiwoConfig exists."""
        return cls.from_object({})

    @classmethod
    def from_object(cls, obj: object) -> ResolvedConfig:
        """Resolve a KaiwoConfig of the API server or a file; unknown fields are ignored.

        Raises:
            InvalidConfig: a value cannot be used; the fields are named.
        """
        if not isinstance(obj, dict):
            raise InvalidConfig([Problem("", "must be a mapping")])
        raw = {} if obj.get("spec") is None else obj["spec"]
        if not isinstance(raw, dict):
            raise InvalidConfig([Problem("spec", "must be a mapping")])
        try:
            spec = KaiwoConfigSpec.read(raw)
        except ValidationError as error:
            raise InvalidConfig(explain(error, ("spec",))) from None
        problems, _ = check_config(obj, ())
        if problems:
            raise InvalidConfig(problems)
        meta = obj.get("metadata")
        generation = meta.get("generation", 0) if isinstance(meta, dict) else 0
        return cls.from_spec(spec, generation if isinstance(generation, int) else 0)

    @classmethod
    def from_spec(cls, spec: KaiwoConfigSpec, generation: int = 0) -> ResolvedConfig:
        """Resolve a valid spec: section ``storage`` wins over ``data``, field by field, then the defaults."""
        storage = _merged_storage(spec.storage, spec.data)
        limits = storage.download_limits or DownloadLimitsSection()
        nodes, scheduling, monitoring = spec.nodes, spec.scheduling, spec.resource_monitoring
        return cls(
            default_ray_image=spec.ray.default_ray_image,
            head_pod_memory=parse_quantity(spec.ray.head_pod_memory),
            default_storage_class=storage.default_storage_class or None,
            default_data_mount_path=storage.default_data_mount_path or DEFAULT_DATA_MOUNT_PATH,
            default_hf_mount_path=storage.default_hf_mount_path or DEFAULT_HF_MOUNT_PATH,
            download_image=storage.download_image or default_download_image(),
            download_resources=_with_scratch_limit(storage.download_resources or DEFAULT_DOWNLOAD_RESOURCES),
            download_max_bytes=parse_quantity(limits.max_size).units,
            download_max_files=limits.max_files,
            download_timeout=parse_duration(limits.timeout),
            ambient_credentials=bool(storage.ambient_credentials),
            allow_private_endpoints=storage.allow_private_endpoints is not False,
            default_gpu_resource_key=nodes.default_gpu_resource_key,
            default_gpu_taint_key=nodes.default_gpu_taint_key,
            exclude_master_nodes_from_node_pools=nodes.exclude_master_nodes_from_node_pools,
            add_taints_to_gpu_nodes=nodes.add_taints_to_gpu_nodes,
            expected_gpus=nodes.expected_gpus or (),
            kube_scheduler_name=scheduling.kube_scheduler_name,
            pending_threshold_for_preemption=parse_duration(scheduling.pending_threshold_for_preemption),
            preemption=scheduling.preemption,
            preemption_action=scheduling.preemption_action,
            preemption_protection=parse_duration(scheduling.preemption_protection),
            low_utilization_threshold=monitoring.low_utilization_threshold,
            target_namespaces=frozenset(monitoring.target_namespaces or ()),
            profile=monitoring.profile,
            terminate_underutilized=monitoring.terminate_underutilized,
            terminate_underutilized_after=parse_duration(monitoring.terminate_underutilized_after),
            gpu_preemption=spec.gpu_preemption,
            default_cluster_queue_name=spec.default_cluster_queue_name,
            default_cluster_queue_cohort_name=spec.default_cluster_queue_cohort_name,
            default_topology_name=spec.default_topology_name or "",
            dynamically_update_default_cluster_queue=spec.dynamically_update_default_cluster_queue,
            plugins=MappingProxyType(dict(spec.plugins or {})),
            generation=generation,
            warnings=config_warnings(spec),
        )


def _with_scratch_limit(given: ResourceRequirements) -> ResourceRequirements:
    """The resources with a limit of ephemeral storage: a download belongs on its volume, not on the node."""
    if any(EPHEMERAL_STORAGE in (amounts or {}) for amounts in (given.limits, given.requests)):
        return given
    limits = {**(given.limits or {}), EPHEMERAL_STORAGE: DEFAULT_EPHEMERAL_STORAGE}
    return given.model_copy(update={"limits": limits})


@cache
def default_download_image() -> str:
    """The project's downloader image of the same version as the operator."""
    from importlib.metadata import version

    return f"{DOWNLOAD_IMAGE_REPOSITORY}:{version('kaiwo')}"


def config_warnings(spec: KaiwoConfigSpec) -> tuple[Problem, ...]:
    """What is taken but deserves attention."""
    if spec.data is None:
        return ()
    return (Problem("spec.data", "is the older name of this section", 'rename it to "storage"'),)


def _merged_storage(storage: StorageSection, data: StorageSection | None) -> StorageSection:
    if data is None:
        return storage
    given = {name: value for name, value in storage if value is not None}
    older = {name: value for name, value in data if value is not None}
    return StorageSection(**{**older, **given})
