"""A workload without a child: whether one is created, and which."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kaiwo.api.conditions import Condition
from kaiwo.engine.resource import PERSISTENT_VOLUME_CLAIM
from kaiwo.plugin.backends import Rendered, RenderInput
from kaiwo.plugin.facts import Refusal
from kaiwo.workload import ask, companions, lost, storage
from kaiwo.workload.changes import content, own_keys, paths_set
from kaiwo.workload.choice import ignored_blocks
from kaiwo.workload.errors import SpecError
from kaiwo.workload.labels import RESOLVED, owner_reference, system_labels
from kaiwo.workload.model import Apply, Create, Plan
from kaiwo.workload.names import name_problem
from kaiwo.workload.ownership import conflict, is_ours
from kaiwo.workload.refused import REJECTED_RETRY_SECONDS, of_rejection, refused
from kaiwo.workload.resolve import resolve
from kaiwo.workload.resolved import Record, encode, fingerprint
from kaiwo.workload.status import Verdict, documents, events

if TYPE_CHECKING:
    from kaiwo.api.workload import Workload
    from kaiwo.plugin.backends import BackEnd, Resolved
    from kaiwo.plugin.facts import Allocation
    from kaiwo.plugin.queues import QueueAssignment
    from kaiwo.workload.model import Case, Facts, Registry, Write


@dataclass(frozen=True, slots=True)
class Made:
    """A rendered child with ownership and the record on it.

    Attributes:
        rendered: the child as it is written.
        record: what the record on it says.
    """

    rendered: Rendered
    record: Record


def make(
    case: Case,
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
    rendered = ask.rendered(case.backend, inp)
    metadata = dict(rendered.child["metadata"])
    metadata["labels"] = {**metadata.get("labels", {}), **system_labels(case.workload)}
    if owner := owner_reference(case.workload):
        metadata["ownerReferences"] = owner
    record = Record(
        resolved=resolved,
        queue=queue,
        fields=fingerprint(case.workload),
        labels=own_keys(metadata, "labels", queue.labels.keys() if queue else ()),
        annotations=own_keys(metadata, "annotations"),
        paths=paths_set(rendered.child, case.backend),
    )
    child = {**rendered.child, "metadata": metadata}
    record = replace(record, content=content(child, record))
    metadata["annotations"] = {**metadata.get("annotations", {}), RESOLVED: encode(record)}
    beside = {kind: companions.owned(obj, case.workload) for kind, obj in rendered.companions.items()}
    return Made(replace(rendered, child=child, companions=beside), record)


def check(workload: Workload, backend: BackEnd) -> Refusal | None:
    """What of the workload itself stops it.

    Raises:
        SpecError: a field contradicts another.
    """
    if problem := name_problem(workload.name, backend.max_name_length, backend.name_pattern):
        return Refusal("InvalidName", f"metadata.name: {problem}")
    spec = workload.spec
    if spec.preferred_topology_label and spec.required_topology_label:
        raise SpecError(
            "spec.preferredTopologyLabel", "cannot be used together with spec.requiredTopologyLabel; keep one"
        )
    storage.check(workload)
    if problems := ask.problems(backend, workload):
        return Refusal("InvalidSpec", "; ".join(f"{path}: {text}" for path, text in problems))
    return None


def unavailable(backend: BackEnd, facts: Facts) -> Refusal | None:
    """Which APIs of the back end the cluster does not serve."""
    missing = [
        str(kind) for kind in dict.fromkeys((backend.child, *backend.requires)) if not facts.served(kind)
    ]
    if not missing:
        return None
    return Refusal(
        "BackendUnavailable",
        f"back end {backend.name} needs {', '.join(missing)}, which this cluster does not serve; "
        "install its operator and CRDs, the workload starts by itself then",
    )


def spec_warnings(workload: Workload, registry: Registry, backend: BackEnd) -> list[str]:
    """What of the spec is not used."""
    warnings = [*ignored_blocks(workload, backend, registry), *storage.warnings(workload)]
    if workload.spec.cluster_queue and registry.queue is None:
        warnings.append("spec.clusterQueue is ignored: no queue plugin is loaded")
    return warnings


def plan_absent(case: Case) -> Plan:
    """The plan for a workload without a child.

    Raises:
        SpecError: the spec makes a child impossible.
        PluginFailure: a plugin failed.
    """
    if gone := lost.plan_lost(case.workload, case.facts, case.backend):
        return gone
    warnings = spec_warnings(case.workload, case.registry, case.backend)
    refusal = (
        check(case.workload, case.backend)
        or unavailable(case.backend, case.facts)
        or storage.download_refusal(case.workload, case.registry.sources)
    )
    if refusal is None:
        answer = resolve(case, check_capacity=True)
        if not isinstance(answer, Refusal):
            return _create(case, *answer, warnings)
        refusal = answer
    return refused(
        case.workload,
        case.facts,
        refusal,
        warnings=tuple(warnings),
        backend=case.backend.name,
        childless=True,
    )


def _create(
    case: Case,
    resolved: Resolved,
    queue: QueueAssignment | None,
    warnings: list[str],
) -> Plan:
    made = make(case, resolved, queue)
    claims = storage.claims(case.workload, resolved)
    writes: list[Write] = []
    for claim in claims:
        name = claim.child["metadata"]["name"]
        live = case.facts.auxiliaries.get((PERSISTENT_VOLUME_CLAIM, name))
        if live is None:
            writes.append(Apply(PERSISTENT_VOLUME_CLAIM, claim.child))
        elif not is_ours(live, case.workload):
            refusal = conflict(live, "PersistentVolumeClaim", case.workload, "StorageReady")
            return refused(
                case.workload,
                case.facts,
                refusal,
                warnings=tuple(warnings),
                backend=case.backend.name,
                childless=True,
            )
    warnings = [*warnings, *made.rendered.warnings]
    taken = companions.taken(case, made.rendered)
    if taken is not None:
        return refused(
            case.workload,
            case.facts,
            taken,
            warnings=tuple(warnings),
            backend=case.backend.name,
            childless=True,
        )
    if case.facts.rejection is not None:
        refusal = of_rejection(case.facts.rejection)
        return refused(
            case.workload,
            case.facts,
            refusal,
            wake_after=REJECTED_RETRY_SECONDS,
            warnings=tuple(warnings),
            backend=case.backend.name,
            childless=True,
        )
    child = made.rendered.child
    writes.append(
        Create(case.backend.child, child)
        if case.backend.write == "create"
        else Apply(case.backend.child, child)
    )
    writes += companions.writes(case, made.rendered)
    verdict = Verdict(
        status="PENDING",
        reason="Creating",
        message=f"{case.backend.child.kind} {case.workload.name} is being created",
        conditions=(schedulable(case.workload, resolved.allocation),),
        child_uid="",
    )
    statuses = documents(case.workload, verdict, case.facts.now)
    return Plan(
        writes=tuple(writes),
        statuses=statuses,
        events=events(case.workload, statuses, ""),
        warnings=tuple(warnings),
        backend=case.backend.name,
        rendered=(*claims, made.rendered, *(Rendered(obj) for obj in made.rendered.companions.values())),
    )


def schedulable(workload: Workload, allocation: Allocation) -> Condition:
    """The condition of a workload that can run."""
    pods = "1 pod" if allocation.pods == 1 else f"{allocation.pods} pods"
    if allocation.gpus_per_replica:
        each = "" if allocation.pods == 1 else " each"
        text = f"{pods} with {allocation.gpus_per_replica} {allocation.resource_key}{each}"
    else:
        text = f"{pods} without GPUs"
    return Condition("Schedulable", "True", "Schedulable", text, workload.generation or None)
