"""Metadata of created objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.workload.labels import (
    copied,
    embedded,
    layered,
    owner_reference,
    system_labels,
    version_label,
)
from kaiwo.workload.shapes import as_map, as_strings

if TYPE_CHECKING:
    from kaiwo.engine.resource import Object
    from kaiwo.plugin.backends import RenderInput
    from kaiwo.workload.origins import Origins


def child_metadata(inp: RenderInput, block: Object, path: str, origins: Origins) -> Object:
    """Metadata of the object that runs a workload, named like it and owned by it.

    Labels: the queue's, then Kaiwo's own, then those of the embedded object, then the workload's.

    Args:
        inp: the render input.
        block: the embedded object; only its labels and annotations are used.
        path: where the user writes it (``spec.job``).
        origins: where to note what came from where.

    Raises:
        SpecError: the embedded metadata have an impossible shape.
    """
    workload = inp.workload
    own = as_map(block.get("metadata"), f"{path}.metadata")
    metadata: Object = {"name": workload.name}
    if workload.namespace:
        metadata["namespace"] = workload.namespace
    where = f"{path}.metadata"
    queue = inp.queue.labels if inp.queue else {}
    metadata["labels"] = layered(
        f"{where}.labels",
        origins,
        (copied(workload.labels), "user", "metadata.labels"),
        (embedded(as_strings(own.get("labels"), f"{where}.labels")), "user", f"{where}.labels"),
        (version_label(workload), "user", "spec.version"),
        (system_labels(workload), "system", "by which Kaiwo finds what belongs to the workload"),
        (queue, "queue", f"queue {inp.queue.queue}" if inp.queue else ""),
    )
    annotations = layered(
        f"{where}.annotations",
        origins,
        (copied(workload.annotations), "user", "metadata.annotations"),
        (
            embedded(as_strings(own.get("annotations"), f"{where}.annotations")),
            "user",
            f"{where}.annotations",
        ),
    )
    if annotations:
        metadata["annotations"] = annotations
    if owner := owner_reference(workload):
        metadata["ownerReferences"] = owner
    return metadata
