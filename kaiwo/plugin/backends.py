"""Workload backends: how one kind of workload becomes a Kubernetes object and what its state means.

Every callable here is pure: no I/O, no clock (time is a fact), no globals. The operator, ``kaiwo plan``,
validation and the tests call the same functions.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from pydantic import BaseModel

    from kaiwo.api.field import Field, WorkloadKind
    from kaiwo.api.workload import Workload
    from kaiwo.engine.resource import Object, Resource
    from kaiwo.plugin.facts import Allocation, Blocked, NodeFact
    from kaiwo.plugin.pods import PodContribution
    from kaiwo.plugin.queues import Admission, QueueAssignment
    from kaiwo.plugin.rbac import PolicyRule
    from kaiwo.plugin.vendors import GpuVendor


@dataclass(frozen=True, slots=True)
class AllocationInput:
    """What splitting GPUs over pods may depend on.

    Attributes:
        workload: the user's workload.
        vendors: the loaded vendors.
        nodes: usable and unusable nodes with their GPUs, expected nodes included.
        default_resource_key: KaiwoConfig ``nodes.defaultGpuResourceKey``; used for the literal vendor
            ``default`` only.
        check_capacity: False while a child exists: a running workload never becomes ERROR because a
            node left.
    """

    workload: Workload
    vendors: tuple[GpuVendor, ...]
    nodes: tuple[NodeFact, ...]
    default_resource_key: str
    check_capacity: bool = True


@dataclass(frozen=True, slots=True)
class Resolved:
    """Everything that was taken from configuration, nodes and templates when the child was created.

    It is stored on the child (annotation ``kaiwo.silogen.ai/resolved``) and reused, so that neither a
    configuration edit nor an upgrade of the operator changes an existing child.

    Attributes:
        allocation: how GPUs are split.
        default_image: image for containers that name none.
        scheduler_name: ``schedulerName`` of generated pods.
        gpu_taint_key: key to tolerate on GPU nodes, empty when GPU nodes are not tainted.
        data_mount_path: where the data volume is mounted unless the workload says otherwise.
        hf_mount_path: likewise for the Hugging Face cache.
        storage_class: class of volumes, empty for the cluster's default.
        head_memory: memory request of a Ray head.
        priority_class: Kubernetes PriorityClass of the pods, empty for none.
        vendor_keys: resource keys of all vendors loaded at that time; any of them counts as GPUs.
        template_version: version of the generated templates.
        labels: the workload's own labels that its pods carry; a later edit of metadata alone changes no pod.
        annotations: likewise.
    """

    allocation: Allocation
    default_image: str = ""
    scheduler_name: str = ""
    gpu_taint_key: str = ""
    data_mount_path: str = ""
    hf_mount_path: str = ""
    storage_class: str = ""
    head_memory: str = ""
    priority_class: str = ""
    vendor_keys: tuple[str, ...] = ()
    template_version: int = 1
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RenderInput:
    """What a backend renders from.

    Attributes:
        workload: the user's workload.
        resolved: see :class:`Resolved`.
        queue: what the queue system asks for; None when no queue system is loaded.
        contributions: pod contributions of loaded plugins, in loading order.
        settings: the backend's settings from KaiwoConfig, or None.
    """

    workload: Workload
    resolved: Resolved
    queue: QueueAssignment | None = None
    contributions: tuple[PodContribution, ...] = ()
    settings: BaseModel | None = None


Origin = Literal["user", "template", "default", "config", "nodes", "plugin", "system", "queue"]
"""Where a value came from: the user's own fields, the user's embedded block, a built-in default, KaiwoConfig,
the cluster's nodes, a plugin's contribution, Kaiwo's own bookkeeping, or the queue system."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """One object to create, and what to tell the user about it.

    Attributes:
        child: the object, complete but for ownership and the annotations that the core adds.
        warnings: what was ignored or overridden, one sentence each.
        origins: JSON path (``spec.template.spec.containers[0].image``) to its origin, and in words which
            field or plugin.
        secondary: objects beside the child, by kind, each named like the workload and complete but for
            ownership; kinds that the backend lists as ``secondary``. One that is not rendered any more
            is deleted.
    """

    child: Object
    warnings: tuple[str, ...] = ()
    origins: Mapping[str, tuple[Origin, str]] = field(default_factory=dict)
    secondary: Mapping[Resource, Object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Observation:
    """What is known of a live child.

    Attributes:
        workload: the user's workload, its last status included.
        child: the live child.
        pods: live pods of this run.
        admission: what the queue system says; None when none is loaded or nothing is known yet.
        queued: the child carries a queue's labels.
        now: the moment of looking, UTC.
        secondary: live objects of the backend's ``secondary`` kinds that are named like the workload.
        warning_event: reason and message of the newest Warning event about the child; None when there is
            none, or when nobody asked for it (:attr:`Observed.needs_events`).
        gone: the last failed pods of a KaiwoJob that exist no more, as they were; an operator that was
            started later knows of none.
    """

    workload: Workload
    child: Object
    pods: tuple[Object, ...]
    admission: Admission | None
    queued: bool
    now: datetime
    secondary: Mapping[Resource, Object] = field(default_factory=dict)
    warning_event: Finding | None = None
    gone: tuple[Object, ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """One sentence of reason: a CamelCase word and a line of text."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Observed:
    """What a live child means for its workload.

    Attributes:
        status: one of the documented status words.
        reason: one CamelCase word.
        message: one line.
        started: earliest ``running.startedAt`` (or ``terminated.startedAt``) of a container of the
            current run.
        run_started: when the current run began (a Job's ``startTime``, new after each resumption), None if
            unknown; an earlier start time belongs to a run that was evicted.
        completed: when it ended, None while it has not.
        passed: status words that recorded facts prove it passed through before ``status``, in order.
        requeue_after: seconds after which to look again though nothing happened, None for never.
        needs_events: neither the child nor its pods say why it does not go on, but an event about it may:
            the newest warning is read, and the child is observed once more with it.
        pod_maker: kind and name of the object that makes the pods on behalf of the child, whose warnings are
            read, too; None where the child makes them itself.
    """

    status: str
    reason: str
    message: str
    started: datetime | None = None
    run_started: datetime | None = None
    completed: datetime | None = None
    passed: tuple[str, ...] = ()
    requeue_after: float | None = None
    needs_events: bool = False
    pod_maker: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class VariantInput:
    """What the choice between the forms of a backend may depend on.

    Attributes:
        settings: the backend's settings from KaiwoConfig, or None.
        queue_manages: whether the queue system in force queues objects of a kind by itself.
    """

    settings: BaseModel | None
    queue_manages: Callable[[Resource], bool]


