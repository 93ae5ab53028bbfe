"""Whose an object under a wanted name is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.plugin.facts import Refusal
from kaiwo.workload.labels import PREFIX
from kaiwo.workload.shapes import lenient_map, lenient_maps

if TYPE_CHECKING:
    from kaiwo.api.workload import Workload
    from kaiwo.engine.resource import Object


def controller_of(obj: Object) -> Object | None:
    """The owner reference of an object's controller, None without one."""
    references = lenient_maps(lenient_map(obj.get("metadata")).get("ownerReferences"))
    return next((item for item in references if item.get("controller")), None)


def is_ours(obj: Object, workload: Workload) -> bool:
    """Whether the workload controls the object."""
    owner = controller_of(obj)
    return owner is not None and bool(workload.uid) and owner.get("uid") == workload.uid


def conflict(obj: Object, kind: str, workload: Workload) -> Refusal:
    """Why an object of somebody else under a wanted name stops the workload.

    Args:
        obj: the object.
        kind: its kind, for the message.
        workload: the workload that needs the name.
    """
    metadata = lenient_map(obj.get("metadata"))
    name, owner = metadata.get("name"), controller_of(obj)
    if owner is None:
        whose = "is controlled by nobody"
    else:
        whose = f"belongs to {owner.get('kind')} {owner.get('name')}"
        same = owner.get("kind") == workload.kind and owner.get("name") == workload.name
        if same and str(owner.get("apiVersion", "")).startswith(PREFIX):
            return Refusal(
                "PreviousRunDeleting",
                f"{kind} {name} of the previous {workload.kind} {workload.name} is still being deleted; "
                "this one starts when it is gone",
                status="PENDING",
            )
    return Refusal(
        "NameConflict",
        f"{kind} {name} exists in namespace {workload.namespace} and {whose}; it is not touched: "
        "delete it or choose another name for the workload",
    )
