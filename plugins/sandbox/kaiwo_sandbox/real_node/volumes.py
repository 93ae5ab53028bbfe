"""Dynamic volumes of the real node: ``python -m kaiwo_sandbox.real_node.volumes URL PKI DIRECTORY``.

The program runs in the node's namespaces and provisions the claims of two storage classes. A volume is a
directory that every user may write to, because the kubelet does not apply fsGroup to host paths. A volume of
the class `sandbox-sized` is a tmpfs of the requested size, so that it can be full.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from kaiwo.plugin.kit.values import NANO, parse_quantity
from kaiwo_sandbox.api import CONFLICT, NOT_FOUND, ApiClient, SandboxApiError
from kaiwo_sandbox.objects import STORAGE_CLASS
from kaiwo_sandbox.real_node.requirements import path_of

if TYPE_CHECKING:
    from kaiwo_sandbox.api import Object

PROVISIONER = "kaiwo-sandbox/real-node"
SIZED = "sandbox-sized"
"""The storage class of volumes with a real limit."""

_CLAIMS = "/api/v1/persistentvolumeclaims"
_VOLUMES = "/api/v1/persistentvolumes"
_POLL_SECONDS = 0.3


def storage_classes() -> list[Object]:
    """The default class of the sandbox with this provisioner, and the class of sized volumes."""
    default = {**STORAGE_CLASS, "provisioner": PROVISIONER}
    sized = {**default, "metadata": {"name": SIZED}}
    return [default, sized]


def wanted(claim: Object) -> bool:
    """Whether a claim waits for a volume of this provisioner."""
    spec, status = claim["spec"], claim.get("status", {})
    names = {each["metadata"]["name"] for each in storage_classes()}
    return (
        spec.get("storageClassName") in names
        and status.get("phase") == "Pending"
        and not spec.get("volumeName")
        and not claim["metadata"].get("deletionTimestamp")
    )


def volume(claim: Object, path: str) -> Object:
    """The volume at `path` for a claim."""
    metadata, spec = claim["metadata"], claim["spec"]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {
            "name": f"pvc-{metadata['uid']}",
            "annotations": {"pv.kubernetes.io/provisioned-by": PROVISIONER},
        },
        "spec": {
            "accessModes": spec["accessModes"],
            "capacity": {"storage": spec["resources"]["requests"]["storage"]},
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "name": metadata["name"],
                "namespace": metadata["namespace"],
                "uid": metadata["uid"],
            },
            "hostPath": {"path": path, "type": "Directory"},
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": spec["storageClassName"],
        },
    }


def released(item: Object) -> bool:
    """Whether a volume of this provisioner has lost its claim."""
    made_by = item["metadata"].get("annotations", {}).get("pv.kubernetes.io/provisioned-by")
    is_released: bool = item.get("status", {}).get("phase") == "Released"
    return made_by == PROVISIONER and is_released


def _make(claim: Object, directory: Path) -> Path:
    path = directory / f"pvc-{claim['metadata']['uid']}"
    if not path.is_dir():
        path.mkdir(parents=True)
        if claim["spec"]["storageClassName"] == SIZED:
            size = parse_quantity(claim["spec"]["resources"]["requests"]["storage"]).nano // NANO
            options = f"size={size},mode=777"
            subprocess.run([path_of("mount"), "-t", "tmpfs", "-o", options, SIZED, str(path)], check=True)
        path.chmod(0o777)
    return path


def _delete(path: Path) -> None:
    if path.is_mount():
        subprocess.run([path_of("umount"), "--lazy", str(path)], check=True)
    shutil.rmtree(path, ignore_errors=True)


def _step(api: ApiClient, directory: Path) -> None:
    for claim in api.get(_CLAIMS)["items"]:
        if wanted(claim):
            try:
                api.create(_VOLUMES, volume(claim, str(_make(claim, directory))))
            except SandboxApiError as error:
                if error.status != CONFLICT:
                    raise
    for item in api.get(_VOLUMES)["items"]:
        if released(item):
            _delete(Path(item["spec"]["hostPath"]["path"]))
            try:
                api.request("DELETE", f"{_VOLUMES}/{item['metadata']['name']}")
            except SandboxApiError as error:
                if error.status != NOT_FOUND:
                    raise


def main(url: str, pki: Path, directory: Path) -> None:
    """Provision claims and delete released volumes until the process ends."""
    api = ApiClient(url, pki)
    while True:
        try:
            _step(api, directory)
        except (OSError, SandboxApiError) as error:
            sys.stderr.write(f"{error}\n")
        time.sleep(_POLL_SECONDS)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
