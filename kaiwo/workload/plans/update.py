"""Updates of a live child: what of a changed workload is applied, and what of an edited child is restored."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kaiwo.api.conditions import Condition
from kaiwo.engine.diff import contains
from kaiwo.engine.quantity import quantity
from kaiwo.engine.resource import PERSISTENT_VOLUME_CLAIM
from kaiwo.plugin.facts import Blocked
from kaiwo.workload import missing_queue, plugin_calls
from kaiwo.workload.applied_record import ANNOTATIONS, LABELS, changed_fields, content, fingerprint
from kaiwo.workload.defaults import queue_facts, renew, resolve
from kaiwo.workload.errors import PluginError, SpecError
from kaiwo.workload.json_access import lenient_map, value_at
from kaiwo.workload.model import Apply, Delete, Patch
from kaiwo.workload.plans import create, replacement, secondary_resources
from kaiwo.workload.plans.blocked import blocked_by_api
from kaiwo.workload.plans.diff import (
    immutable,
    immutable_message,
    merge_patch,
    without_foreign,
)
from kaiwo.workload.storage import claims, volumes

if TYPE_CHECKING:
    from collections.abc import Collection

    from kaiwo.api.workload import Workload
    from kaiwo.engine.resource import Object
    from kaiwo.plugin.facts import Allocation
    from kaiwo.plugin.queues import Admission, QueueAssignment
    from kaiwo.plugin.rendering import Rendered, Resolved
    from kaiwo.workload.applied_record import AppliedRecord
    from kaiwo.workload.model import Facts, PlanContext, Write

_SIZES = {
    "storage.data.storageSize": volumes.DATA,
    "storage.huggingFace.storageSize": volumes.HF,
}
_QUEUE_FIELDS = ("clusterQueue", "priorityClass")


@dataclass(frozen=True, slots=True)
class Update:
    """What is written to a live child, and what the status says of it.

    Attributes:
        condition: the condition SpecApplied; None where it does not apply.
        allocation: the split of GPUs of the child.
        writes: in order.
        storage: the condition StorageReady where a volume's change was refused.
        warnings: what was ignored or overridden.
        rendered: the child as it would be created now, when it was rendered at all.
    """

    condition: Condition | None
    allocation: Allocation | None = None
    writes: tuple[Write, ...] = ()
    storage: Condition | None = None
    warnings: tuple[str, ...] = ()
    rendered: tuple[Rendered, ...] = ()


def kept_child(case: PlanContext, record: AppliedRecord | None) -> Update:
    """The update of a child that has ended or is being deleted: none."""
    return Update(
        None if case.switched else _applied(case.workload),
        record.resolved.allocation if record else None,
        warnings=record.warnings if record else (),
    )


def plan_update(case: PlanContext, record: AppliedRecord | None, admission: Admission | None) -> Update:
    """What of a changed workload or an edited child is written to the child and its secondary resources."""
    if error := case.workload.error:
        allocation = record.resolved.allocation if record else None
        return Update(_applied(case.workload, case.workload.error_reason, error), allocation)
    update = _child_update(case, record, admission)
    if update.rendered and (wait := _queue_is_changing(case)):
        return Update(wait, update.allocation)
    if update.condition is not None and update.condition.status != "True":
        return update
    if any(isinstance(write, Delete) and write.resource == case.backend.child for write in update.writes):
        return update
    try:
        patches = secondary_resources.tuned(case)
    except (SpecError, PluginError) as error:
        return replace(update, condition=_applied(case.workload, "PluginError", str(error)))
    rejected = case.facts.rejection
    if rejected is not None and rejected.resource in case.backend.secondary:
        blocked = blocked_by_api(rejected)
        return replace(update, condition=_applied(case.workload, blocked.reason, blocked.message))
    return replace(update, writes=(*update.writes, *patches)) if patches else update


def _child_update(case: PlanContext, record: AppliedRecord | None, admission: Admission | None) -> Update:
    """What is written to the child; found out quickly where nothing has changed."""
    allocation = record.resolved.allocation if record else None
    if case.switched:
        asked = [name for name in changed_fields(record, case.workload) if name == "ray"] if record else []
        text = immutable_message(asked or [case.switched], case.backend.child.kind)
        return Update(_applied(case.workload, "Immutable", text), allocation)
    changes: list[str] = []
    live: Object = case.facts.live or {}
    if record is not None:
        fields = fingerprint(case.workload)
        changes = changed_fields(record, case.workload, fields)
        # Where the whole object is applied, a change by another manager may be anywhere in it.
        edited = case.backend.write == "apply" or _is_edited(live, record)
        relabelled = any(record.fields.get(name) != fields.get(name) for name in (LABELS, ANNOTATIONS))
        kept = bool(_missing_contributions(case, record))
        if not changes and (kept or not (edited or relabelled)):
            return Update(_applied(case.workload), allocation, warnings=record.warnings)
        if missing := _missing_plugin(case, record, changes):
            return Update(missing, allocation)
        allowed = _allowed(case, record, changes, admission)
        if frozen := immutable(changes, case.backend, allowed):
            text = immutable_message(frozen, case.backend.child.kind)
            return Update(_applied(case.workload, "Immutable", text), allocation)
        if text := _not_expandable(case, changes):
            generation = case.workload.generation or None
            storage = Condition("StorageReady", "False", "VolumeNotExpandable", text, generation)
            return Update(_applied(case.workload, "VolumeNotExpandable", text), allocation, storage=storage)
    if case.facts.rejection is not None:
        blocked = blocked_by_api(case.facts.rejection)
        generation = case.workload.generation or None
        about = Condition(blocked.condition, "False", blocked.reason, blocked.message, generation)
        return Update(
            _applied(case.workload, blocked.reason, blocked.message),
            allocation,
            storage=about if blocked.condition == "StorageReady" else None,
        )
    try:
        return _write(case, record, changes)
    except SpecError as error:
        return Update(_applied(case.workload, "InvalidSpec", str(error)), allocation)
    except PluginError as error:
        return Update(_applied(case.workload, "PluginError", str(error)), allocation)


def _queue_is_changing(case: PlanContext) -> Condition | None:
    """Why what is written to the child waits for the queue system; None when it does not."""
    queue = case.registry.queue
    if queue is None or not plugin_calls.is_changing(queue, case.facts.live or {}):
        return None
    child = f"{case.backend.child.kind} {case.workload.name}"
    text = f"{queue.name} is changing {child}; the changed spec is applied after that"
    return _applied(case.workload, "QueueIsChanging", text)


def _missing_contributions(case: PlanContext, record: AppliedRecord) -> list[str]:
    """Contributions that are not loaded, and that the child would lose if it were rendered again."""
    if not record.contributors:
        return []
    loaded = {contribution.name for contribution in case.registry.contributions}
    return [name for name in record.contributors if name not in loaded]


def _missing_plugin(case: PlanContext, record: AppliedRecord, changes: Collection[str]) -> Condition | None:
    """Why changes wait for a plugin; None when none of them does."""
    if names := _missing_contributions(case, record):
        text = (
            f"contribution to pods {', '.join(names)}: its plugin is not loaded. The running object keeps it "
            "and was not changed; the change is applied once the plugin is selected again"
        )
        return _applied(case.workload, "ContributionNotLoaded", text)
    queued = case.registry.queue is None and record.queue is not None
    if queued and (names := [name for name in _QUEUE_FIELDS if name in changes]):
        return _applied(case.workload, missing_queue.NOT_LOADED, missing_queue.immutable(case.facts, names))
    return None


def _is_edited(live: Object, record: AppliedRecord) -> bool:
    return content(live, record.labels, record.annotations, record.paths) != record.content


def _applied(workload: Workload, reason: str = "", message: str = "") -> Condition:
    generation = workload.generation or None
    if reason:
        return Condition("SpecApplied", "False", reason, message, generation)
    return Condition("SpecApplied", "True", "Applied", message, generation)


def _allowed(
    case: PlanContext,
    record: AppliedRecord,
    changes: Collection[str],
    admission: Admission | None,
) -> list[str]:
    """Fields that may change at this moment although the backend does not list them."""
    allowed = [path for path in _SIZES if path in changes and _grows(case.workload, case.facts, path)]
    if case.registry.queue is None:
        return [*allowed, "clusterQueue"]
    waits = admission is None or admission.state in ("pending", "evicted")
    if record.queue is not None and waits and case.workload.spec.cluster_queue:
        allowed.append("clusterQueue")
    name = case.workload.spec.priority_class
    kubernetes = record.resolved.priority_class or (name in (case.facts.priority_classes or ()))
    if record.queue is not None and waits and name and not kubernetes:
        allowed.append("priorityClass")
    return allowed


def _not_expandable(case: PlanContext, changes: Collection[str]) -> str:
    """Why a volume that was asked to grow cannot; empty when none is, or all can."""
    for path in changes:
        claim = _claim(case.workload, case.facts, path) if path in _SIZES else None
        if claim is None or (_growth(case.workload, claim, path) or 0) <= 0:
            continue
        if problem := claims.not_expandable(claim, case.facts):
            return problem
    return ""


def _grows(workload: Workload, facts: Facts, path: str) -> bool:
    claim = _claim(workload, facts, path)
    growth = _growth(workload, claim, path) if claim is not None else None
    return growth is not None and growth >= 0


def _claim(workload: Workload, facts: Facts, path: str) -> Object | None:
    return facts.auxiliaries.get((PERSISTENT_VOLUME_CLAIM, volumes.claim_name(workload, _SIZES[path])))


def _growth(workload: Workload, claim: Object, path: str) -> int | None:
    """By how much (billionths of a byte) a volume is to grow; None when a size is no quantity."""
    spec = workload.spec.storage
    section = (spec.data if path.startswith("storage.data") else spec.hugging_face) if spec else None
    wanted = quantity(section.storage_size) if section and section.storage_size else None
    found = claims.size(claim)
    have = quantity("0" if found is None else found)
    return wanted.nano - have.nano if wanted is not None and have is not None else None


def _write(
    case: PlanContext,
    record: AppliedRecord | None,
    changes: Collection[str],
) -> Update:
    allocation = record.resolved.allocation if record else None
    if blocked := create.check(case.workload, case.backend):
        return Update(_applied(case.workload, blocked.reason, blocked.message), allocation)
    answer = _values(case, record, changes)
    if isinstance(answer, Blocked):
        return Update(_applied(case.workload, answer.reason, answer.message), allocation)
    resolved, queue = answer
    made = _render(case, record, resolved, queue)
    writes: list[Write] = []
    if any(path in changes for path in _SIZES):
        writes += [
            Apply(PERSISTENT_VOLUME_CLAIM, claim.child) for claim in claims.claims(case.workload, resolved)
        ]
    live: Object = case.facts.live or {}
    metadata = lenient_map(live.get("metadata"))
    warnings = list(made.warnings)
    if taken := secondary_resources.taken(case, made):
        return Update(_applied(case.workload, taken.reason, taken.message), allocation)
    if changes and _replaces(case, made):
        if case.registry.queue is None and (blocked := missing_queue.blocked(case.workload, case.facts)):
            return Update(_applied(case.workload, blocked.reason, blocked.message), allocation)
        return Update(_applied(case.workload), allocation, (replacement.deletion(case),))
    if case.backend.write == "apply":
        desired, left = without_foreign(made.child, live, case.backend, case.facts.owners)
        warnings += left
        combined = plugin_calls.merged(case.backend, case.registry.queue, desired, live)
        if not contains(live, combined):
            writes.append(Apply(case.backend.child, _guarded(combined, live, desired)))
    elif patch := merge_patch(
        live,
        made.child,
        record,
        case.backend,
        case.facts.owners,
        left=_foreign_paths(case, made.child, live, changes),
    ):
        writes.append(
            Patch(
                case.backend.child,
                case.workload.namespace,
                case.workload.name,
                str(metadata.get("uid", "")),
                patch if case.registry.queue is None else _versioned(patch, live),
            )
        )
    writes += secondary_resources.writes(case, made)
    return Update(
        _applied(case.workload),
        resolved.allocation,
        tuple(writes),
        warnings=tuple(warnings),
        rendered=(made,),
    )


def _render(
    case: PlanContext, record: AppliedRecord | None, resolved: Resolved, queue: QueueAssignment | None
) -> Rendered:
    """The child as it is wanted now; new labels of the workload wait for a change that needs new pods."""
    made = create.make(case, resolved, queue)
    if record is None or not _replaces(case, made):
        return made
    kept = replace(resolved, labels=record.resolved.labels, annotations=record.resolved.annotations)
    same = made if kept == resolved else create.make(case, kept, queue)
    return made if _replaces(case, same) else same


def _replaces(case: PlanContext, made: Rendered) -> bool:
    """Whether the live child would have to be replaced to become what was rendered."""
    live: Object = case.facts.live or {}
    wanted = plugin_calls.immutable_part(case.backend, made.child)
    return plugin_calls.immutable_part(case.backend, live) != wanted


def _foreign_paths(
    case: PlanContext, desired: Object, live: Object, changes: Collection[str]
) -> frozenset[tuple[str, ...]]:
    """The patchable paths that the backend leaves to others now; what the user changed is sent anyway."""
    combined = plugin_calls.merged(case.backend, case.registry.queue, desired, live)
    if combined is desired:
        return frozenset()
    return frozenset(
        path
        for path in case.backend.patch_paths
        if value_at(combined, path) != value_at(desired, path)
        and ".".join((case.backend.block, *path)) not in changes
    )


def _guarded(combined: Object, live: Object, desired: Object) -> Object:
    """What was merged from a live object is only true of that very version of it."""
    return combined if combined is desired else _versioned(combined, live)


def _versioned(body: Object, live: Object) -> Object:
    """A body that is refused once the live object has another version: it was decided by this one."""
    version = lenient_map(live.get("metadata")).get("resourceVersion")
    if not version:
        return body
    return {**body, "metadata": {**lenient_map(body.get("metadata")), "resourceVersion": version}}


def _values(
    case: PlanContext,
    record: AppliedRecord | None,
    changes: Collection[str],
) -> tuple[Resolved, QueueAssignment | None] | Blocked:
    """The resolved values of the child after the change, and its queue."""
    if record is None:
        # Somebody removed the record of what the child was created with, so the current values are used.
        return resolve(case, check_capacity=False)
    queue = record.queue
    if case.registry.queue is not None and any(name in changes for name in _QUEUE_FIELDS):
        answer = plugin_calls.assignment(
            case.registry.queue, case.workload, queue_facts(case.registry, case.facts)
        )
        if isinstance(answer, Blocked):
            return answer
        queue = answer
    if not changes:
        return record.resolved, queue
    resolved = renew(case, record.resolved, changes)
    return resolved if isinstance(resolved, Blocked) else (resolved, queue)
