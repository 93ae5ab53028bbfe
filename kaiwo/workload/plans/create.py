"""A workload without a child: whether one is created, and which."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kaiwo.api.conditions import Condition
from kaiwo.api.name_rules import topology_label_problems
from kaiwo.api.spec_rules import ONE_TOPOLOGY_LABEL
from kaiwo.plugin.facts import Blocked
from kaiwo.plugin.observation import Outcome
from kaiwo.plugin.rendering import Rendered, RenderInput
from kaiwo.workload import plugin_calls
from kaiwo.workload.applied_record import with_record
from kaiwo.workload.backend_selection import ignored_blocks
from kaiwo.workload.defaults import resolve, with_settings
from kaiwo.workload.download import requested
from kaiwo.workload.download import state as download
from kaiwo.workload.download.step import Step, is_requested, missing_source, next_step
from kaiwo.workload.errors import SpecError
from kaiwo.workload.gpus.requested_models import named_models
from kaiwo.workload.labels import GPU_MODEL
from kaiwo.workload.metadata import name_problem, owned
from kaiwo.workload.missing_queue import recorded_queue
from kaiwo.workload.model import NO_CHILD, Apply, ChildRecord, Create, Plan
from kaiwo.workload.plans import missing_child, secondary_resources
from kaiwo.workload.plans.blocked import REJECTED_RETRY_SECONDS, blocked_by_api, keep_status, plan_blocked
from kaiwo.workload.rendered_size import repeated_too_often
from kaiwo.workload.storage import claims, volumes
from kaiwo.workload.storage.state import is_new, volume_outcome

if TYPE_CHECKING:
    from kaiwo.api.workload import Workload
    from kaiwo.plugin.backends import Backend
    from kaiwo.plugin.facts import Allocation
    from kaiwo.plugin.queues import QueueAssignment
    from kaiwo.plugin.rendering import Resolved
    from kaiwo.workload.model import Facts, PlanContext, Registry


def make(case: PlanContext, resolved: Resolved, queue: QueueAssignment | None) -> Rendered:
    """Render the child, with ownership and the record on it, and its secondary resources."""
    if case.registry.contributions:
        resolved = with_settings(case, resolved)
    rendered = render(case, resolved, queue)
    child = with_record(
        {**rendered.child, "metadata": owned(rendered.child["metadata"], case.workload)},
        case.workload,
        resolved,
        queue,
        patchable=case.backend.patch_paths,
        warnings=tuple(rendered.warnings),
        contributors=_contributors(rendered) if case.registry.contributions else (),
    )
    secondary = {
        kind: secondary_resources.with_hash(obj, case.workload) for kind, obj in rendered.secondary.items()
    }
    return replace(rendered, child=child, secondary=secondary)


def render(case: PlanContext, resolved: Resolved, queue: QueueAssignment | None) -> Rendered:
    """The child as the backend renders it."""
    inp = RenderInput(
        workload=case.workload,
        resolved=resolved,
        queue=queue,
        contributions=case.registry.contributions,
        settings=case.facts.settings.get(case.backend.plugin),
    )
    rendered = plugin_calls.rendered(case.backend, inp)
    if case.workload.spec.storage is None:
        return rendered
    shared = volumes.sharing_warnings(case.workload, resolved)
    return replace(rendered, warnings=(*shared, *rendered.warnings)) if shared else rendered


def _contributors(rendered: Rendered) -> tuple[str, ...]:
    """Names of the contributions that added something."""
    return tuple(sorted({words for origin, words in rendered.origins.values() if origin == "plugin"}))


def check(workload: Workload, backend: Backend) -> Blocked | None:
    """What of the workload itself stops it.

    Raises:
        SpecError: a field contradicts another, or is no label key.
    """
    if problem := name_problem(workload.name, backend.max_name_length, backend.name_pattern):
        return Blocked("InvalidName", f"metadata.name: {problem}")
    spec = workload.spec
    labels = spec.preferred_topology_label, spec.required_topology_label
    if ONE_TOPOLOGY_LABEL.violated(*labels):
        raise SpecError(f"spec.{ONE_TOPOLOGY_LABEL.field}", ONE_TOPOLOGY_LABEL.message)
    for name, problem in topology_label_problems(*labels):
        raise SpecError(f"spec.{name}", problem)
    if spec.storage is not None:
        volumes.check(workload)
    if too_large := repeated_too_often(workload, backend):
        return too_large
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
        f"backend {backend.name} needs {', '.join(missing)}; this cluster does not serve it. "
        "Install its operator and CRDs, then the workload starts by itself",
    )


def spec_warnings(workload: Workload, registry: Registry, backend: Backend, facts: Facts) -> list[str]:
    """What of the spec is not used, or cannot take effect."""
    warnings = ignored_blocks(workload, backend, registry)
    if workload.spec.storage is not None:
        warnings += [*volumes.warnings(workload), *requested.warnings(workload, registry)]
    unqueued = registry.queue is None and not facts.missing_queue
    if workload.spec.cluster_queue and unqueued and not recorded_queue(workload):
        warnings.append("spec.clusterQueue is ignored: no queue plugin is loaded")
    entries = () if registry.labels_nodes else workload.spec.gpu_models
    models = named_models(entries, registry.vendors) if entries else ()
    if models and not any(node.model_label in models for node in facts.nodes):
        warnings.append(
            f"spec.gpuModels: no node has the label {GPU_MODEL} with one of these models, and no loaded "
            "plugin writes it; add node_pools to the operator's plugins, or label the nodes"
        )
    return warnings


def plan_create(case: PlanContext) -> Plan:
    """The plan for a workload without a child.

    Raises:
        SpecError: the spec makes a child impossible.
        PluginError: a plugin failed.
    """
    if missing := missing_child.plan_missing_child(case.workload, case.facts, case.backend):
        return missing
    warnings = spec_warnings(case.workload, case.registry, case.backend, case.facts)
    answer = (
        check(case.workload, case.backend)
        or unavailable(case.backend, case.facts)
        or (case.workload.spec.storage and missing_source(case.workload, case.registry, case.facts))
        or resolve(case, check_capacity=True)
    )
    if isinstance(answer, Blocked):
        if answer.reason == requested.NOT_AVAILABLE and is_requested(case.workload):
            return keep_status(case.workload, answer, answer.condition)
        return _blocked(case, answer, warnings)
    resolved, queue = answer
    made = make(case, resolved, queue)
    stored = case.workload.spec.storage is not None
    storage = claims.reconcile_claims(case, resolved) if stored else claims.ClaimWrites()
    warnings += [*storage.warnings, *made.warnings]
    # Volumes, ConfigMaps and downloads of others are not watched, so no event says that one is gone.
    if storage.blocked:
        return _blocked(case, storage.blocked, warnings, REJECTED_RETRY_SECONDS)
    if taken := secondary_resources.taken(case, made):
        return _blocked(case, taken, warnings)
    step = next_step(case, resolved, queue, made.child) if stored else Step()
    if isinstance(step, Blocked):
        return _blocked(case, step, warnings, REJECTED_RETRY_SECONDS)
    if case.facts.rejection is not None and not step.failed:
        return _blocked(case, blocked_by_api(case.facts.rejection), warnings, REJECTED_RETRY_SECONDS)
    if step.outcome is None and storage.deleting:
        gone = Blocked("VolumeMissing", storage.deleting, condition="StorageReady", status="PENDING")
        return _blocked(case, gone, warnings)
    child = made.child
    creation = (
        Create(case.backend.child, child)
        if case.backend.write == "create"
        else Apply(case.backend.child, child)
    )
    first = (*storage.writes, *step.writes)
    then = (creation, *secondary_resources.writes(case, made))
    able = schedulable(case.workload, resolved.allocation)
    if step.outcome is None:
        text = f"{case.backend.child.kind} {case.workload.name} is being created"
        outcome = Outcome("PENDING", "Creating", text, conditions=(able, *step.conditions))
    else:
        outcome = _downloading(case, resolved, step, step.outcome, able)
    return Plan(
        outcome,
        NO_CHILD,
        writes=first if step.outcome is not None else (*first, *then),
        warnings=tuple(warnings),
        backend=case.backend.name,
        rendered=(
            *storage.rendered,
            *step.rendered,
            made,
            *(Rendered(obj) for obj in made.secondary.values()),
        ),
        later=then if step.outcome is not None else (),
        follow=step.follow,
    )


def _blocked(
    case: PlanContext, blocked: Blocked, warnings: list[str], requeue_after: float | None = None
) -> Plan:
    return plan_blocked(
        case.workload,
        blocked,
        requeue_after=requeue_after,
        warnings=tuple(warnings),
        backend=case.backend.name,
        child=NO_CHILD
        if case.registry.queue is not None
        else ChildRecord(queue=recorded_queue(case.workload)),
    )


def _downloading(
    case: PlanContext, resolved: Resolved, step: Step, outcome: Outcome, able: Condition
) -> Outcome:
    """The outcome of the downloads, or of the volumes that they wait for, with the conditions of both."""
    bound = volume_outcome(case.workload, resolved, case.facts)
    if bound is not None and bound.status == "PENDING" and not step.follow and not step.failed:
        # No pod of the download Job can start without its volumes.
        cause = download.beginning(case.workload) if is_new(bound) else bound
        outcome = replace(
            outcome,
            reason=cause.reason,
            message=cause.message,
            requeue_after=bound.requeue_after,
            needs_events=bound.needs_events,
        )
    storage = bound.conditions if bound is not None else ()
    downloads = tuple(replace(condition, message=outcome.message) for condition in step.conditions)
    return replace(outcome, conditions=(able, *storage, *downloads))


def schedulable(workload: Workload, allocation: Allocation) -> Condition:
    """The condition of a workload that can run."""
    pods = "1 pod" if allocation.pods == 1 else f"{allocation.pods} pods"
    if allocation.gpus_per_replica:
        each = "" if allocation.pods == 1 else " each"
        text = f"{pods} with {allocation.gpus_per_replica} {allocation.resource_key}{each}"
    else:
        text = f"{pods} without GPUs"
    return Condition("Schedulable", "True", "Schedulable", text, workload.generation or None)
