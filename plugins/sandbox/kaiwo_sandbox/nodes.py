"""Fake nodes: builders, presets, and nodes from a file.

The presets have the capacity of common machines, eight MI300X (192 GB each) and eight H100 (80 GB each), and
the labels of AMD's node labeller and NVIDIA's feature discovery.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from kaiwo_sandbox.control_plane import FAKE_NODE
from kaiwo_sandbox.errors import SandboxError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kaiwo_sandbox.api import Object

DEFAULT_PRESET = "amd-nvidia"


def node(
    name: str,
    *,
    cpu: int = 32,
    memory: str = "128Gi",
    extended: Mapping[str, int] | None = None,
    labels: Mapping[str, str] | None = None,
) -> Object:
    """Build a fake node; `extended` has counts of extended resources such as ``amd.com/gpu``."""
    capacity = {
        "cpu": str(cpu),
        "memory": memory,
        "ephemeral-storage": "2Ti",
        "pods": "250",
        **{key: str(count) for key, count in (extended or {}).items()},
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {FAKE_NODE[0]: FAKE_NODE[1]},
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                **(labels or {}),
            },
        },
        "status": {"capacity": capacity, "allocatable": dict(capacity)},
    }


def amd_node(name: str, *, gpus: int = 8) -> Object:
    """Build a node with `gpus` AMD Instinct MI300X, 96 cores and 1 TiB."""
    return node(
        name,
        cpu=96,
        memory="1Ti",
        extended={"amd.com/gpu": gpus},
        labels={
            "amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM",
            "amd.com/gpu.device-id": "74a1",
            "amd.com/gpu.family": "AI",
            "amd.com/gpu.vram": "192G",
            "beta.amd.com/gpu.family.AI": str(gpus),
        },
    )


def nvidia_node(name: str, *, gpus: int = 8) -> Object:
    """Build a node with `gpus` NVIDIA H100, 96 cores and 1 TiB."""
    return node(
        name,
        cpu=96,
        memory="1Ti",
        extended={"nvidia.com/gpu": gpus},
        labels={
            "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
            "nvidia.com/gpu.count": str(gpus),
            "nvidia.com/gpu.memory": "81559",
            "nvidia.com/gpu.present": "true",
        },
    )


def cpu_node(name: str) -> Object:
    """Build a node without GPUs, with 32 cores and 128 GiB."""
    return node(name)


def _small() -> list[Object]:
    return [amd_node("amd-1"), cpu_node("cpu-1")]


def _amd_nvidia() -> list[Object]:
    return [amd_node("amd-1"), amd_node("amd-2"), nvidia_node("nvidia-1"), cpu_node("cpu-1")]


def _bench() -> list[Object]:
    """Nodes for 5,000 pods with a GPU each, so that benchmarks never wait for capacity."""
    capacity = {"pods": "2000", "amd.com/gpu": "2000", "cpu": "4000", "memory": "16Ti"}
    nodes = [amd_node(f"amd-{number}") for number in range(1, 5)]
    for each in nodes:
        for part in ("capacity", "allocatable"):
            each["status"][part].update(capacity)
        each["metadata"]["labels"]["beta.amd.com/gpu.family.AI"] = capacity["amd.com/gpu"]
    return nodes


PRESETS: dict[str, Callable[[], list[Object]]] = {
    "none": list,
    "small": _small,
    "amd-nvidia": _amd_nvidia,
    "bench": _bench,
}
"""The presets of `--nodes` by name."""


def load(source: str) -> list[Object]:
    """Load the nodes of a preset or of a YAML file.

    Raises:
        SandboxError: `source` is neither a preset nor a readable file of Node objects.
    """
    if source in PRESETS:
        return PRESETS[source]()
    path = Path(source)
    try:
        documents = list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError) as error:
        raise SandboxError(
            f"--nodes {source}: expected a preset ({', '.join(PRESETS)}) or a readable YAML file",
            detail=str(error),
            hint="use a preset, or write a file with kubectl get nodes -o yaml",
        ) from error
    except yaml.YAMLError as error:
        raise SandboxError(
            f"{path}: invalid YAML",
            detail=str(error),
            hint="write the file with kubectl get nodes -o yaml",
        ) from error
    found: list[Object] = []
    for number, document in enumerate(documents, start=1):
        if document is not None:
            items = document["items"] if _is_list(document) else [document]
            found.extend(_to_fake_node(item, f"{path}, document {number}") for item in items)
    return found


def _is_list(document: Any) -> bool:
    return (
        isinstance(document, dict)
        and str(document.get("kind", "")).endswith("List")
        and isinstance(document.get("items"), list)
    )


def _to_fake_node(document: Any, where: str) -> Object:
    """Copy a Node for kwok: with its annotation, and allocatable equal to capacity unless specified."""
    is_node = (
        isinstance(document, dict)
        and document.get("kind") == "Node"
        and isinstance(document.get("metadata"), dict)
    )
    if not is_node or not isinstance(document["metadata"].get("name"), str):
        raise SandboxError(
            f"{where}: expected a Node (apiVersion v1) with metadata.name",
            hint="write the file with kubectl get nodes -o yaml",
        )
    fake: Object = copy.deepcopy(document)
    fake["apiVersion"] = "v1"
    kept = ("name", "labels", "annotations")
    fake["metadata"] = {key: fake["metadata"][key] for key in kept if fake["metadata"].get(key)}
    fake["metadata"].setdefault("annotations", {})[FAKE_NODE[0]] = FAKE_NODE[1]
    status = fake.get("status") or {}
    capacity = status.get("capacity") or {}
    fake["status"] = {"capacity": capacity, "allocatable": status.get("allocatable") or dict(capacity)}
    return fake
