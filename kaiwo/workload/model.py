"""Input and output of the pure core: registry, facts, writes and the plan."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from kaiwo.engine.resource import CONFIG_MAP, JOB, PERSISTENT_VOLUME_CLAIM
from kaiwo.plugin.absent_plugins import absent_plugins
from kaiwo.plugin.namespace_defaults import NO_DEFAULTS
from kaiwo.workload.json_access import lenient_map

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from pydantic import BaseModel

    from kaiwo.api.plugin_fields import WorkloadKind
    from kaiwo.api.resolved_config import ResolvedConfig
    from kaiwo.api.workload import Workload
    from kaiwo.engine.resource import Object, Resource
    from kaiwo.plugin.absent_plugins import AbsentFields, AbsentPlugin
    from kaiwo.plugin.backends import Backend
    from kaiwo.plugin.diagnosis import DiagnosisRule
    from kaiwo.plugin.facts import Allocation, NodeFact
    from kaiwo.plugin.namespace_defaults import DefaultValues, NamespaceDefaults
    from kaiwo.plugin.observation import Finding, Outcome
    from kaiwo.plugin.queues import QueueFacts, QueueSystem
    from kaiwo.plugin.registry import Plugins
    from kaiwo.plugin.rendering import PodContribution, Rendered
    from kaiwo.plugin.sources import DownloadSource
    from kaiwo.plugin.vendors import GpuVendor
    from kaiwo.workload.download.progress import Progress
    from kaiwo.workload.ending.record import BeneficiaryProgress, EndingRecord
    from kaiwo.workload.monitoring.history import GpuUse
    from kaiwo.workload.storage.classes import StorageClass


@dataclass(frozen=True, slots=True)
class Registry:
    """What loaded plugins declare, as far as planning needs it.

    Attributes:
        backends: workload backends, each followed by its variants.
        vendors: GPU vendors.
        queue: the queue system in force, None without one.
        contributions: contributions to pods, in the order in which they are applied.
        sources: download sources.
        namespace_defaults: kinds of defaults for namespaces, in the order in which they count.
        diagnosis: diagnosis rules, in the order in which they are called.
        absent_fields: fields of installed plugins that are not loaded: ``("KaiwoJob", "rayJob")`` to the
            plugin.
        labels_nodes: whether a loaded plugin labels nodes with their GPU model.
        absent: installed plugins that are not loaded, by name.
    """

    backends: tuple[Backend, ...] = ()
    vendors: tuple[GpuVendor, ...] = ()
    queue: QueueSystem | None = None
    contributions: tuple[PodContribution, ...] = ()
    sources: tuple[DownloadSource, ...] = ()
    namespace_defaults: tuple[NamespaceDefaults, ...] = ()
    diagnosis: tuple[DiagnosisRule, ...] = ()
    absent_fields: AbsentFields = field(default_factory=dict)
    labels_nodes: bool = False
    absent: Mapping[str, AbsentPlugin] = field(default_factory=dict)

    def built(self, kind: WorkloadKind) -> tuple[Backend, ...]:
        """The backends that can run workloads of a kind."""
        return tuple(backend for backend in self.backends if backend.kind == kind and backend.built)

    @classmethod
    def of(cls, plugins: Plugins) -> Registry:
        """The registry of what the loader loaded."""
        return cls(
            backends=tuple(form for backend in plugins.backends for form in (backend, *backend.variants)),
            vendors=plugins.vendors,
            queue=plugins.queue_system,
            contributions=plugins.contributions,
            sources=plugins.sources,
            namespace_defaults=plugins.namespace_defaults,
            diagnosis=plugins.diagnosis_rules,
            absent_fields=plugins.absent_fields,
            labels_nodes=plugins.labels_nodes,
            absent=absent_plugins(plugins.states),
        )


@dataclass(frozen=True, slots=True)
class DeletedChild:
    """A child of the workload's that is gone.

    Attributes:
        obj: its last seen state.
        deletion_seen: a delete event, or a deletion timestamp before it vanished, was really seen; False when
            a new list just did not contain it any more.
    """

    obj: Object
    deletion_seen: bool


@dataclass(frozen=True, slots=True)
class ApiRejection:
    """Why the last write for this workload is not sent again, while nothing changed since.

    Attributes:
        resource: kind of the object that was to be written.
        status: HTTP status code (422).
        reason: the API server's reason (``Invalid``).
        message: the API server's own text, with field paths.
    """

    resource: Resource
    status: int
    reason: str
    message: str


AUXILIARIES: tuple[Resource, ...] = (PERSISTENT_VOLUME_CLAIM, CONFIG_MAP, JOB)
"""Kinds of what a workload owns beside its child and the child's secondary resources."""


