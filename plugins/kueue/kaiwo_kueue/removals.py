"""What the plugin made and wrote, for an uninstallation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.plugin.kit.api_errors import NotFound
from kaiwo.plugin.kit.json_access import lenient_map, lenient_maps
from kaiwo.plugin.kit.kinds import NAMESPACE
from kaiwo.plugin.removals import Removal
from kaiwo_kueue.kinds import (
    APPLIED,
    CONFIG_UID_LABEL,
    FIELD_MANAGER,
    MANAGED_LABEL,
    NAMESPACE_LABEL,
    QUEUE_CONFIG,
    SYNCED,
    TOUCHED,
)

if TYPE_CHECKING:
    from kaiwo.plugin.kit.controllers import Client
    from kaiwo.plugin.kit.kinds import Object, Resource


async def removals(client: Client) -> list[Removal]:
    """Kueue's objects that a KaiwoQueueConfig brought, users before what they use; labels of namespaces.

    Objects that existed before a KaiwoQueueConfig listed them stay, without Kaiwo's marks.
    """
    found: list[Removal] = []
    for kind in reversed(SYNCED):
        try:
            found += [item async for obj in client.list(kind) for item in of_queue_object(kind, obj)]
        except NotFound:
            continue  # this Kueue lacks the kind, or there is no Kueue
    found += [item async for obj in client.list(NAMESPACE) for item in of_namespace(obj)]
    return found


def of_queue_object(kind: Resource, obj: Object) -> list[Removal]:
    """What is removed of one of Kueue's objects: all of it, Kaiwo's marks, or nothing."""
    metadata = obj["metadata"]
    owners = lenient_maps(metadata.get("ownerReferences"))
    # Earlier versions made the KaiwoQueueConfig the owner.
    referenced = any(owner.get("kind") == QUEUE_CONFIG.kind and owner.get("controller") for owner in owners)
    if referenced or CONFIG_UID_LABEL in lenient_map(metadata.get("labels")):
        return [Removal.of(kind, obj)]
    labels = [MANAGED_LABEL] if MANAGED_LABEL in lenient_map(metadata.get("labels")) else []
    annotations = [key for key in (APPLIED, TOUCHED) if key in lenient_map(metadata.get("annotations"))]
    if not labels and not annotations:
        return []
    patch = {
        "metadata": {"labels": dict.fromkeys(labels), "annotations": dict.fromkeys(annotations)},
    }
    return [Removal.change(kind, obj, ", ".join([*labels, *annotations]), patch)]


def of_namespace(obj: Object) -> list[Removal]:
    """The change that removes the label for Kueue, where the operator set it and nobody else did."""
    if NAMESPACE_LABEL not in lenient_map(obj["metadata"].get("labels")) or not _only_ours(obj):
        return []
    return [
        Removal.change(NAMESPACE, obj, NAMESPACE_LABEL, {"metadata": {"labels": {NAMESPACE_LABEL: None}}})
    ]


def _only_ours(obj: Object) -> bool:
    """Whether the operator is the only field manager of the label for Kueue."""
    managers = {
        str(entry.get("manager"))
        for entry in lenient_maps(obj["metadata"].get("managedFields"))
        if f"f:{NAMESPACE_LABEL}"
        in lenient_map(lenient_map(lenient_map(entry.get("fieldsV1")).get("f:metadata")).get("f:labels"))
    }
    return managers == {FIELD_MANAGER}
