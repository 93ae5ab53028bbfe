"""What the host relies on in a GPU vendor."""

from __future__ import annotations

import copy
import re
from typing import TYPE_CHECKING, Any

from kaiwo.plugin.vendors import GpuVendor, NodeGpus
from kaiwo.testing.assertions import require
from kaiwo.testing.builders import node
from kaiwo.workload.gpus.resource_keys import is_gpu

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaiwo.engine.resource import Object

LABEL_VALUE = re.compile(r"[a-z0-9]([a-z0-9_.-]{0,61}[a-z0-9])?")
"""A model becomes the value of a node label and a part of a pool's name, so it is lower-case and short."""


def assert_vendor_contract(vendor: GpuVendor, nodes: Sequence[Object]) -> None:
    """Check a vendor against Nodes that have its GPUs.

    Recognising is pure and total: it leaves the Node as it is, answers the same twice, finds nothing on
    foreign Nodes and survives Nodes that make no sense. Allocatable decides where it is given, also when it
    is 0.

    Args:
        vendor: the vendor.
        nodes: at least one Node with GPUs of this vendor whose resource keys are in ``status.allocatable``.

    Raises:
        AssertionError: what does not hold, with the Node's name.
    """
    require(vendor.name == vendor.name.lower(), f"{vendor.name}: users' spelling is compared in lower case")
    require(nodes, "give at least one Node with GPUs of this vendor")
    for example in nodes:
        _check_example(vendor, example)
    require(_recognised(vendor, node("cpu-only")) == (), f"{vendor.name} finds GPUs on a Node without any")
    foreign = node("foreign", gpus={"other-vendor.example/gpu": 8})
    require(_recognised(vendor, foreign) == (), f"{vendor.name} finds GPUs of another vendor")
    for odd in _odd_nodes(vendor, nodes[0]):
        _recognised(vendor, odd)


def _check_example(vendor: GpuVendor, example: Object) -> None:
    name = example["metadata"]["name"]
    found = _recognised(vendor, example)
    require(found, f"{vendor.name} finds no GPU on {name}")
    for gpus in found:
        require(gpus.count > 0, f"{name}: a Node with GPUs has {gpus.count}")
        require(
            is_gpu(gpus.resource_key, vendor.resource_keys), f"{name}: {gpus.resource_key} is not declared"
        )
        require(
            LABEL_VALUE.fullmatch(gpus.model), f"{name}: model {gpus.model!r} is no lower-case label value"
        )
    drained = copy.deepcopy(example)
    for key in drained["status"]["allocatable"]:
        if is_gpu(key, vendor.resource_keys):
            drained["status"]["allocatable"][key] = "0"
    left = sum(gpus.count for gpus in _recognised(vendor, drained))
    require(left == 0, f"{name}: allocatable 0 means no usable GPU, found {left}")


def _recognised(vendor: GpuVendor, example: Object) -> tuple[NodeGpus, ...]:
    before = copy.deepcopy(example)
    try:
        found = vendor.gpus_of(example)
    except Exception as error:
        raise AssertionError(f"{vendor.name}: recognise raised {error!r} for the Node {before}") from error
    require(
        isinstance(found, tuple), f"{vendor.name}: recognise returned {type(found).__name__}, not a tuple"
    )
    require(
        all(isinstance(gpus, NodeGpus) for gpus in found),
        f"{vendor.name}: recognise returned not only NodeGpus",
    )
    require(
        all(type(gpus.count) is int and gpus.count >= 0 for gpus in found),
        f"{vendor.name}: a count is no number",
    )
    require(example == before, f"{vendor.name}: recognise changed the Node")
    require(
        vendor.gpus_of(example) == found, f"{vendor.name}: recognise answered differently the second time"
    )
    return found


def _odd_nodes(vendor: GpuVendor, example: Object) -> list[Object]:
    """Nodes with odd values."""
    odd: list[Object] = [
        {},
        {"metadata": {}},
        {"metadata": {"labels": None}, "status": {"allocatable": None}},
    ]
    values: list[Any] = ["", "many", "-1", "1.5", None, 8, [], {}]
    for value in values:
        changed = copy.deepcopy(example)
        for part in ("allocatable", "capacity"):
            changed["status"][part] = dict.fromkeys(vendor.resource_keys, value)
        odd.append(changed)
        labelled = copy.deepcopy(example)
        labelled["metadata"]["labels"] = dict.fromkeys(labelled["metadata"].get("labels") or {}, value)
        odd.append(labelled)
    return odd
