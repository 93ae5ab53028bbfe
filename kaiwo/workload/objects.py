"""Metadata of created objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.workload.labels import copied, embedded, owner_reference, system_labels, version_label
from kaiwo.workload.shapes import as_map, as_strings

if TYPE_CHECKING:
    from kaiwo.engine.resource import Object
    from kaiwo.plugin.backends import RenderInput


def child_metadata(inp: RenderInput, block: Object, path: str) -> Object:
    """Metadata of the object that runs a workload, named like it and owned by it.

    Labels: the queue's, then Kaiwo's own, then those of the embedded object, then the workload's.

    Args:
        inp: the render input.
        block: the embedded object; only its labels and annotations are used.
        path: where the user writes it (``spec.job``).

    Raises:
        SpecError: the embedded metadata have an impossible shape.
    """
    workload = inp.workload
    own = as_map(block.get("metadata"), f"{path}.metadata")
    metadata: Object = {"name": workload.name}
    if workload.namespace:
        metadata["namespace"] = workload.namespace
    metadata["labels"] = {
        **copied(workload.labels),
        **embedded(as_strings(own.get("labels"), f"{path}.metadata.labels")),
        **version_label(workload),
        **system_labels(workload),
        **(inp.queue.labels if inp.queue else {}),
    }
    annotations = {
        **copied(workload.annotations),
        **embedded(as_strings(own.get("annotations"), f"{path}.metadata.annotations")),
    }
    if annotations:
        metadata["annotations"] = annotations
    if owner := owner_reference(workload):
        metadata["ownerReferences"] = owner
    return metadata
