"""Objects as the API server would return them, with as little as a test needs to say."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaiwo.engine.resource import Object

UID = "11111111-2222-4333-8444-555555555555"
"""The uid of every built workload, so that what is rendered from it is always the same."""

CREATED = "2026-01-02T03:04:05Z"
"""Creation time of every built object."""

NOW = datetime(2026, 1, 2, 3, 4, 6, tzinfo=UTC)
"""The moment of every check and rendering: one second after the built objects were created."""


def job(
    name: str = "train",
    *,
    namespace: str = "default",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    **spec: Any,
) -> Object:
    """A KaiwoJob; other arguments are fields of ``spec`` in JSON names: ``job(gpus=2, gpuVendor="acme")``."""
    return _workload("KaiwoJob", _metadata(name, namespace, labels, annotations), spec)


def service(
    name: str = "chat",
    *,
    namespace: str = "default",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    **spec: Any,
) -> Object:
    """A KaiwoService; other arguments are fields of ``spec`` in JSON names."""
    return _workload("KaiwoService", _metadata(name, namespace, labels, annotations), spec)


def node(
    name: str = "node-1",
    *,
    gpus: Mapping[str, int] | None = None,
    labels: Mapping[str, str] | None = None,
    cpu: int = 96,
    memory: str = "1024Gi",
    ready: bool = True,
    cordoned: bool = False,
) -> Object:
    """A Node.

    Args:
        name: its name.
        gpus: extended resources, as capacity and allocatable: ``{"acme.com/gpu": 8}``.
        labels: labels beside the usual ones.
        cpu: cores.
        memory: memory as a quantity.
        ready: condition Ready.
        cordoned: whether it is marked unschedulable.
    """
    capacity = {"cpu": str(cpu), "memory": memory, "pods": "250"}
    capacity |= {key: str(count) for key, count in (gpus or {}).items()}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "uid": f"uid-of-{name}",
            "creationTimestamp": CREATED,
            "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", **(labels or {})},
        },
        "spec": {"unschedulable": True} if cordoned else {},
        "status": {
            "capacity": capacity,
            "allocatable": dict(capacity),
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
        },
    }


def config(**spec: Any) -> Object:
    """The KaiwoConfig; arguments are sections of ``spec`` in JSON names: ``config(nodes={...})``."""
    return {
        "apiVersion": "config.kaiwo.silogen.ai/v1alpha1",
        "kind": "KaiwoConfig",
        "metadata": {"name": "kaiwo", "generation": 1, "creationTimestamp": CREATED},
        "spec": spec,
    }


def _metadata(
    name: str, namespace: str, labels: Mapping[str, str] | None, annotations: Mapping[str, str] | None
) -> Object:
    metadata: Object = {
        "name": name,
        "namespace": namespace,
        "uid": UID,
        "generation": 1,
        "creationTimestamp": CREATED,
    }
    if labels:
        metadata["labels"] = dict(labels)
    if annotations:
        metadata["annotations"] = dict(annotations)
    return metadata


def _workload(kind: str, metadata: Object, spec: Mapping[str, Any]) -> Object:
    return {
        "apiVersion": "kaiwo.silogen.ai/v1alpha1",
        "kind": kind,
        "metadata": metadata,
        "spec": dict(spec),
    }
