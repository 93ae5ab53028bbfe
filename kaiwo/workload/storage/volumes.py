"""Volumes of a workload: the claims it owns and where its containers see them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kaiwo.api.name_rules import is_ray_block
from kaiwo.api.spec_rules import DOWNLOAD_NEEDS_VOLUME, STORAGE_DISABLED, duplicate_mounts
from kaiwo.workload.errors import SpecError
from kaiwo.workload.metadata import derived_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kaiwo.api.storage import StorageSpec
    from kaiwo.api.workload import Workload
    from kaiwo.plugin.rendering import Resolved

DATA = "data"
HF = "hf"
"""Names of the pod volumes and suffixes of the claims."""


@dataclass(frozen=True, slots=True)
class Volume:
    """One volume of a workload.

    Attributes:
        name: name of the volume in pods.
        claim: name of the PersistentVolumeClaim.
        mount_path: where every container sees it.
        size: requested size, a quantity.
        path: the field that requests it.
    """

    name: str
    claim: str
    mount_path: str
    size: str
    path: str


def enabled(workload: Workload) -> StorageSpec | None:
    """The storage section, None where it is absent or switched off."""
    storage = workload.spec.storage
    return storage if storage is not None and storage.storage_enabled else None


def volumes(workload: Workload, resolved: Resolved) -> tuple[Volume, ...]:
    """The volumes a workload requests; none unless ``storage.storageEnabled``."""
    storage = enabled(workload)
    if storage is None:
        return ()
    found = []
    if storage.data and storage.data.storage_size:
        path = storage.data.mount_path or resolved.mount_paths.get(DATA, "")
        found.append(_volume(workload, DATA, path, storage.data.storage_size, "spec.storage.data"))
    if storage.hugging_face and storage.hugging_face.storage_size:
        path = storage.hugging_face.mount_path or resolved.mount_paths.get(HF, "")
        size = storage.hugging_face.storage_size
        found.append(_volume(workload, HF, path, size, "spec.storage.huggingFace"))
    return tuple(found)


def claim_name(workload: Workload, volume: str) -> str:
    """The name of the claim of one of a workload's volumes (``data``, ``hf``)."""
    return derived_name(workload.name, f"-{volume}")


def _volume(workload: Workload, name: str, mount_path: str, size: str, path: str) -> Volume:
    return Volume(name, claim_name(workload, name), mount_path, size, path)


@dataclass(frozen=True, slots=True)
class VolumeRequest:
    """A field that requests downloads.

    Attributes:
        field: the field, as users write it.
        path: its path below ``spec.storage``.
        items: what it holds, as it was written.
        sized: whether the volume to download into has a size.
    """

    field: str
    path: tuple[str, ...]
    items: object
    sized: bool


def requests(workload: Workload) -> Iterator[VolumeRequest]:
    """The fields that request downloads; none unless ``storage.storageEnabled``."""
    storage = enabled(workload)
    if storage is None:
        return
    if storage.data and storage.data.download:
        for name, items in storage.data.download.items():
            if items:
                field = f"spec.storage.data.download.{name}"
                yield VolumeRequest(field, ("data", "download", name), items, bool(storage.data.storage_size))
    if storage.hugging_face and storage.hugging_face.pre_cache_repos:
        yield VolumeRequest(
            "spec.storage.huggingFace.preCacheRepos",
            ("huggingFace", "preCacheRepos"),
            list(storage.hugging_face.pre_cache_repos),
            bool(storage.hugging_face.storage_size),
        )


def check(workload: Workload) -> None:
    """Refuse storage that contradicts itself.

    Raises:
        SpecError: downloads without a volume to put them in, or two volumes at one path.
    """
    for request in requests(workload):
        if DOWNLOAD_NEEDS_VOLUME.violated(request.items, request.sized):
            raise SpecError(
                f"spec.storage.{request.path[0]}.{DOWNLOAD_NEEDS_VOLUME.field}", DOWNLOAD_NEEDS_VOLUME.message
            )


def check_mounts(mounts: Iterable[tuple[str, str]]) -> None:
    """Refuse two volumes at one place: the last mounted would hide the other.

    Args:
        mounts: of each mount its path and the field that requests it.

    Raises:
        SpecError: two are mounted at the same path.
    """
    for problem in duplicate_mounts(mounts):
        raise SpecError(problem.path, problem.message)


def sharing_warnings(workload: Workload, resolved: Resolved) -> list[str]:
    """What pods on different nodes cannot share: all but one node's pods would wait for the volume.

    Args:
        workload: whose volumes.
        resolved: with the number of its pods.
    """
    storage, pods = enabled(workload), resolved.allocation.pods
    if workload.spec.ray or any(map(is_ray_block, workload.blocks)):
        pods += 1  # the head
    if storage is None or pods <= 1 or not volumes(workload, resolved):
        return []
    who = {"ReadWriteOnce": "only pods on one node", "ReadWriteOncePod": "only one pod"}
    if storage.access_mode not in who:
        return []
    who_can = who[storage.access_mode]
    text = f"{pods} pods share the volume, and with {storage.access_mode} {who_can} can use it"
    return [f"spec.storage.accessMode: {text}; write ReadWriteMany"]


def warnings(workload: Workload) -> list[str]:
    """What of the storage section is ignored, in the words in which validation says it."""
    storage = workload.spec.storage
    if storage is None:
        return []
    given = {"data": storage.data, "huggingFace": storage.hugging_face}
    return [
        f"spec.storage.{name}: {STORAGE_DISABLED.message}"
        for name, part in given.items()
        if STORAGE_DISABLED.violated(storage.storage_enabled, part)
    ]