def _all_served(resource: Resource) -> bool:  # noqa: ARG001 (the default of a callable that takes one)
    return True


@dataclass(frozen=True, slots=True)
class MonitoringFacts:
    """What resource monitoring knows of a workload.

    Attributes:
        use: of its GPUs, None while nothing was read.
        monotonic: the time by a clock that is not set while the process runs.
    """

    use: GpuUse | None
    monotonic: datetime


@dataclass(frozen=True, slots=True)
class Facts:
    """What a plan may depend on beside the workload.

    Attributes:
        now: the moment of planning, UTC.
        config: the configuration in force.
        nodes: the cluster's nodes and those that an autoscaler can bring.
        priority_classes: names of Kubernetes PriorityClasses, None when they are not known (no cluster).
        storage_classes: StorageClasses by name, None when they are not known.
        served: whether the cluster serves a kind.
        unreadable: the kinds that the operator may not list, each with the API server's words; nothing is
            known of their objects.
        failing: the kinds whose list fails, each with why; likewise.
        live: the object under the child's name, ours or not; None when there is none.
        made: uids of those live objects that Kaiwo made: its field manager wrote the record on them.
        pods: live pods of the workload's child.
        gone_pods: its last failed pods that no longer exist, as they were.
        download_pods: live pods of its download Job.
        progress: how far the running download is, None while nobody knows.
        auxiliaries: live objects of `AUXILIARIES`, and the secondary resources, by kind and name.
        missing_child: a child of ours that is gone, None when there was none since the operator runs.
        queue_facts: what the queue system may read, None without one.
        download_queue_facts: the same about the download Job, while there is no child.
        missing_queue: the plugin of the queue system that was in force and is not loaded, empty for none.
        owners: paths among the backend's ``owned_paths`` to the field manager that owns them on the child.
        rejection: see :class:`ApiRejection`.
        warning_event: the newest Warning event about an object, None when it was not read.
        warning_event_uid: uid of that object.
        settings: settings from KaiwoConfig, by name of the plugin.
        monitoring: what is known of the use of its GPUs, None where monitoring is off.
        namespace_defaults: what its namespace gives to workloads that have not started.
        beneficiary: whether the workload that it was preempted for still waits; None while nobody knows.
    """

    now: datetime
    config: ResolvedConfig
    nodes: tuple[NodeFact, ...] = ()
    priority_classes: frozenset[str] | None = None
    storage_classes: Mapping[str, StorageClass] | None = None
    served: Callable[[Resource], bool] = _all_served
    unreadable: Mapping[Resource, str] = field(default_factory=dict)
    failing: Mapping[Resource, str] = field(default_factory=dict)
    live: Object | None = None
    made: frozenset[str] = frozenset()
    pods: tuple[Object, ...] = ()
    gone_pods: tuple[Object, ...] = ()
    download_pods: tuple[Object, ...] = ()
    progress: Progress | None = None
    auxiliaries: Mapping[tuple[Resource, str], Object] = field(default_factory=dict)
    missing_child: DeletedChild | None = None
    queue_facts: QueueFacts | None = None
    download_queue_facts: QueueFacts | None = None
    missing_queue: str = ""
    owners: Mapping[tuple[str, ...], str] = field(default_factory=dict)
    rejection: ApiRejection | None = None
    warning_event: Finding | None = None
    warning_event_uid: str = ""
    settings: Mapping[str, BaseModel] = field(default_factory=dict)
    monitoring: MonitoringFacts | None = None
    namespace_defaults: DefaultValues = NO_DEFAULTS
    beneficiary: BeneficiaryProgress | None = None

    def warning_event_of(self, obj: Object | None) -> Finding | None:
        """The newest Warning event about a live object, None when it was not read."""
        uid = lenient_map(lenient_map(obj).get("metadata")).get("uid")
        return self.warning_event if uid and uid == self.warning_event_uid else None


