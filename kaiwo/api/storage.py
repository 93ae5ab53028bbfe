"""Storage of a workload: two optional volumes, and what is fetched into them before it starts."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from kaiwo.api.base_model import Model
from kaiwo.api.plugin_fields import Contributed
from kaiwo.api.scalars import MountPath, Opaque, OrEmpty, QuantityText
from kaiwo.api.spec_rules import MAX_DOWNLOAD_ITEMS

AccessMode: TypeAlias = Literal["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"]
DEFAULT_ACCESS_MODE: AccessMode = "ReadWriteMany"


class DataStorageSpec(Model):
    """The data volume."""

    mount_path: Annotated[
        MountPath | None,
        OrEmpty(),
        Field(
            description="Where the data volume is mounted in the containers; "
            "by default KaiwoConfig's storage.defaultDataMountPath."
        ),
    ] = None
    storage_size: Annotated[
        QuantityText | None,
        OrEmpty(),
        Field(description='Size of the data volume, for example "100Gi". Setting it makes one.'),
    ] = None
    download: Annotated[
        Opaque | None,
        Contributed(),
        Field(description="What is downloaded into the data volume before the start, by kind of source."),
    ] = None


class HfStorageSpec(Model):
    """The volume that caches Hugging Face models and data sets."""

    mount_path: Annotated[
        MountPath | None,
        OrEmpty(),
        Field(
            description="Where the cache is mounted in the containers, also set as HF_HOME; "
            "by default KaiwoConfig's storage.defaultHfMountPath."
        ),
    ] = None
    storage_size: Annotated[
        QuantityText | None,
        OrEmpty(),
        Field(description='Size of the cache volume, for example "50Gi". Setting it makes one.'),
    ] = None
    pre_cache_repos: Annotated[
        tuple[Opaque, ...] | None,
        Contributed(),
        Field(
            strict=False,
            max_length=MAX_DOWNLOAD_ITEMS,
            description="Repositories downloaded into the cache before the workload starts.",
        ),
    ] = None


class StorageSpec(Model):
    """Persistent volumes of a workload."""

    storage_enabled: Annotated[
        bool,
        Field(
            description="Must be true for any volume to be made; if false, data and huggingFace are ignored."
        ),
    ] = False
    storage_class_name: Annotated[
        str | None,
        Field(
            max_length=253,
            description="StorageClass of the volumes; by default KaiwoConfig's storage.defaultStorageClass, "
            "else the cluster's default class.",
        ),
    ] = None
    access_mode: Annotated[
        AccessMode,
        Field(
            description="Access mode of the volumes. Pods on different nodes, the download pod included, "
            "can share a volume only with ReadWriteMany."
        ),
    ] = DEFAULT_ACCESS_MODE
    data: Annotated[DataStorageSpec | None, Field(description="The data volume.")] = None
    hugging_face: Annotated[HfStorageSpec | None, Field(description="The Hugging Face cache volume.")] = None
