"""Fake nodes: builders, presets and reading them from a file.

Capacity and labels are those of common machines: eight MI300X (192 GB each) and eight H100 (80 GB each), with
the labels that AMD's node labeller and NVIDIA's feature discovery write.
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
    """A fake node with `cpu` cores, `memory`, and counts of `extended` resources such as ``amd.com/gpu``."""
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
    """A node with `gpus` AMD Instinct MI300X, 96 cores and 1 TiB."""
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
    """A node with `gpus` NVIDIA H100, 96 cores and 1 TiB."""
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
    """A node without GPUs, 32 cores and 128 GiB."""
    return node(name)


def _small() -> list[Object]:
    return [amd_node("amd-1"), cpu_node("cpu-1")]


def _amd_nvidia() -> list[Object]:
    return [amd_node("amd-1"), amd_node("amd-2"), nvidia_node("nvidia-1"), cpu_node("cpu-1")]


def _bench() -> list[Object]:
    """Room for 5,000 pods with a GPU each: the benchmark measures the operator, not a full cluster."""
    many = {"pods": "2000", "amd.com/gpu": "2000", "cpu": "4000", "memory": "16Ti"}
    nodes = [amd_node(f"amd-{number}") for number in range(1, 5)]
    for each in nodes:
        for part in ("capacity", "allocatable"):
            each["status"][part].update(many)
        each["metadata"]["labels"]["beta.amd.com/gpu.family.AI"] = many["amd.com/gpu"]
    return nodes


PRESETS: dict[str, Callable[[], list[Object]]] = {
    "none": list,
    "small": _small,
    "amd-nvidia": _amd_nvidia,
    "bench": _bench,
}
"""What `--nodes` accepts by name; `amd-nvidia`: two machines of AMD's, one of NVIDIA's, one without GPUs."""


def resolve(choice: str) -> list[Object]:
    """The nodes of a preset, or those in the YAML file that `choice` names.

    Raises:
        SandboxError: neither a preset nor a file of Node objects.
    """
    if choice in PRESETS:
        return PRESETS[choice]()
    path = Path(choice)
    try:
        documents = list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError) as error:
        raise SandboxError(
            f"--nodes {choice}: neither a preset nor a file that can be read.",
            why=str(error),
            next_step=f"Use one of {', '.join(PRESETS)}, or the path of a YAML file with Node objects.",
        ) from error
    except yaml.YAMLError as error:
        raise SandboxError(f"{path}: not YAML.", why=str(error)) from error
    found: list[Object] = []
    for number, document in enumerate(documents, start=1):
        if document is not None:
            items = document["items"] if _is_list(document) else [document]
            found.extend(_as_fake(item, f"{path}, document {number}") for item in items)
    return found


def _is_list(document: Any) -> bool:
    return (
        isinstance(document, dict)
        and str(document.get("kind", "")).endswith("List")
        and isinstance(document.get("items"), list)
    )


def _as_fake(given: Any, where: str) -> Object:
    """A copy of a Node for kwok to play: annotated, and allocatable equal to capacity unless given."""
    named = (
        isinstance(given, dict) and given.get("kind") == "Node" and isinstance(given.get("metadata"), dict)
    )
    if not named or not isinstance(given["metadata"].get("name"), str):
        raise SandboxError(
            f"{where}: not a Node with a metadata.name.",
            why="Only Node objects (apiVersion v1) can become fake nodes.",
            next_step="Write the file as 'kubectl get nodes -o yaml' prints it.",
        )
    node_: Object = copy.deepcopy(given)
    node_["apiVersion"] = "v1"
    kept = ("name", "labels", "annotations")
    node_["metadata"] = {key: node_["metadata"][key] for key in kept if node_["metadata"].get(key)}
    node_["metadata"].setdefault("annotations", {})[FAKE_NODE[0]] = FAKE_NODE[1]
    status = node_.get("status") or {}
    capacity = status.get("capacity") or {}
    node_["status"] = {"capacity": capacity, "allocatable": status.get("allocatable") or dict(capacity)}
    return node_
