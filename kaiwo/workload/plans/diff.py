"""Differences between a workload and its live child: what may change, and the smallest patch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kaiwo.workload.json_access import lenient_map, value_at
from kaiwo.workload.labels import MANAGER

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from kaiwo.engine.resource import Object
    from kaiwo.plugin.backends import Backend
    from kaiwo.workload.applied_record import AppliedRecord

ALLOCATION_FIELDS = frozenset({"gpus", "gpusPerReplica", "replicas", "gpuVendor", "gpuModels"})
"""A change of one of these allocates the GPUs again; any other keeps the allocation of the running child."""


_NEVER_AT_WILL = frozenset({"storage", "clusterQueue", "priorityClass"})
"""Fields that no backend can change on a live child by itself: volumes and the queue set the limits."""


def immutable(fields: Iterable[str], backend: Backend, allowed: Collection[str] = ()) -> list[str]:
    """Those of the changed fields that cannot change while a child exists.

    Args:
        fields: changed fields, dotted, below ``spec``.
        backend: the backend in charge.
        allowed: further fields that may change at this moment.
    """
    if "*" in backend.mutable:
        fields = [name for name in fields if name.split(".", 1)[0] in _NEVER_AT_WILL]
    may = (*backend.mutable, *allowed)
    return [name for name in fields if not any(name == path or name.startswith(f"{path}.") for path in may)]


def immutable_message(fields: Iterable[str], child: str) -> str:
    """The message about fields that cannot change."""
    found = list(fields)
    names = ", ".join(f"spec.{name}" for name in found)
    what = f"{names} is immutable" if len(found) == 1 else f"{names} are immutable"
    return (
        f"{what} while the {child} exists; the running {child} was not changed. Restore the old "
        f"{'value' if len(found) == 1 else 'values'}, or delete the workload and submit it again"
    )


def merge_patch(
    live: Object,
    desired: Object,
    record: AppliedRecord | None,
    backend: Backend,
    owners: Mapping[tuple[str, ...], str],
    *,
    left: Collection[tuple[str, ...]] = (),
) -> Object:
    """The merge patch of named keys that brings a live child to what is wanted; empty when it is there.

    Keys that we set earlier and no longer want are removed. Paths that another field manager owns are left.

    Args:
        live: the live child.
        desired: the child as it would be created now.
        record: what was recorded on the live child, None when nothing was.
        backend: the backend in charge.
        owners: paths to the field manager that owns them on the live child.
        left: further paths to leave.
    """
    patch: Object = {}
    metadata: Object = {}
    for name, known in (
        ("labels", record.labels if record else ()),
        ("annotations", record.annotations if record else ()),
    ):
        have = lenient_map(value_at(live, ("metadata", name)))
        want = lenient_map(value_at(desired, ("metadata", name)))
        edits: Object = {key: value for key, value in want.items() if have.get(key) != value}
        edits |= {key: None for key in known if key not in want and key in have}
        if edits:
            metadata[name] = edits
    if metadata:
        patch["metadata"] = metadata
    for path in (path for path in backend.patch_paths if path not in left):
        want = value_at(desired, path)
        if want == value_at(live, path) or owners.get(path, MANAGER) != MANAGER:
            continue
        if want is None and not _ours_before(record, path):
            continue
        _put(patch, path, want)
    return patch


def without_foreign(
    desired: Object, live: Object, backend: Backend, owners: Mapping[tuple[str, ...], str]
) -> tuple[Object, list[str]]:
    """What is applied to a live child: all that is wanted but the paths that another field manager owns.

    Args:
        desired: the rendered child.
        live: the live child.
        backend: the backend in charge.
        owners: paths to the field manager that owns them on the live child.

    Returns:
        The object to apply, and a warning for each value that is left although another one is wanted.
    """
    warnings: list[str] = []
    for path in backend.owned_paths:
        owner, wanted = owners.get(path, MANAGER), value_at(desired, path)
        if owner == MANAGER or wanted is None:
            continue
        have = value_at(live, path)
        if have != wanted:
            dotted = ".".join(path)
            warnings.append(
                f"{dotted} of the {backend.child.kind} is left at {have}, not {wanted}: {owner} sets it"
            )
        desired = _without(desired, path)
    return desired, warnings


def _without(obj: Object, path: tuple[str, ...]) -> Object:
    name, *rest = path
    if not rest:
        return {key: value for key, value in obj.items() if key != name}
    return {**obj, name: _without(lenient_map(obj.get(name)), tuple(rest))}


def _ours_before(record: AppliedRecord | None, path: tuple[str, ...]) -> bool:
    """Whether the value at a path was written by us once, so that its absence now means removal."""
    return record is not None and ".".join(path) in record.paths


def _put(target: Object, path: tuple[str, ...], value: Any) -> None:
    for name in path[:-1]:
        target = target.setdefault(name, {})
    target[path[-1]] = value