@dataclass(frozen=True, slots=True)
class PlanContext:
    """One workload with everything its plan depends on.

    Attributes:
        workload: the workload.
        registry: loaded declarations.
        facts: what is known of the cluster.
        backend: the selected backend.
        switched: see :class:`kaiwo.workload.backend_selection.BackendChoice`.
        adopted: the workload was made for an object that a user made, and is only observed.
    """

    workload: Workload
    registry: Registry
    facts: Facts
    backend: Backend
    switched: str = ""
    adopted: bool = False


@dataclass(frozen=True, slots=True)
class Create:
    """POST an object once."""

    resource: Resource
    obj: Object


@dataclass(frozen=True, slots=True)
class Apply:
    """Create or change an object by server-side apply."""

    resource: Resource
    obj: Object


@dataclass(frozen=True, slots=True)
class Patch:
    """Merge-patch named keys of exactly the object with this uid."""

    resource: Resource
    namespace: str
    name: str
    uid: str
    body: Object


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete exactly the object with this uid."""

    resource: Resource
    namespace: str
    name: str
    uid: str
    propagation: Literal["Background", "Foreground", "Orphan"] = "Background"


Write: TypeAlias = Create | Apply | Patch | Delete


@dataclass(frozen=True, slots=True)
class PlannedEvent:
    """A Kubernetes Event to record about the workload.

    Attributes:
        type: ``Normal`` or ``Warning``.
        reason: CamelCase word (``WorkloadRunning``).
        message: one line.
    """

    type: Literal["Normal", "Warning"]
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class ChildRecord:
    """What the status records of the child.

    Attributes:
        uid: uid of the child, empty when there is none, None to keep the recorded one.
        kind: its kind.
        backend: name of its backend.
        allocation: its split of GPUs, None to keep the recorded one.
        queue: the queue it was submitted to, also while there is no child any more; empty without one.
    """

    uid: str | None = ""
    kind: str = ""
    backend: str = ""
    allocation: Allocation | None = None
    queue: str = ""


NO_CHILD = ChildRecord()
"""There is certainly no child, so that what was recorded of an earlier one is dropped."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do for a workload now.

    The host executes the writes, puts the answers into the facts and plans again; a plan whose writes are
    done has none. Then it writes the statuses.

    Attributes:
        outcome: what the workload has come to; None where the status only follows the generation.
        child: what the status records of the child, None to keep what was recorded.
        writes: in this order.
        statuses: complete documents for ``status``, in this order, usually none or one; several when steps
            were missed. Keys that are absent are to be removed. Empty when the status is right as it is.
        events: one per transition among the statuses, and new warnings.
        warnings: what was ignored or overridden, one sentence each.
        backend: name of the selected backend, empty when none serves the workload.
        rendered: the objects as they would be created, in order, with the origins of their values.
        later: what is written once the downloads succeeded, should nothing else change until then.
        follow: name of the pod whose log has the progress of the download, empty for none.
        status_delay: seconds for which a new status is not written yet, None to write it now.
        utilization: ``status.utilization``, empty for none, None to keep the recorded one.
        ending: the new ``status.termination``, None to keep the recorded one.
    """

    outcome: Outcome | None = None
    child: ChildRecord | None = None
    writes: tuple[Write, ...] = ()
    statuses: tuple[Object, ...] = ()
    events: tuple[PlannedEvent, ...] = ()
    warnings: tuple[str, ...] = ()
    backend: str = ""
    rendered: tuple[Rendered, ...] = ()
    later: tuple[Write, ...] = ()
    follow: str = ""
    status_delay: float | None = None
    utilization: Object | None = None
    ending: EndingRecord | None = None

    @property
    def requeue_after(self) -> float | None:
        """Seconds after which to plan again without an event, None for never."""
        return self.outcome.requeue_after if self.outcome is not None else None

    @property
    def needs_events(self) -> Object | None:
        """The live object whose newest Warning event is needed for another plan, None for none."""
        return self.outcome.needs_events if self.outcome is not None else None
