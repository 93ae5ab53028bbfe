"""What the entries of ``gpuModels`` mean: models of nodes, and the resource key that pods request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.plugin.vendors import RequestedModel
from kaiwo.workload.errors import PluginError, SpecError
from kaiwo.workload.metadata import label_value

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from kaiwo.plugin.vendors import GpuVendor

FIELD = "spec.gpuModels"


def requested_models(entries: Iterable[str], vendor: GpuVendor | None) -> tuple[tuple[str, ...], str]:
    """The models that pods may run on, as nodes are labelled, and the resource key that they request.

    Args:
        entries: ``gpuModels`` as the user wrote it.
        vendor: the vendor of the workload's GPUs, None where it is not known.

    Returns:
        No models for any; no key for that of the vendor.

    Raises:
        SpecError: the entries ask for different resource keys, and a container requests one.
        PluginError: the vendor's plugin cannot tell.
    """
    found = [meaning(entry, vendor) for entry in entries if label_value(entry)]
    keys = list(dict.fromkeys(one.resource_key for one in found))
    if len(keys) > 1:
        usual = vendor.resource_keys[0] if vendor else ""
        names = ", ".join(key or usual for key in keys)
        raise SpecError(
            FIELD, f"the entries ask for different resources ({names}); name models of one resource"
        )
    models = dict.fromkeys(label_value(one.model) for one in found)
    # One entry that takes any model is satisfied by all of them.
    return () if "" in models else tuple(models), keys[0] if keys else ""


def named_models(entries: Iterable[str], vendors: Collection[GpuVendor]) -> frozenset[str]:
    """The models that entries name, whichever vendor's they are; empty where one takes any model.

    Raises:
        PluginError: a vendor's plugin cannot tell.
    """
    known = [entry for entry in entries if label_value(entry)]
    found = [meaning(entry, vendor).model for entry in known for vendor in vendors or (None,)]
    return frozenset() if "" in found else frozenset(map(label_value, found))


def meaning(entry: str, vendor: GpuVendor | None) -> RequestedModel:
    """What one entry of ``gpuModels`` asks for; without the vendor's word a model of the vendor's usual key.

    Raises:
        PluginError: the vendor's plugin cannot tell.
    """
    if vendor is None or vendor.requested is None:
        return RequestedModel(entry)
    step = f"say what the GPU model {entry} asks for in"
    try:
        found = vendor.requested(entry)
    except Exception as error:
        raise PluginError(vendor.name, step, error) from error
    if found is not None and not isinstance(found, RequestedModel):
        raise PluginError(vendor.name, step, f"it answered {str(found)[:200]}")
    return found or RequestedModel(entry)
