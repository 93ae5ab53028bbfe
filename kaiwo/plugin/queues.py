"""Queue systems, which decide when a workload may start."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from kaiwo.plugin.declaration import Declaration

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from pydantic import BaseModel

    from kaiwo.api.workload import Workload
    from kaiwo.engine.cached_object import Projection
    from kaiwo.engine.resource import Object, Resource
    from kaiwo.plugin.facts import Blocked
    from kaiwo.plugin.queue_relief import QueueRelief, QuotaWait, ReliefFacts
    from kaiwo.plugin.queue_setup import QueueSetup
    from kaiwo.plugin.queue_usage import QueueUsage, UsageFacts
    from kaiwo.plugin.rbac import PolicyRule


@dataclass(frozen=True, slots=True)
class QueueAssignment:
    """What a queued object carries.

    Attributes:
        queue: the queue's name, for the workload's status and the command line.
        labels: labels for the created object, for example ``kueue.x-k8s.io/queue-name``.
        pod_annotations: annotations for its pod templates.
        suspend: whether the object is created suspended.
        knows_priority: whether ``spec.priorityClass`` names a priority class of the queue system's own; if it
            does not, a Kubernetes PriorityClass of that name must exist.
        priorities: names of the queue system's own priority classes, for advice about an unknown name.
    """

    queue: str
    labels: Mapping[str, str]
    pod_annotations: Mapping[str, str] = field(default_factory=dict)
    suspend: bool = True
    knows_priority: bool = False
    priorities: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Admission:
    """The admission of one child by the queue system.

    Attributes:
        state: ``pending`` (waits), ``admitted``, ``evicted`` (was admitted, is being stopped or waits again),
            ``finished``, or ``unmanaged`` (it has a queue and no queue system manages it).
        reason: CamelCase word for the workload's reason.
        message: the queue system's own text.
        since: RFC 3339 time of the last change, empty if unknown.
        requeue_after: seconds after which to reconcile again without an event, None for never.
        undecided: the queue system has not reconciled it yet; it is worth a moment's wait.
        not_ready: it was evicted because its pods were not ready; what was wrong with them is told besides.
        pods_wait: pods of the child are queued one by one, some of them wait, and the message says why.
        unqueued: it waits because it names no queue, and the queue system holds such objects. Kaiwo gives its
            download Jobs the workload's queue then.
    """

    state: Literal["pending", "admitted", "evicted", "finished", "unmanaged"]
    reason: str
    message: str
    since: str = ""
    requeue_after: float | None = None
    undecided: bool = False
    pods_wait: bool = False
    not_ready: bool = False
    unqueued: bool = False


def _unknown(_: str) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """What a queue system can read when it assigns or reads admission.

    Attributes:
        objects: objects of the kinds it declared in ``reads``, by resource: of namespaced kinds those in the
            workload's namespace, of namespaces only the workload's own, of the kinds in ``owned`` those that
            belong to the workload's child or pods. A kind that is not there is not known at all.
        default_queue: the configured default queue name.
        settings: the plugin's validated settings, or None.
        missing: kinds of ``reads`` that the cluster does not serve.
        pods: live pods of the workload's run.
        owner_of: returns kind, namespace and name of the owner of an object in ``owned``, given its uid and
            whosever it is (``Job team/train``); empty where it is not known.
        now: the time of the reconciliation, UTC; None for a plan that is not carried out, so that nothing is
            waited for.
    """

    objects: Mapping[Resource, tuple[Object, ...]]
    default_queue: str
    settings: BaseModel | None = None
    missing: frozenset[Resource] = frozenset()
    pods: tuple[Object, ...] = ()
    now: datetime | None = None
    owner_of: Callable[[str], str] = _unknown


@dataclass(frozen=True, slots=True)
class QueueSystem(Declaration):
    """A queue system. At most one can be loaded; two are an error that names both.

    Attributes:
        name: short name (``kueue``).
        assign: pure function: the labels for a workload's child, or why it cannot be queued.
        admission: pure function: the admission of a live child; None when nothing is known yet.
        queue_label: key of the label by which an object names its queue; empty for a queue system without
            one, which then queues no adopted objects.
        writers: pure function from its settings: the user names under which its own controller writes to
            objects. It may change the GPU requests of managed objects; None for a queue system that never
            does.
        reads: kinds it needs in the cache.
        owned: those of them whose objects each belong to one child or pod, for example its place in a queue.
        urgent: types of the ``status.conditions`` of objects in ``owned`` whose coming or going people wait
            for; other changes of these objects are reconciled half a second later, together.
        queue_reasons: reasons of an admission whose message says what is wrong with a queue; such workloads
            are reconciled when the queue changes.
        manages: pure function: whether objects of a kind are queued by the queue system itself as it runs in
            this cluster; None for a queue system that cannot tell.
        is_changing: pure function: whether the queue system is in the middle of changing a live child. A
            change of its workload waits for the end. None for one that changes children in a single write.
        fewest_pods: pure function: with how many pods, at least, an object is started that has one pod
            template and is queued as a whole; None for any other, and where that is not known. A backend
            gets it in its `AllocationInput`.
        merge_live: pure function from a rendered child, as the backend merged it, and the live one: the child
            with what the queue system decides on the live one, the very same object where it decides nothing.
            None for one that decides nothing.
        queues: pure function: names of the queues that workloads can name, in any namespace; None where that
            is not known. Its facts have objects of all namespaces, and none that belong to a workload. By it
            the default queue in KaiwoConfig is checked.
        usage: pure function: quota, its holders and the order of those that wait, for the command line; None
            for a queue system that cannot tell.
        usage_reads: kinds that `usage` needs; who calls it reads them whole, as far as that is allowed.
        usage_paths: pure function: groups of API paths to GET besides, given what was read; of each group the
            first that answers counts. They show what no object shows, for example positions.
        flavors: pure function: the labels of the nodes of each flavor, by its name, from the objects of
            `flavor_reads`; None for a queue system without flavors.
        flavor_reads: the kind that `flavors` needs, in a tuple.
        waiting: pure function: what an object of a kind in `owned` waits for; None for one that has its quota
            or cannot get any. None for a queue system that cannot tell.
        relief: pure function: by uid of each waiting workload what it would get if others ended; those that
            the queue system would not serve, whoever ends, are left out. Without this function nothing is
            ended for a workload that waits for quota.
        setup: the default set-up that ``kaiwo init`` shows and writes; None without one.
        projections: what is kept of each object of a kind in ``reads``; all of it without a projection.
        rules: what it needs of the cluster.
    """

    name: str
    assign: Callable[[Workload, QueueFacts], QueueAssignment | Blocked]
    admission: Callable[[Object, QueueFacts], Admission | None]
    queue_label: str = ""
    writers: Callable[[BaseModel | None], tuple[str, ...]] | None = None
    reads: tuple[Resource, ...] = ()
    owned: tuple[Resource, ...] = ()
    urgent: tuple[str, ...] = ()
    manages: Callable[[Resource, QueueFacts], bool] | None = None
    is_changing: Callable[[Object], bool] | None = None
    fewest_pods: Callable[[Object], int | None] | None = None
    merge_live: Callable[[Object, Object], Object] | None = None
    queues: Callable[[QueueFacts], frozenset[str] | None] | None = None
    usage: Callable[[UsageFacts], QueueUsage] | None = None
    usage_reads: tuple[Resource, ...] = ()
    flavors: Callable[[Sequence[Object]], Mapping[str, Mapping[str, str]]] | None = None
    flavor_reads: tuple[Resource, ...] = ()
    usage_paths: Callable[[UsageFacts], tuple[tuple[str, ...], ...]] | None = None
    waiting: Callable[[Object], QuotaWait | None] | None = None
    relief: Callable[[ReliefFacts], Mapping[str, QueueRelief]] | None = None
    setup: QueueSetup | None = None
    projections: Mapping[Resource, Projection] = field(default_factory=dict)
    rules: tuple[PolicyRule, ...] = ()
    queue_reasons: tuple[str, ...] = ()
