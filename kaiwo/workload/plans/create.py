"""A workload without a child: whether one is created, and which."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kaiwo.api.conditions import Condition
from kaiwo.api.spec_rules import ONE_TOPOLOGY_LABEL
from kaiwo.plugin.facts import Blocked
from kaiwo.plugin.observation import Finding
from kaiwo.plugin.rendering import Rendered, RenderInput
from kaiwo.workload import plugin_calls
from kaiwo.workload.applied_record import AppliedRecord, encode, fingerprint
from kaiwo.workload.backend_selection import ignored_blocks
from kaiwo.workload.defaults import resolve
from kaiwo.workload.download import requested
from kaiwo.workload.download.state import beginning
from kaiwo.workload.download.step import next_step
from kaiwo.workload.errors import SpecError
from kaiwo.workload.metadata import (
    GPU_MODEL,
    RESOLVED,
    label_value,
    name_problem,
    owner_reference,
    system_labels,
)
from kaiwo.workload.model import Apply, Create, Plan
from kaiwo.workload.plans import missing_child, secondary_resources
from kaiwo.workload.plans.blocked import REJECTED_RETRY_SECONDS, blocked_by_api, plan_blocked
from kaiwo.workload.plans.diff import content, own_keys, paths_set
from kaiwo.workload.status import Verdict, documents, events
from kaiwo.workload.storage import claims
from kaiwo.workload.storage.state import volume_state
from kaiwo.workload.storage.volumes import check as check_storage
from kaiwo.workload.storage.volumes import warnings as storage_warnings

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaiwo.api.workload import Workload
    from kaiwo.plugin.backends import Backend
    from kaiwo.plugin.facts import Allocation, NodeFact
    from kaiwo.plugin.queues import QueueAssignment
    from kaiwo.plugin.rendering import Resolved
    from kaiwo.workload.download.state import DownloadState
    from kaiwo.workload.download.step import Step
    from kaiwo.workload.model import Facts, PlanContext, Registry


@dataclass(frozen=True, slots=True)
class Made:
    """A rendered child with ownership and the record on it.

    Attributes:
        rendered: the child as it is written.
        record: what the record on it says.
    """

    rendered: Rendered
    record: AppliedRecord


def make(
    case: PlanContext,
    resolved: Resolved,
    queue: QueueAssignment | None,
) -> Made:
    """Render the child and put Kaiwo's own metadata on it."""
    inp = RenderInput(
        workload=case.workload,
        resolved=resolved,
        queue=queue,
        contributions=case.registry.contributions,
        settings=case.facts.settings.get(case.backend.name),
    )
    rendered = plugin_calls.rendered(case.backend, inp)
    metadata = dict(rendered.child["metadata"])
    metadata["labels"] = {**metadata.get("labels", {}), **system_labels(case.workload)}
    if owner := owner_reference(case.workload):
        metadata["ownerReferences"] = owner
    record = AppliedRecord(
        resolved=resolved,
        queue=queue,
        fields=fingerprint(case.workload),
        labels=own_keys(metadata, "labels", queue.labels.keys() if queue else ()),
        annotations=own_keys(metadata, "annotations"),
        paths=paths_set(rendered.child, case.backend),
        warnings=tuple(rendered.warnings),
    )
    child = {**rendered.child, "metadata": metadata}
    record = replace(record, content=content(child, record))
    metadata["annotations"] = {**metadata.get("annotations", {}), RESOLVED: encode(record)}
    beside = {kind: secondary_resources.owned(obj, case.workload) for kind, obj in rendered.secondary.items()}
    return Made(replace(rendered, child=child, secondary=beside), record)


def check(workload: Workload, backend: Backend) -> Blocked | None:
    """What of the workload itself stops it.

    Raises:
        SpecError: a field contradicts another.
    """
    if problem := name_problem(workload.name, backend.max_name_length, backend.name_pattern):
        return Blocked("InvalidName", f"metadata.name: {problem}")
    spec = workload.spec
    if ONE_TOPOLOGY_LABEL.violated(spec.preferred_topology_label, spec.required_topology_label):
        raise SpecError(f"spec.{ONE_TOPOLOGY_LABEL.field}", ONE_TOPOLOGY_LABEL.message)
    check_storage(workload)
    if problems := plugin_calls.problems(backend, workload):
        named = all(path == "metadata.name" for path, _ in problems)
        return Blocked(
            "InvalidName" if named else "InvalidSpec", "; ".join(f"{path}: {text}" for path, text in problems)
        )
    return None


def unavailable(backend: Backend, facts: Facts) -> Blocked | None:
    """Which APIs of the backend the cluster does not serve."""
    missing = [
        str(kind) for kind in dict.fromkeys((backend.child, *backend.requires)) if not facts.served(kind)
    ]
    if not missing:
        return None
    return Blocked(
        "BackendUnavailable",
        f"backend {backend.name} needs {', '.join(missing)}, which this cluster does not serve; "
        "install its operator and CRDs, the workload starts by itself then",
    )


def spec_warnings(
    workload: Workload, registry: Registry, backend: Backend, nodes: Iterable[NodeFact]
) -> list[str]:
    """What of the spec is not used, or cannot take effect."""
    warnings = [
        *ignored_blocks(workload, backend, registry),
        *storage_warnings(workload),
        *requested.warnings(workload, registry),
    ]
    if workload.spec.cluster_queue and registry.queue is None:
        warnings.append("spec.clusterQueue is ignored: no queue plugin is loaded")
    models = {label_value(model) for model in workload.spec.gpu_models or ()}
    if models and not registry.labels_nodes and not any(node.model_label in models for node in nodes):
        warnings.append(
            f"spec.gpuModels: no node has the label {GPU_MODEL} with one of these models, and no loaded "
            "plugin writes it; add node_pools to the operator's plugins, or label the nodes"
        )
    return warnings


