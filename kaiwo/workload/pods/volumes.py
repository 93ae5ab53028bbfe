"""Volumes of a pod: shared memory, storage claims, secrets; and their mounts."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kaiwo.workload.errors import SpecError
from kaiwo.workload.json_access import as_maps
from kaiwo.workload.storage.volumes import check_mounts, volumes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaiwo.api.core_types import SecretVolume
    from kaiwo.engine.resource import Object
    from kaiwo.plugin.rendering import RenderInput
    from kaiwo.workload.pods.origins import Origins

SHARED_MEMORY = "dshm"


def add_volumes(pod: Object, inp: RenderInput, shm: str, path: str, origins: Origins) -> None:
    """Add a pod's volumes and mount them, in place.

    Args:
        pod: the pod spec.
        inp: the render input.
        shm: size of the memory-backed /dev/shm of the first container, empty for none.
        path: path of the pod spec, for origins and errors.
        origins: where to note what came from where.

    Raises:
        SpecError: two volumes share a name or a place.
    """
    wanted: list[tuple[Object, Object, str]] = []
    for asked in volumes(inp.workload, inp.resolved):
        claim: Object = {"name": asked.name, "persistentVolumeClaim": {"claimName": asked.claim}}
        wanted.append((claim, {"name": asked.name, "mountPath": asked.mount_path}, asked.path))
    wanted += _secrets(inp.workload.spec.secret_volumes or (), [mount["mountPath"] for _, mount, _ in wanted])
    check_mounts([(mount["mountPath"], field) for _, mount, field in wanted])
    if not wanted and not shm:
        return
    existing = as_maps(pod.get("volumes"), f"{path}.volumes")
    own = list(existing)
    names = {item.get("name") for item in existing if isinstance(item.get("name"), str)}
    if shm:
        own.append({"name": SHARED_MEMORY, "emptyDir": {"medium": "Memory", "sizeLimit": shm}})
        origins.note(f"{path}.volumes[{len(own) - 1}]", "default", f"shared memory of {shm}")
        names.add(SHARED_MEMORY)
        first = pod["containers"][0]
        first["volumeMounts"] = [
            *as_maps(first.get("volumeMounts"), f"{path}.containers[0].volumeMounts"),
            {"name": SHARED_MEMORY, "mountPath": "/dev/shm"},  # noqa: S108 (a path in the container)
        ]
    for volume, _, field in wanted:
        if volume["name"] in names:
            raise SpecError(
                field, f"needs a volume named {volume['name']!r}, a name that another volume has; rename it"
            )
        names.add(volume["name"])
        origins.note(f"{path}.volumes[{len(own)}]", "user", field)
        own.append(volume)
    pod["volumes"] = own
    mounts = [mount for _, mount, _ in wanted]
    for group in ("containers", "initContainers"):
        for position, container in enumerate(pod.get(group) or ()):
            _mount(container, mounts, f"{path}.{group}[{position}]")


def _mount(container: Object, mounts: Sequence[Object], path: str) -> None:
    if mounts:
        own = as_maps(container.get("volumeMounts"), f"{path}.volumeMounts")
        container["volumeMounts"] = [*own, *(dict(mount) for mount in mounts)]


def _secrets(items: Sequence[SecretVolume], others: Sequence[str]) -> list[tuple[Object, Object, str]]:
    """Volume, mount and field of each secret.

    Args:
        items: the secret volumes.
        others: paths at which something else is mounted.
    """
    paths = [path.rstrip("/") for path in (*(item.mount_path for item in items), *others)]
    uses = Counter(paths)
    wanted = []
    for position, item in enumerate(items):
        source: Object = {"secretName": item.secret_name}
        mount: Object = {"name": item.name, "mountPath": item.mount_path, "readOnly": True}
        if item.key:
            file = item.sub_path or item.key
            source["items"] = [{"key": item.key, "path": file}]
            if uses[paths[position]] > 1:
                # What shares a directory brings its file alone.
                mount |= {"mountPath": f"{paths[position]}/{file}", "subPath": file}
        elif item.sub_path:
            mount["subPath"] = item.sub_path
        wanted.append(({"name": item.name, "secret": source}, mount, f"spec.secretVolumes[{position}]"))
    return wanted
