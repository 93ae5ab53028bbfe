"""The plugin ``kueue``: the queue system Kueue, and the KaiwoQueueConfig that describes its objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.plugin import hookimpl
from kaiwo.plugin.controllers import CustomKind, ExtraController
from kaiwo.plugin.kit.kinds import NAMESPACE
from kaiwo.plugin.kit.names import SINGLETON
from kaiwo.plugin.queue_setup import QueueSetup
from kaiwo.plugin.queues import QueueSystem
from kaiwo.plugin.rbac import PolicyRule
from kaiwo_kueue import kinds
from kaiwo_kueue.holding import QUEUE_REASONS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pydantic import BaseModel

    from kaiwo.plugin.facts import Blocked
    from kaiwo.plugin.kit.errors import Problem
    from kaiwo.plugin.kit.kinds import Object, Resource
    from kaiwo.plugin.kit.workload import Workload
    from kaiwo.plugin.queue_relief import QueueRelief, QuotaWait, ReliefFacts
    from kaiwo.plugin.queue_setup import SetupFacts, SetupPlan
    from kaiwo.plugin.queue_usage import QueueUsage, UsageFacts
    from kaiwo.plugin.queues import Admission, QueueAssignment, QueueFacts

KAIWO_API = 1

_READ = ("get", "list", "watch")
_WHY_QUEUES = "a workload's queue and priority class are looked up"
_QUEUE_RULES = (
    PolicyRule((kinds.GROUP,), ("workloads",), _READ, "admission is read from Workloads", namespaced=True),
    PolicyRule((kinds.GROUP,), ("localqueues",), _READ, _WHY_QUEUES, namespaced=True),
    PolicyRule((kinds.GROUP,), ("clusterqueues", "workloadpriorityclasses"), _READ, _WHY_QUEUES),
    PolicyRule(
        (kinds.GROUP,), ("resourceflavors", "topologies"), _READ, "a queue's topology levels are read"
    ),
    PolicyRule((kinds.GROUP,), ("cohorts",), _READ, "quota of cohorts counts when a workload is preempted"),
    PolicyRule(("",), ("namespaces",), _READ, "Kueue manages labelled namespaces only"),
    PolicyRule(("kaiwo.silogen.ai",), ("kaiwoqueueconfigs",), _READ, "it lists the queues"),
)
_SYNC_RULES = (
    *(
        PolicyRule(
            (kinds.GROUP,),
            (kind.plural,),
            (*_READ, "create", "patch", "delete"),
            "they are created as the KaiwoQueueConfig describes them",
            namespaced=kind.namespaced,
        )
        for kind in kinds.SYNCED
    ),
    PolicyRule(
        ("kaiwo.silogen.ai",),
        ("kaiwoqueueconfigs",),
        (*_READ, "create", "patch"),
        "a default one is created from the nodes, and follows them",
    ),
    PolicyRule(
        ("kaiwo.silogen.ai",),
        ("kaiwoqueueconfigs/status",),
        ("patch",),
        "the result of the synchronization is reported",
    ),
    PolicyRule(
        ("",),
        ("namespaces",),
        ("patch",),
        "namespaces with queued workloads are labelled",
        labels=(kinds.NAMESPACE_LABEL,),
        setting="labelNamespaces",
    ),
    PolicyRule(("",), ("nodes",), _READ, "quotas and flavors are made from labelled nodes"),
    PolicyRule(
        ("apiextensions.k8s.io",),
        ("customresourcedefinitions",),
        ("get",),
        "how many flavors a queue takes is read from Kueue's CRD",
    ),
)


def assign(workload: Workload, facts: QueueFacts) -> QueueAssignment | Blocked:
    """The labels of a queued object, or why it cannot be queued."""
    from kaiwo_kueue.queue_assignment import assign as assign_queue

    return assign_queue(workload, facts)


def admission(child: Object, facts: QueueFacts) -> Admission | None:
    """The admission of a live child by Kueue."""
    from kaiwo_kueue.admission import admission as read_admission

    return read_admission(child, facts)


def manages(kind: Resource, facts: QueueFacts) -> bool:
    """Whether Kueue queues objects of a kind by itself."""
    from kaiwo_kueue.queue_assignment import manages as manages_kind

    return manages_kind(kind, facts)


def is_changing(child: Object) -> bool:
    """Whether Kueue is about to suspend a Job."""
    from kaiwo_kueue.admission import is_stopping

    return is_stopping(child)


def fewest_pods(child: Object) -> int | None:
    """With how many pods Kueue starts an object."""
    from kaiwo_kueue.job_pods import fewest_pods as count

    return count(child)


def merge_live(desired: Object, live: Object) -> Object:
    """A Job with the parallelism with which Kueue admitted it."""
    from kaiwo_kueue.job_pods import with_admitted_parallelism

    return with_admitted_parallelism(desired, live)


def queues(facts: QueueFacts) -> frozenset[str] | None:
    """Names of the queues that workloads can name."""
    from kaiwo_kueue.queue_assignment import queues as read_queues

    return read_queues(facts)


def writers(settings: BaseModel | None) -> tuple[str, ...]:
    """The user name of Kueue's controller."""
    from kaiwo_kueue.settings import KueueSettings

    found = settings if isinstance(settings, KueueSettings) else KueueSettings()
    return (found.controller_account,)


