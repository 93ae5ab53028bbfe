"""Volumes of a workload: the claims it owns and where its containers see them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kaiwo.plugin.backends import Rendered
from kaiwo.plugin.facts import Refusal
from kaiwo.workload.errors import SpecError
from kaiwo.workload.labels import owner_reference, system_labels
from kaiwo.workload.names import derived_name
from kaiwo.workload.origins import Origins

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kaiwo.api.storage import StorageSpec
    from kaiwo.api.workload import Workload
    from kaiwo.engine.resource import Object
    from kaiwo.plugin.backends import Resolved
    from kaiwo.plugin.sources import DownloadSource

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
        path: the field that asks for it.
    """

    name: str
    claim: str
    mount_path: str
    size: str
    path: str


def _enabled(workload: Workload) -> StorageSpec | None:
    storage = workload.spec.storage
    return storage if storage is not None and storage.storage_enabled else None


def volumes(workload: Workload, resolved: Resolved) -> tuple[Volume, ...]:
    """The volumes a workload asks for; none unless ``storage.storageEnabled``."""
    storage = _enabled(workload)
    if storage is None:
        return ()
    found = []
    if storage.data and storage.data.storage_size:
        path = storage.data.mount_path or resolved.data_mount_path
        found.append(_volume(workload, DATA, path, storage.data.storage_size, "spec.storage.data"))
    if storage.hugging_face and storage.hugging_face.storage_size:
        path = storage.hugging_face.mount_path or resolved.hf_mount_path
        size = storage.hugging_face.storage_size
        found.append(_volume(workload, HF, path, size, "spec.storage.huggingFace"))
    return tuple(found)


def claim_name(workload: Workload, volume: str) -> str:
    """The name of the claim of one of a workload's volumes (``data``, ``hf``)."""
    return derived_name(workload.name, f"-{volume}")


def _volume(workload: Workload, name: str, mount_path: str, size: str, path: str) -> Volume:
    return Volume(name, claim_name(workload, name), mount_path, size, path)


def _requests(storage: StorageSpec) -> Iterator[tuple[str, tuple[str, ...], bool]]:
    """Fields that ask for downloads, their path below ``spec.storage``, whether their volume has a size."""
    if storage.data and storage.data.download:
        for name, items in storage.data.download.items():
            if items:
                yield (
                    f"spec.storage.data.download.{name}",
                    ("data", "download", name),
                    bool(storage.data.storage_size),
                )
    if storage.hugging_face and storage.hugging_face.pre_cache_repos:
        yield (
            "spec.storage.huggingFace.preCacheRepos",
            ("huggingFace", "preCacheRepos"),
            bool(storage.hugging_face.storage_size),
        )


def check(workload: Workload) -> None:
    """Refuse storage that contradicts itself.

    Raises:
        SpecError: downloads without a volume to put them in, or two volumes at one path.
    """
    storage = _enabled(workload)
    if storage is None:
        return
    for field, path, sized in _requests(storage):
        if not sized:
            raise SpecError(field, f"needs spec.storage.{path[0]}.storageSize, the volume to download into")


def check_mounts(found: tuple[Volume, ...]) -> None:
    """Refuse two volumes at one place.

    Raises:
        SpecError: they are mounted at the same path.
    """
    paths: dict[str, str] = {}
    for volume in found:
        path = volume.mount_path.rstrip("/") or "/"
        if path in paths:
            raise SpecError(
                f"{volume.path}.mountPath",
                f"is {path}, where {paths[path]} is mounted already; choose another",
            )
        paths[path] = volume.path


def download_refusal(workload: Workload, sources: Iterable[DownloadSource]) -> Refusal | None:
    """Why what a workload wants downloaded cannot be; None when it wants nothing."""
    storage = _enabled(workload)
    if storage is None:
        return None
    by_path = {source.path: source for source in sources}
    for field, path, _ in _requests(storage):
        source = by_path.get(path)
        why = (
            f"source {source.name!r} is known, but this version of the operator starts no downloads yet"
            if source
            else "no loaded plugin serves this field; install or select a storage plugin that does"
        )
        return Refusal(
            "DownloadNotAvailable",
            f"{field}: {why}; or remove the field and fetch the data in the entrypoint",
            condition="StorageReady",
        )
    return None


def warnings(workload: Workload) -> list[str]:
    """What of the storage section is ignored."""
    storage = workload.spec.storage
    if storage is None or storage.storage_enabled or not (storage.data or storage.hugging_face):
        return []
    return ["spec.storage: data and huggingFace are ignored because storageEnabled is not true"]


def claims(workload: Workload, resolved: Resolved) -> tuple[Rendered, ...]:
    """The PersistentVolumeClaims of a workload, owned by it."""
    storage = _enabled(workload)
    if storage is None:
        return ()
    storage_class = storage.storage_class_name or resolved.storage_class
    rendered = []
    for volume in volumes(workload, resolved):
        origins = Origins()
        metadata: Object = {"name": volume.claim, "labels": system_labels(workload)}
        if workload.namespace:
            metadata["namespace"] = workload.namespace
        if owner := owner_reference(workload):
            metadata["ownerReferences"] = owner
        spec: Object = {
            "accessModes": [storage.access_mode],
            "resources": {"requests": {"storage": volume.size}},
        }
        origins.note("spec.accessModes", "user", "spec.storage.accessMode")
        origins.note("spec.resources.requests.storage", "user", f"{volume.path}.storageSize")
        if storage_class:
            spec["storageClassName"] = storage_class
            if storage.storage_class_name:
                origins.note("spec.storageClassName", "user", "spec.storage.storageClassName")
            else:
                origins.note("spec.storageClassName", "config", "KaiwoConfig storage.defaultStorageClass")
        claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}
        rendered.append(Rendered(claim, origins=origins.known()))
    return tuple(rendered)
