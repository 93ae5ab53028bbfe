"""Kubernetes objects: their API paths, reading them from manifests, and creating them in parallel."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import yaml

from kaiwo_sandbox.api import CONFLICT, ApiClient, Object, SandboxApiError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

_THREADS = 8
"""Creating 83 objects takes 2 s with eight threads and 6 s with one."""

_COLLECTIONS = {
    "ConfigMap": "/api/v1/namespaces/{namespace}/configmaps",
    "Secret": "/api/v1/namespaces/{namespace}/secrets",
    "Namespace": "/api/v1/namespaces",
    "Service": "/api/v1/namespaces/{namespace}/services",
    "EndpointSlice": "/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices",
    "Node": "/api/v1/nodes",
    "StorageClass": "/apis/storage.k8s.io/v1/storageclasses",
    "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "MutatingWebhookConfiguration": ("/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"),
    "ValidatingWebhookConfiguration": (
        "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    ),
}

STORAGE_CLASS: Object = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {
        "name": "sandbox-hostpath",
        "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
    },
    "provisioner": "kubernetes.io/host-path",
    "reclaimPolicy": "Delete",
    "volumeBindingMode": "Immediate",
}
"""The default storage class: host-path volumes of the controller-manager, with any access mode."""


def namespace(name: str) -> Object:
    """Build a Namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def collection(item: Object) -> str:
    """The API path of the object's collection, where objects of its kind are created."""
    return _COLLECTIONS[item["kind"]].format(namespace=item["metadata"].get("namespace", ""))


def path_of(item: Object) -> str:
    """The API path of the object."""
    return f"{collection(item)}/{item['metadata']['name']}"


def read_kinds(directory: Path, *kinds: str) -> list[Object]:
    """Read the objects of these kinds from the YAML files of a directory, in the order of the file names.

    Files without any of the kinds are not parsed, because parsing a CRD with a pod template takes a second.
    """
    markers = [f"kind: {kind}".encode() for kind in kinds]
    found: list[Object] = []
    for file in sorted([*directory.glob("*.yaml"), *directory.glob("*.yml")]):
        text = file.read_bytes()
        if any(marker in text for marker in markers):
            found.extend(item for item in parse(text) if item["kind"] in kinds)
    return found


def parse(text: bytes) -> list[Object]:
    """Parse YAML documents; empty ones are left out."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return [document for document in yaml.load_all(text, Loader=loader) if document]


def create_all(api: ApiClient, items: Sequence[Object]) -> None:
    """Create the objects in parallel; existing objects are not changed.

    Raises:
        SandboxApiError: the API server rejected an object.
    """

    def create(item: Object) -> None:
        try:
            api.create(collection(item), item)
        except SandboxApiError as error:
            if error.status != CONFLICT:
                raise

    _in_parallel(api, create, items)


def apply_all(api: ApiClient, items: Sequence[Object]) -> None:
    """Server-side apply the objects in parallel.

    Raises:
        SandboxApiError: the API server rejected an object.
    """
    _in_parallel(api, lambda item: api.apply(path_of(item), item), items)


def _in_parallel(api: ApiClient, action: Callable[[Object], object], items: Sequence[Object]) -> None:
    if items:
        with ThreadPoolExecutor(min(_THREADS, len(items))) as pool:
            list(pool.map(action, items))
        api.close()
