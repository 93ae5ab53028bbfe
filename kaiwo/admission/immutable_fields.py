"""Changes of a spec that the operator would not apply to the running child, found without the child."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.api.conditions import find_condition
from kaiwo.api.errors import InvalidWorkload
from kaiwo.api.workload import Workload
from kaiwo.engine.quantity import quantity
from kaiwo.workload.applied_record import changed, fingerprint
from kaiwo.workload.json_access import lenient_map
from kaiwo.workload.plans.diff import immutable, immutable_message

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kaiwo.engine.resource import Object
    from kaiwo.workload.model import PlanContext

_SIZES = ("storage.data.storageSize", "storage.huggingFace.storageSize")


def immutable_change(case: PlanContext, new: Object, old: Object) -> str:
    """Why a change would not be applied; empty when it would, or when only the operator can tell.

    The operator compares the spec with the record on the child. While the child has all of the old spec,
    that is the same as comparing the specs.

    Args:
        case: the workload as it would be, with its status.
        new: the same, as it would be stored.
        old: the workload as it is.
    """
    workload = case.workload
    if not workload.status.child_uid:
        return ""
    written, stored = lenient_map(new.get("spec")), lenient_map(old.get("spec"))
    names = [name for name in written.keys() | stored.keys() if written.get(name) != stored.get(name)]
    if not case.switched and not immutable(names, case.backend):
        return ""
    applied = find_condition(workload.status.conditions, "SpecApplied")
    if applied is not None and applied.get("status") == "False":
        return ""  # the child has an earlier spec, and this change may restore it
    try:
        before = Workload.from_object(old)
    except InvalidWorkload:
        return ""
    changes = changed(fingerprint(before, by_meaning=True), fingerprint(workload, by_meaning=True))
    if case.switched:
        fields = [name for name in changes if name == "ray"] or [case.switched]
    else:
        fields = immutable(changes, case.backend, [*_allowed(case, before, changes)])
    return immutable_message(fields, case.backend.child.kind) if fields else ""


def _allowed(case: PlanContext, before: Workload, changes: Iterable[str]) -> Iterator[str]:
    """Fields that may change at this moment although the backend does not list them."""
    for path in _SIZES:
        if path in changes and _grows(_size(before, path), _size(case.workload, path)):
            yield path
    admitted = find_condition(case.workload.status.conditions, "Admitted") or {}
    if case.registry.queue is None or admitted.get("status") != "True":
        yield "clusterQueue"
        yield "priorityClass"


def _size(workload: Workload, path: str) -> str:
    storage = workload.spec.storage
    section = (storage.data if path == _SIZES[0] else storage.hugging_face) if storage else None
    return (section.storage_size or "") if section else ""


def _grows(one: str, other: str) -> bool:
    before, after = quantity(one), quantity(other)
    return before is not None and after is not None and before.nano <= after.nano
