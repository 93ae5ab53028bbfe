"""The claims of a workload: rendered, created, and expanded where their class allows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kaiwo.engine.quantity import quantity
from kaiwo.engine.resource import PERSISTENT_VOLUME_CLAIM
from kaiwo.plugin.facts import Blocked
from kaiwo.plugin.rendering import Rendered
from kaiwo.workload.json_access import is_deleting, lenient_map
from kaiwo.workload.metadata import conflict, is_ours, owned
from kaiwo.workload.model import Apply
from kaiwo.workload.pods.origins import Origins
from kaiwo.workload.storage.volumes import enabled, volumes

if TYPE_CHECKING:
    from kaiwo.api.workload import Workload
    from kaiwo.engine.resource import Object
    from kaiwo.plugin.rendering import Resolved
    from kaiwo.workload.model import Facts, PlanContext, Write


@dataclass(frozen=True, slots=True)
class ClaimWrites:
    """The claims of a workload without a child.

    Attributes:
        rendered: the claims as they are wanted.
        writes: claims to create or to expand.
        blocked: why the workload cannot run with what is there.
        deleting: that claims are being deleted, and what follows; empty where none is.
        warnings: what of the spec is not used.
    """

    rendered: tuple[Rendered, ...] = ()
    writes: tuple[Write, ...] = ()
    blocked: Blocked | None = None
    warnings: tuple[str, ...] = ()
    deleting: str = ""


def reconcile_claims(case: PlanContext, resolved: Resolved) -> ClaimWrites:
    """The claims of a workload without a child, and what to write, or why not; others' are never touched."""
    if case.workload.spec.storage is None:
        return ClaimWrites()
    rendered = claims(case.workload, resolved)
    writes: list[Write] = []
    warnings: list[str] = []
    deleting: list[str] = []
    for claim in rendered:
        name = claim.child["metadata"]["name"]
        live = case.facts.auxiliaries.get((PERSISTENT_VOLUME_CLAIM, name))
        if live is None:
            writes.append(Apply(PERSISTENT_VOLUME_CLAIM, claim.child))
            continue
        if not is_ours(live, case.workload, case.facts.made):
            return ClaimWrites(blocked=conflict(live, "PersistentVolumeClaim", case.workload))
        if is_deleting(live):
            deleting.append(name)
            continue
        if problem := _fixed(case.workload, live):
            return ClaimWrites(blocked=Blocked("VolumeImmutable", problem, condition="StorageReady"))
        wanted, have = quantity(size(claim.child)), quantity(size(live))
        if wanted is None or have is None or wanted == have:
            continue
        if wanted < have:
            warnings.append(
                f"PersistentVolumeClaim {name} has {size(live)} already, more than the {size(claim.child)} "
                "asked for: a volume cannot shrink"
            )
        elif problem := not_expandable(live, case.facts):
            return ClaimWrites(blocked=Blocked("VolumeNotExpandable", problem, condition="StorageReady"))
        else:
            writes.append(Apply(PERSISTENT_VOLUME_CLAIM, claim.child))
    names = ", ".join(deleting)
    gone = f"PersistentVolumeClaim {names} is being deleted; it is created again when it is gone"
    return ClaimWrites(rendered, tuple(writes), None, tuple(warnings), gone if deleting else "")


def not_expandable(live: Object, facts: Facts) -> str:
    """Why a live claim cannot be expanded; empty when it can, or when its class is unknown."""
    name = lenient_map(live.get("spec")).get("storageClassName")
    classes = facts.storage_classes
    known = classes.get(name) if classes is not None and isinstance(name, str) else None
    if known is None or known.expands:
        return ""
    claim = lenient_map(live.get("metadata")).get("name")
    return (
        f"PersistentVolumeClaim {claim} cannot grow: StorageClass {name} has no allowVolumeExpansion; "
        "set the old storageSize again, have an administrator allow expansion, or submit the workload again "
        "under another name"
    )


def _fixed(workload: Workload, live: Object) -> str:
    """What of a live claim differs from the spec and cannot be changed; empty when nothing does."""
    storage = enabled(workload)
    spec = lenient_map(live.get("spec"))
    claim = lenient_map(live.get("metadata")).get("name")
    again = "restore the old value, or delete the workload and submit it again"
    if storage is None:
        return ""
    if storage.storage_class_name and spec.get("storageClassName") != storage.storage_class_name:
        return (
            f"spec.storage.storageClassName is immutable; PersistentVolumeClaim {claim} was created "
            f"with class {spec.get('storageClassName')!r}: {again}"
        )
    modes = spec.get("accessModes")
    if isinstance(modes, list) and storage.access_mode not in modes:
        return (
            f"spec.storage.accessMode is immutable; PersistentVolumeClaim {claim} was created with "
            f"{', '.join(map(str, modes))}: {again}"
        )
    return ""


def size(claim: Object) -> object:
    """What a claim requests, as it is written."""
    resources = lenient_map(lenient_map(claim.get("spec")).get("resources"))
    return lenient_map(resources.get("requests")).get("storage")


def claims(workload: Workload, resolved: Resolved) -> tuple[Rendered, ...]:
    """The PersistentVolumeClaims of a workload, owned by it."""
    storage = enabled(workload)
    if storage is None:
        return ()
    storage_class = storage.storage_class_name or resolved.storage_class
    rendered = []
    for volume in volumes(workload, resolved):
        origins = Origins()
        metadata = owned({"name": volume.claim}, workload)
        spec: Object = {
            "accessModes": [storage.access_mode],
            "resources": {"requests": {"storage": volume.size}},
        }
        origins.note("spec.accessModes", "user", "spec.storage.accessMode")
        origins.note("spec.resources.requests.storage", "user", f"{volume.path}.storageSize")
        if storage_class:
            spec["storageClassName"] = storage_class
            if storage.storage_class_name:
                origins.note("spec.storageClassName", "user", "spec.storage.storageClassName")
            else:
                origins.note("spec.storageClassName", "config", "KaiwoConfig storage.defaultStorageClass")
        claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}
        rendered.append(Rendered(claim, origins=origins.known()))
    return tuple(rendered)