def usage(facts: UsageFacts) -> QueueUsage:
    """The quota of all queues, its holders and who waits."""
    from kaiwo_kueue.usage import usage as read_usage

    return read_usage(facts)


def waiting(workload: Object) -> QuotaWait | None:
    """What a Workload waits for."""
    from kaiwo_kueue.relief import waiting as read_waiting

    return read_waiting(workload)


def relief(facts: ReliefFacts) -> Mapping[str, QueueRelief]:
    """What ending other workloads gives to those that wait for quota."""
    from kaiwo_kueue.relief import relief as read_relief

    return read_relief(facts)


def usage_paths(facts: UsageFacts) -> tuple[tuple[str, ...], ...]:
    """Paths that show positions where not all Workloads may be read."""
    from kaiwo_kueue.pending_order import usage_paths as visibility_paths

    return visibility_paths(facts)


def flavors(objects: Sequence[Object]) -> dict[str, dict[str, str]]:
    """The labels of the nodes of each ResourceFlavor, by its name."""
    from kaiwo_kueue.usage import flavor_labels

    return flavor_labels(objects)


def plan_setup(facts: SetupFacts) -> SetupPlan:
    """The default set-up of Kueue's queues."""
    from kaiwo_kueue.setup import plan_setup as plan

    return plan(facts)


def check_config(spec: Object) -> Sequence[Problem]:
    """What cannot be used of the spec of a KaiwoQueueConfig."""
    from kaiwo_kueue.quota_values import quantity_problems

    return quantity_problems(spec)


@hookimpl
def kaiwo_queue_systems() -> list[QueueSystem]:
    """The queue system."""
    from kaiwo_kueue.projections import NAMESPACE_PROJECTION, WORKLOAD_PROJECTION
    from kaiwo_kueue.settings import KueueSettings

    return [
        QueueSystem(
            name="kueue",
            assign=assign,
            admission=admission,
            queue_label=kinds.QUEUE_LABEL,
            writers=writers,
            manages=manages,
            is_changing=is_changing,
            fewest_pods=fewest_pods,
            merge_live=merge_live,
            queues=queues,
            usage=usage,
            usage_reads=(kinds.WORKLOAD, kinds.LOCAL_QUEUE, kinds.CLUSTER_QUEUE, kinds.COHORT),
            usage_paths=usage_paths,
            waiting=waiting,
            relief=relief,
            flavors=flavors,
            flavor_reads=(kinds.RESOURCE_FLAVOR,),
            reads=(
                kinds.WORKLOAD,
                kinds.LOCAL_QUEUE,
                kinds.CLUSTER_QUEUE,
                kinds.RESOURCE_FLAVOR,
                kinds.TOPOLOGY,
                kinds.COHORT,
                kinds.PRIORITY_CLASS,
                kinds.QUEUE_CONFIG,
                NAMESPACE,
            ),
            owned=(kinds.WORKLOAD,),
            setup=QueueSetup(
                plan_setup,
                reads=(kinds.QUEUE_CONFIG, kinds.TOPOLOGY, kinds.RESOURCE_FLAVOR, kinds.CLUSTER_QUEUE),
            ),
            urgent=("Admitted", "Evicted"),
            queue_reasons=QUEUE_REASONS,
            projections={kinds.WORKLOAD: WORKLOAD_PROJECTION, NAMESPACE: NAMESPACE_PROJECTION},
            rules=_QUEUE_RULES,
            settings=KueueSettings,
        )
    ]


@hookimpl
def kaiwo_controllers() -> list[ExtraController]:
    """The controller that keeps Kueue's objects as the KaiwoQueueConfig describes them."""
    from kaiwo_kueue.models import QueueConfigSpec, QueueConfigStatus
    from kaiwo_kueue.settings import KueueSettings

    kind = CustomKind(
        resource=kinds.QUEUE_CONFIG,
        spec=QueueConfigSpec,
        status=QueueConfigStatus,
        printer_columns=(
            {"name": "Status", "type": "string", "jsonPath": ".status.status"},
            {
                "name": "Reason",
                "type": "string",
                "jsonPath": '.status.conditions[?(@.type=="Ready")].reason',
            },
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        ),
        description="KaiwoQueueConfig describes Kueue's queues, flavors and priority classes; only the one "
        "named kaiwo counts.",
        singleton=SINGLETON,
        check=check_config,
    )
    return [
        ExtraController(
            name="kueue",
            build="kaiwo_kueue.controller:build",
            kinds=(kind,),
            rules=_SYNC_RULES,
            settings=KueueSettings,
            removals="kaiwo_kueue.removals:removals",
        )
    ]
