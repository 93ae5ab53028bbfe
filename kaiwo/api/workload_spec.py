"""The fields that KaiwoJob and KaiwoService share. Backends and download sources contribute the others."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from kaiwo.api.base_model import Model
from kaiwo.api.core_types import EnvVar, LocalObjectReference, ResourceRequirements, SecretVolume
from kaiwo.api.scalars import (
    LABEL_VALUE,
    Count,
    DurationText,
    Entrypoint,
    ObjectName,
    OrEmpty,
    Positive,
    QueueName,
)
from kaiwo.api.spec_rules import entrypoint_validations
from kaiwo.api.storage import StorageSpec

DEFAULT_VENDOR = "amd"

MAX_USER = 1024
"""Characters of the name of a user."""

LabelValue = Annotated[str, Field(max_length=63, pattern=LABEL_VALUE)]
LabelKey = Annotated[str, Field(min_length=1, max_length=317)]
"""A label key has a prefix of at most 253 characters, a slash, and 63 characters."""


class CommonSpec(Model):
    """``spec`` of a workload, without what plugins contribute."""

    user: Annotated[
        str | None,
        Field(
            max_length=MAX_USER,
            description="Owner of the workload, usually an e-mail address; "
            "becomes label kaiwo.silogen.ai/user, by which lists are filtered.",
        ),
    ] = None
    version: Annotated[
        str | None,
        Field(
            max_length=1024,
            description="A version of the workload, for people; label kaiwo.silogen.ai/version.",
        ),
    ] = None
    pod_template_spec_labels: Annotated[
        dict[str, LabelValue] | None,
        Field(
            max_length=1024, description="Labels for every pod template. Kaiwo's own labels win over them."
        ),
    ] = None
    gpus: Annotated[Count, Field(description="GPUs of the whole workload, over all replicas.")] = 0
    gpu_vendor: Annotated[
        str,
        Field(
            max_length=63,
            description="Vendor of the GPUs, in any case: amd, nvidia or the name of another vendor plugin; "
            "default takes KaiwoConfig's nodes.defaultGpuResourceKey.",
        ),
    ] = DEFAULT_VENDOR
    replicas: Annotated[
        Count,
        Field(description="Replicas of a KaiwoService or of the Ray workers. A plain batch job ignores it."),
    ] = 1
    gpus_per_replica: Annotated[
        Count | None,
        Field(description="GPUs of each replica; give replicas too. gpus is recalculated from both."),
    ] = None
    gpu_models: Annotated[
        tuple[LabelValue, ...] | None,
        Field(
            strict=False,
            max_length=64,
            description="Run only on nodes with one of these GPU models (mi300x).",
        ),
    ] = None
    duration: Annotated[
        DurationText | None,
        OrEmpty(),
        Field(description='How long the workload may keep its GPUs when others wait, for example "12h".'),
    ] = None
    preferred_topology_label: Annotated[
        LabelKey | None,
        OrEmpty(),
        Field(
            description="Node label of a topology level in which the pods should be close together.",
        ),
    ] = None
    required_topology_label: Annotated[
        LabelKey | None,
        OrEmpty(),
        Field(
            description="Node label of a topology level in which the pods must be close together.",
        ),
    ] = None
    resources: Annotated[
        ResourceRequirements | None,
        Field(
            description="Default requests and limits of all containers; values of a container's own win. "
            "GPUs are requested with gpus."
        ),
    ] = None
    image: Annotated[
        str | None,
        Field(
            max_length=4096,
            description="Image of containers that name none; by default KaiwoConfig's ray.defaultRayImage.",
        ),
    ] = None
    image_pull_secrets: Annotated[
        tuple[LocalObjectReference, ...] | None,
        Field(strict=False, max_length=1024, description="Secrets for pulling images, added to every pod."),
    ] = None
    env: Annotated[
        tuple[EnvVar, ...] | None,
        Field(
            strict=False,
            max_length=4096,
            description="Environment of the primary container of each pod. The last of a name wins.",
        ),
    ] = None
    secret_volumes: Annotated[
        tuple[SecretVolume, ...] | None,
        Field(
            strict=False,
            max_length=1024,
            description="Secrets, or keys of them, mounted into the containers.",
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
        ),
    ] = None
    ray: Annotated[
        bool, Field(description="Run on Ray: a RayJob instead of a Job, a RayService for a service.")
    ] = False
    storage: Annotated[
        StorageSpec | None,
        Field(description="Volumes of the workload and what is downloaded into them first."),
    ] = None
    dangerous: Annotated[
        bool,
        Field(
            description="Leave out the default security contexts of generated pods: user, group and fsGroup "
            "1000, and what the Pod Security Standard restricted requires."
        ),
    ] = False
    cluster_queue: Annotated[
        QueueName | None,
        OrEmpty(),
        Field(description="Queue to wait in; by default KaiwoConfig's defaultClusterQueueName."),
    ] = None
    priority_class: Annotated[
        ObjectName | None,
        OrEmpty(),
        Field(description="A WorkloadPriorityClass of the queue, a PriorityClass of the cluster, or both."),
    ] = None
    entrypoint: Annotated[
        Entrypoint | None,
        Field(
            json_schema_extra={"x-kubernetes-validations": entrypoint_validations()},
            description="Command or script of the primary container; a line #!/bin/bash chooses the shell.",
        ),
    ] = None

    @property
    def vendor(self) -> str:
        """The GPU vendor as plugins name themselves: lower case, the default where it was left empty."""
        return self.gpu_vendor.strip().lower() or DEFAULT_VENDOR


class JobSpec(CommonSpec):
    """``spec`` of a KaiwoJob, without what backends contribute."""

    replicas: Annotated[
        Positive, Field(description="Number of Ray workers. A plain batch job ignores it.")
    ] = 1


class ServiceSpec(CommonSpec):
    """``spec`` of a KaiwoService, without what backends contribute."""

    replicas: Annotated[Count, Field(description="Number of replicas; 0 scales the service to zero.")] = 1
