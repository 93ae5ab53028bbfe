"""Intel Gaudi: the resource that its device plugin offers, and how a node's generation is recognised."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kaiwo.plugin import hookimpl
from kaiwo.plugin.kit.nodes import counts, labels_of
from kaiwo.plugin.vendors import GpuVendor, NodeGpus, Utilization

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaiwo.plugin.kit.kinds import Object

KAIWO_API = 1

RESOURCE = "habana.ai/gaudi"

GENERATIONS = {"1000": "gaudi", "1010": "gaudi", "1020": "gaudi2", "1060": "gaudi3"}
"""PCI device ids of vendor 1da3 (Habana Labs), as in Linux' habanalabs driver."""

UNKNOWN_GENERATION = "gaudi"

_PCI_LABEL = re.compile(r"feature\.node\.kubernetes\.io/pci-(?:[0-9a-f]{4}_)?1da3_([0-9a-f]{4})\.present")
"""The label that Node Feature Discovery writes when its PCI source is set to label vendor and device."""


def generation(labels: Iterable[str]) -> str:
    """The generation that a node's labels speak of."""
    devices = (match.group(1) for label in sorted(labels) if (match := _PCI_LABEL.fullmatch(label)))
    return next((GENERATIONS[device] for device in devices if device in GENERATIONS), UNKNOWN_GENERATION)


def recognise(node: Object) -> tuple[NodeGpus, ...]:
    """The Gaudis that pods may use on a node. Without the device plugin there are none."""
    usable = counts(node, [RESOURCE]).get(RESOURCE, 0)
    if not usable:
        return ()
    return (NodeGpus(model=generation(labels_of(node)), count=usable, resource_key=RESOURCE),)


@hookimpl
def kaiwo_gpu_vendors() -> list[GpuVendor]:
    """Users write ``gpuVendor: intel-gaudi``."""
    return [
        GpuVendor(
            name="intel-gaudi",
            resource_keys=(RESOURCE,),
            recognise=recognise,
            utilization=Utilization(metric="habanalabs_utilization"),
        )
    ]