@dataclass(frozen=True, slots=True)
class Backend:
    """A workload backend.

    Attributes:
        name: short name (``batch_job``).
        kind: the kind it serves.
        child: the kind of object it creates, named like the workload.
        fields: spec fields it owns; the first is its embedded block.
        chosen: pure function: whether this backend serves that workload.
        max_name_length: longest legal workload name.
        name_pattern: ``dns1123`` (label) or ``dns1035`` (label that starts with a letter).
        check: pure function: what is wrong with this workload for this backend, as (field path, message)
            pairs.
        allocate: pure function: how GPUs are split, or why it cannot run now. None while only declared.
        render: pure function: the child. None while only declared.
        observe: pure function: what a live child means. None while only declared.
        write: ``create`` (POST, then merge patches of named keys) or ``apply`` (server-side apply).
        patch_paths: paths in the child that may be patched on a live child; only for ``write="create"``.
        mutable: spec paths (dotted, below ``spec``) that may change while a child exists. ``*`` for all.
        requires: kinds that must be served by the cluster.
        owned_paths: child paths whose field owner matters (``spec.suspend``, ``spec.replicas``); with
            ``write="apply"``, one that another field manager owns is not sent.
        secondary: kinds of objects beside the child that are named like the workload: what ``render`` makes,
            and what the child's own controller makes and ``observe`` or ``tune`` reads.
        frozen: pure function: the part of a child, rendered or live, that cannot change while it exists. A
            change of it replaces the child: it is deleted, waited for and created again. None where
            nothing is to be replaced.
        tune: pure function: from the workload and the live companions that the child's own controller made
            to merge patches of these; None for none.
        urgent: types of the child's ``status.conditions`` whose coming or going people wait for, beside what
            its pods do. Other changes of the child are looked at half a second later, together. Empty where
            every change may be one that people wait for.
        reads: fields of the child's status that `observe` reads beside ``conditions``. A change of nothing
            but other fields of its status is not looked at. Empty where all of them count.
        absent_at_zero: a workload with ``replicas: 0`` has no child at all.
        merge: pure function: the rendered child with what others own inside lists that are replaced as a
            whole, taken from the live child; only for ``write="apply"``. None where there are no such.
        variants: other forms in which the same workloads can run, with the same fields and a name of their
            own; a child stays with the form it was made in.
        select: pure function: the name of the form for a new child, this one's or a variant's; None where
            there is one form.
        rules: what it needs of the cluster.
        settings: model of ``spec.plugins.<plugin name>`` in KaiwoConfig.
    """

    name: str
    kind: WorkloadKind
    child: Resource
    fields: tuple[Field, ...]
    chosen: Callable[[Workload], bool]
    max_name_length: int = 63
    name_pattern: Literal["dns1123", "dns1035"] = "dns1123"
    check: Callable[[Workload], tuple[tuple[str, str], ...]] | None = None
    allocate: Callable[[AllocationInput], Allocation | Blocked] | None = None
    render: Callable[[RenderInput], Rendered] | None = None
    observe: Callable[[Observation], Observed] | None = None
    write: Literal["create", "apply"] = "create"
    patch_paths: tuple[tuple[str, ...], ...] = ()
    mutable: tuple[str, ...] = ()
    requires: tuple[Resource, ...] = ()
    owned_paths: tuple[tuple[str, ...], ...] = ()
    secondary: tuple[Resource, ...] = ()
    frozen: Callable[[Object], object] | None = None
    tune: Callable[[Workload, Mapping[Resource, Object]], Mapping[Resource, Object]] | None = None
    urgent: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    absent_at_zero: bool = False
    merge: Callable[[Object, Object], Object] | None = None
    variants: tuple[Backend, ...] = ()
    select: Callable[[VariantInput], str] | None = None
    rules: tuple[PolicyRule, ...] = ()
    settings: type[BaseModel] | None = None

    @property
    def built(self) -> bool:
        """Whether it can run workloads; a backend may be declared (fields only) before it is built."""
        return self.allocate is not None and self.render is not None and self.observe is not None
