"""Who uses the quota of a queue system and who waits for it, in terms that fit any queue system.

A queue system fills these structures in `QueueSystem.usage`; what follows from them (who is ahead and why,
who holds what a workload needs, when it may start) is worked out in `kaiwo.workload.queues`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from kaiwo.engine.quantity import Quantity
    from kaiwo.engine.resource import Object, Resource

FlavorResource = tuple[str, str]
"""Name of a flavor (a kind of node) and of a resource, for example ``("mi300x", "amd.com/gpu")``."""


@dataclass(frozen=True, slots=True)
class UsageFacts:
    """What a queue system can read when it reports the use of its queues.

    Attributes:
        objects: objects of the kinds in `QueueSystem.usage_reads`, by resource.
        namespace: the user's namespace.
        narrowed: kinds that may be listed in `namespace` only; `objects` has those of all namespaces else.
        hidden: kinds that may not be listed at all.
        missing: kinds that the cluster does not serve.
        documents: answers of the paths in `QueueSystem.usage_paths`; one that is not allowed or not served is
            absent.
        now: the time of reading, UTC.
    """

    objects: Mapping[Resource, tuple[Object, ...]]
    now: datetime
    namespace: str
    narrowed: frozenset[Resource] = frozenset()
    hidden: frozenset[Resource] = frozenset()
    missing: frozenset[Resource] = frozenset()
    documents: Mapping[str, Object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class QueueCapacity:
    """The quota of one resource in one flavor of a queue.

    Attributes:
        flavor: name of the flavor.
        resource: resource key, for example ``amd.com/gpu``.
        nominal: the queue's own quota; None where the queue may not be read.
        used: what the workloads of the queue hold, borrowed quota included.
        borrowed: the part of `used` beyond `nominal`, which is the cohort's.
        lent: unused quota of the queue's own that others hold, so that the queue cannot use it now.
        free: what a workload of the queue could get now without a preemption; None where that is not known.
        most: what the queue could have if nobody used anything; None where that is not known.
        lendable: the part of `nominal` that others of the cohort may use while it is unused.
        pending: what pending workloads of the queue request of the resource, in whichever flavor.
    """

    flavor: str
    resource: str
    nominal: Quantity | None
    used: Quantity
    borrowed: Quantity
    lent: Quantity
    free: Quantity | None
    most: Quantity | None
    lendable: Quantity
    pending: Quantity


@dataclass(frozen=True, slots=True)
class QueueEntrance:
    """A name by which workloads of one namespace reach a queue (Kueue: a LocalQueue).

    Attributes:
        namespace: whose workloads may use it.
        name: what they write.
        queue: the queue that it leads to.
        pending: how many workloads wait, as the queue system counts them.
        admitted: how many workloads hold quota, as the queue system counts them.
        message: why nothing is admitted through it; empty when it works.
    """

    namespace: str
    name: str
    queue: str
    pending: int = 0
    admitted: int = 0
    message: str = ""


@dataclass(frozen=True, slots=True)
class QueuedObject:
    """The object that somebody created and that waits or holds quota.

    Attributes:
        kind: ``KaiwoJob``, or another kind where it is not Kaiwo's: ``Job``, ``Pod``.
        namespace: its namespace.
        name: its name.
        user: whose it is; empty where nothing shows that.
        uid: of the object that the queue system keeps for it.
        child: kind and name of the object that is queued, where that is not the object itself.
        run_id: uid of the Kaiwo workload, by the label on its pods, which anybody may have written; empty for
            an object that is not Kaiwo's.
    """

    kind: str
    namespace: str
    name: str
    user: str = ""
    uid: str = ""
    child: str = ""
    run_id: str = ""

    def __str__(self) -> str:
        """``KaiwoJob team/train``."""
        return f"{self.kind} {self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class QuotaHolder:
    """A workload that holds quota of a queue.

    Attributes:
        subject: the workload.
        queue: the queue.
        entrance: the name by which it was queued.
        amounts: what it holds.
        priority: the higher, the earlier.
        created: when it was queued first.
        since: when it got the quota; None where that is not known.
        ends: when it ends, because its time is limited; None without a limit.
        ends_by: the field that limits it, for example ``activeDeadlineSeconds``; empty without a limit.
        ends_surely: whether it is ended then; False where the field is only what its user expects.
        state: ``reserved`` (has quota and waits for a check), ``admitted`` (runs or may run), or ``evicted``
            (is being stopped, its quota becomes free).
        message: why it holds quota and does not run, empty when it runs.
    """

    subject: QueuedObject
    queue: str
    entrance: str
    amounts: Mapping[FlavorResource, Quantity]
    priority: int = 0
    created: datetime | None = None
    since: datetime | None = None
    ends: datetime | None = None
    ends_by: str = ""
    ends_surely: bool = True
    state: Literal["reserved", "admitted", "evicted"] = "admitted"
    message: str = ""


@dataclass(frozen=True, slots=True)
class QuotaShortage:
    """What a pending workload lacks: the flavor that comes nearest to what it requests of one resource.

    Attributes:
        flavor: name of the flavor.
        resource: resource key.
        requested: what it requests, at least.
        free: what it could get now.
        most: what it could get if nobody used anything; less than `requested` means that waiting is in vain.
    """

    flavor: str
    resource: str
    requested: Quantity
    free: Quantity
    most: Quantity

    @property
    def never(self) -> bool:
        """Whether the quota is too small even when nobody uses it."""
        return self.requested > self.most


@dataclass(frozen=True, slots=True)
class QueuedWorkload:
    """A workload that waits for quota.

    Attributes:
        subject: the workload.
        queue: the queue, empty where its name leads to none.
        entrance: the name by which it is queued.
        requests: what it requests, by resource.
        position: place in the queue, 1 for the first; None where it cannot be known.
        position_source: from which kind or interface the position is known.
        priority: the higher, the earlier.
        created: when it was queued first; None where that is not known.
        ordered_at: the time by which it is placed among those of its priority.
        ordered_by: what happened at that time: it was created, or evicted and so put behind later ones.
        state: ``pending``; ``inactive`` is held by its own spec or by its queue and takes no part.
        held: why it is ``inactive``, as a clause ("its LocalQueue is stopped"); empty for its own spec.
        runs_for: seconds after which it ends once it runs; None without a limit.
        ends_surely: whether it is ended then; False where that is only what its user expects.
        message: the queue system's own words about it.
        shortages: what it lacks now; empty when nothing is lacking or it is not known.
        refused: why no amount of quota lets it run, in the queue system's words; empty where quota does.
    """

    subject: QueuedObject
    queue: str
    entrance: str
    requests: Mapping[str, Quantity]
    position: int | None = None
    position_source: str = ""
    priority: int = 0
    created: datetime | None = None
    ordered_at: datetime | None = None
    ordered_by: Literal["creation", "eviction"] = "creation"
    state: Literal["pending", "inactive"] = "pending"
    runs_for: float | None = None
    ends_surely: bool = True
    message: str = ""
    shortages: tuple[QuotaShortage, ...] = ()
    refused: str = ""
    held: str = ""


@dataclass(frozen=True, slots=True)
class QueueState:
    """One queue: its quota, who holds it and who waits.

    Attributes:
        name: what users write in ``clusterQueue``.
        cohort: the group of queues that lend quota to each other, empty for none.
        cohort_root: the top of the tree of cohorts, the cohort itself where it has no parent.
        strict: the first one in the queue is waited for; otherwise later ones that fit go before it.
        stopped: why it admits nothing at all; empty when it works.
        capacities: its quotas, in the order in which flavors are tried.
        entrances: who may use it.
        holders: workloads with quota, the oldest first.
        pending: workloads that wait, in their order.
        pending_count: how many wait, as the queue system counts them: there may be more than may be read.
        holder_count: how many hold quota, counted likewise.
        readable: whether the queue itself was read; else only its name and its use in namespaces is known.
    """

    name: str
    cohort: str = ""
    cohort_root: str = ""
    strict: bool = False
    stopped: str = ""
    capacities: tuple[QueueCapacity, ...] = ()
    entrances: tuple[QueueEntrance, ...] = ()
    holders: tuple[QuotaHolder, ...] = ()
    pending: tuple[QueuedWorkload, ...] = ()
    pending_count: int = 0
    holder_count: int = 0
    readable: bool = True


@dataclass(frozen=True, slots=True)
class QueueUsage:
    """The use of all queues at one moment.

    Attributes:
        queues: sorted by name.
        unplaced: pending workloads whose queue does not exist or cannot be known.
        unseen: what may not be read and what is missing for that reason, one sentence each.
    """

    queues: tuple[QueueState, ...]
    unplaced: tuple[QueuedWorkload, ...] = ()
    unseen: tuple[str, ...] = ()

    def queue(self, name: str) -> QueueState | None:
        """The queue of a name."""
        return next((queue for queue in self.queues if queue.name == name), None)

    def sharing(self, queue: QueueState) -> tuple[QueueState, ...]:
        """The queue and those that share quota with it."""
        if not queue.cohort_root:
            return (queue,)
        return tuple(other for other in self.queues if other.cohort_root == queue.cohort_root)