def plan_create(case: PlanContext) -> Plan:
    """The plan for a workload without a child.

    Raises:
        SpecError: the spec makes a child impossible.
        PluginFailure: a plugin failed.
    """
    if gone := missing_child.plan_missing_child(case.workload, case.facts, case.backend):
        return gone
    warnings = spec_warnings(case.workload, case.registry, case.backend, case.facts.nodes)
    refusal = (
        check(case.workload, case.backend)
        or unavailable(case.backend, case.facts)
        or requested.unserved(case.workload, case.registry)
    )
    if refusal is None:
        answer = resolve(case, check_capacity=True)
        if not isinstance(answer, Blocked):
            return _create(case, *answer, warnings)
        refusal = answer
    return _refused(case, refusal, warnings)


def _refused(
    case: PlanContext, refusal: Blocked, warnings: list[str], requeue_after: float | None = None
) -> Plan:
    return plan_blocked(
        case.workload,
        case.facts,
        refusal,
        requeue_after=requeue_after,
        warnings=tuple(warnings),
        backend=case.backend.name,
        childless=True,
    )


def _create(
    case: PlanContext,
    resolved: Resolved,
    queue: QueueAssignment | None,
    warnings: list[str],
) -> Plan:
    made = make(case, resolved, queue)
    rendered = claims.claims(case.workload, resolved)
    volumes = claims.reconciled(case, rendered)
    warnings = [*warnings, *volumes.warnings, *made.rendered.warnings]
    if refusal := volumes.refusal or secondary_resources.taken(case, made.rendered):
        return _refused(case, refusal, warnings)
    step = next_step(case, resolved, made.rendered.child)
    if step.refusal is not None:
        return _refused(case, step.refusal, warnings)
    if case.facts.rejection is not None and (step.state is None or step.state.phase != "failed"):
        return _refused(case, blocked_by_api(case.facts.rejection), warnings, REJECTED_RETRY_SECONDS)
    child = made.rendered.child
    creation = (
        Create(case.backend.child, child)
        if case.backend.write == "create"
        else Apply(case.backend.child, child)
    )
    at_once = (*volumes.writes, *step.writes)
    then = (creation, *secondary_resources.writes(case, made.rendered))
    shown = (
        *rendered,
        *step.rendered,
        made.rendered,
        *(Rendered(obj) for obj in made.rendered.secondary.values()),
    )
    if step.state is not None:
        plan = _waiting(case, resolved, step, step.state)
        return replace(plan, writes=at_once, later=then, warnings=tuple(warnings), rendered=shown)
    verdict = Verdict(
        status="PENDING",
        reason="Creating",
        message=f"{case.backend.child.kind} {case.workload.name} is being created",
        conditions=_conditions(schedulable(case.workload, resolved.allocation), step.condition),
        child_uid="",
    )
    statuses = documents(case.workload, verdict, case.facts.now)
    return Plan(
        writes=(*at_once, *then),
        statuses=statuses,
        events=events(case.workload, statuses, ""),
        warnings=tuple(warnings),
        backend=case.backend.name,
        rendered=shown,
    )


def _waiting(case: PlanContext, resolved: Resolved, step: Step, state: DownloadState) -> Plan:
    """The plan while something is downloaded, or once that has failed."""
    volumes = volume_state(case.workload, resolved, case.facts)
    finding, wake, needs_events = state.finding, state.requeue_after, state.needs_events
    stuck = volumes.stuck
    if not state.follow and state.phase != "failed" and volumes.unbound:
        # No pod of the Job can start without its volumes; the first moments of a claim are no news.
        finding = Finding(stuck.reason, stuck.message) if stuck else beginning(case.workload)
        wake, needs_events = volumes.requeue_after, volumes.needs_events
    fetched = replace(step.condition, message=finding.message) if step.condition else None
    verdict = Verdict(
        status="FAILED" if state.phase == "failed" else "PENDING",
        reason=finding.reason,
        message=finding.message,
        conditions=_conditions(schedulable(case.workload, resolved.allocation), volumes.condition, fetched),
        child_uid="",
        completed=state.ended,
    )
    statuses = documents(case.workload, verdict, case.facts.now)
    return Plan(
        statuses=statuses,
        events=events(case.workload, statuses, ""),
        requeue_after=wake,
        backend=case.backend.name,
        needs_events=needs_events,
        follow=state.follow,
    )


def _conditions(*found: Condition | None) -> tuple[Condition, ...]:
    return tuple(condition for condition in found if condition is not None)


def schedulable(workload: Workload, allocation: Allocation) -> Condition:
    """The condition of a workload that can run."""
    pods = "1 pod" if allocation.pods == 1 else f"{allocation.pods} pods"
    if allocation.gpus_per_replica:
        each = "" if allocation.pods == 1 else " each"
        text = f"{pods} with {allocation.gpus_per_replica} {allocation.resource_key}{each}"
    else:
        text = f"{pods} without GPUs"
    return Condition("Schedulable", "True", "Schedulable", text, workload.generation or None)
