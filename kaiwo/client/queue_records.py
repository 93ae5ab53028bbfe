"""What is known of queues, as the client returns it and ``kaiwo queue -o json`` prints it."""

from __future__ import annotations

from kaiwo.client.record import Record


class QueueQuota(Record, frozen=True, kw_only=True):
    """The quota of one resource in one flavor. Amounts are Kubernetes quantities (``8``, ``1Ti``).

    Attributes:
        flavor: name of the flavor, a kind of node.
        resource: resource key, for example ``amd.com/gpu``.
        nominal: the queue's own quota; null where the queue may not be read.
        used: what its workloads hold, borrowed quota included.
        borrowed: the part of `used` beyond `nominal`.
        lent: own unused quota that others of the cohort hold, so that it cannot be used now.
        free: what a workload could get now without a preemption; null where it is not known.
        pending: what pending workloads request of the resource, in whichever flavor.
    """

    flavor: str
    resource: str
    nominal: str | None
    used: str
    borrowed: str
    lent: str
    free: str | None
    pending: str


class QueueNamespace(Record, frozen=True, kw_only=True):
    """A namespace whose workloads may use a queue.

    Attributes:
        namespace: its name.
        name: the name by which the queue is reached there (Kueue: of the LocalQueue).
        admitted: workloads that hold quota, as the queue system counts them.
        pending: workloads that wait, counted likewise.
        message: why nothing is admitted through it; empty when it works.
    """

    namespace: str
    name: str
    admitted: int
    pending: int
    message: str


class QueueOverview(Record, frozen=True, kw_only=True):
    """One queue.

    Attributes:
        name: what users write in ``clusterQueue``.
        cohort: the group of queues that lend quota to each other, empty for none.
        strategy: ``StrictFIFO`` (the first one is waited for), ``BestEffortFIFO`` (one that fits goes first).
        stopped: why it admits nothing at all; empty when it works.
        quotas: by flavor and resource.
        namespaces: who may use it.
        admitted: workloads that hold quota.
        pending: workloads that wait.
        readable: false where the queue itself may not be read, and only its use in some namespaces is known.
    """

    name: str
    cohort: str
    strategy: str
    stopped: str
    quotas: tuple[QueueQuota, ...]
    namespaces: tuple[QueueNamespace, ...]
    admitted: int
    pending: int
    readable: bool


class HeldAmount(Record, frozen=True, kw_only=True):
    """Quota that a workload holds or requests.

    Attributes:
        flavor: name of the flavor; empty for a request, which has none yet.
        resource: resource key.
        amount: a quantity.
    """

    flavor: str
    resource: str
    amount: str


class QueueMember(Record, frozen=True, kw_only=True):
    """The object that waits or holds quota.

    Attributes:
        kind: ``KaiwoJob``, ``KaiwoService``, or another kind where it is not Kaiwo's.
        namespace: its namespace.
        name: its name.
        user: ``spec.user``; empty where it is not known.
        child: kind and name of the queued object, where that is another one.
    """

    kind: str
    namespace: str
    name: str
    user: str
    child: str


class QueueHolder(Record, frozen=True, kw_only=True):
    """A workload that holds quota.

    Attributes:
        workload: which one.
        holds: what it holds.
        priority: the higher, the earlier.
        since: when it got the quota, RFC 3339; null where that is not known.
        ends: its end, RFC 3339; null without a known time limit.
        ends_by: the field of the time limit, empty without one.
        ends_surely: whether it is ended then; false for ``duration``, which does not end it by itself.
        state: ``reserved``, ``admitted`` or ``evicted``.
        message: why it holds quota and does not run; empty when it runs.
    """

    workload: QueueMember
    holds: tuple[HeldAmount, ...]
    priority: int
    since: str | None
    ends: str | None
    ends_by: str
    ends_surely: bool
    state: str
    message: str


class GoesFirst(Record, frozen=True, kw_only=True):
    """A workload that goes before another one, or went.

    Attributes:
        workload: which one.
        queue: its queue.
        reason: why it goes first.
    """

    workload: QueueMember
    queue: str
    reason: str


class NeededQuota(Record, frozen=True, kw_only=True):
    """What a pending workload lacks, and who holds it.

    Attributes:
        flavor: the flavor that comes nearest to the request.
        resource: resource key.
        requested: what is requested.
        free: what could be had now.
        most: what could be had if nobody used anything; less than `requested` means that it never fits.
        held_by: those who hold most of it, the largest share first; five at most.
        holders: how many hold it.
    """

    flavor: str
    resource: str
    requested: str
    free: str
    most: str
    held_by: tuple[QueueHolder, ...]
    holders: int


class QueueWait(Record, frozen=True, kw_only=True):
    """A workload that waits.

    Attributes:
        workload: which one.
        queue: the queue, empty where its name leads to none that is known.
        entrance: the name by which it is queued in its namespace (Kueue: of the LocalQueue).
        requests: what it requests.
        position: place in the queue, 1 for the first; null where it cannot be known, or takes no part.
        position_source: the kind or interface from which the position is known.
        priority: the higher, the earlier.
        created: when it was queued first, RFC 3339; null where that is not known.
        estimate: when it may start, RFC 3339; null without an estimate.
        estimate_is_latest: whether it starts then at the latest; false where that depends on a ``duration``.
        estimate_basis: what the estimate follows from, or ``no estimate: `` and the reason.
        message: the queue system's own words.
        explained: whether the following fields are filled; in a queue they are for the first fifty.
        ahead: those directly before it, five at most, and the first ones of other queues of the cohort.
        went_first: those that were queued later and hold quota, five at most.
        needs: what it lacks now, and who holds it.
    """

    workload: QueueMember
    queue: str
    entrance: str
    requests: tuple[HeldAmount, ...]
    position: int | None
    position_source: str
    priority: int
    created: str | None
    estimate: str | None
    estimate_is_latest: bool
    estimate_basis: str
    message: str
    explained: bool
    ahead: tuple[GoesFirst, ...]
    went_first: tuple[GoesFirst, ...]
    needs: tuple[NeededQuota, ...]


class QueueList(Record, frozen=True, kw_only=True):
    """All queues.

    Attributes:
        items: by name.
        unplaced: pending workloads whose queue does not exist.
        unseen: what may not be read, one sentence each.
    """

    items: tuple[QueueOverview, ...]
    unplaced: tuple[QueueWait, ...]
    unseen: tuple[str, ...]


class QueueDetails(Record, frozen=True, kw_only=True):
    """One queue with its workloads.

    Attributes:
        queue: quota and use.
        holders: workloads that hold quota, the oldest first.
        waiting: workloads that wait, in their order.
        unseen: what may not be read, one sentence each.
    """

    queue: QueueOverview
    holders: tuple[QueueHolder, ...]
    waiting: tuple[QueueWait, ...]
    unseen: tuple[str, ...]
