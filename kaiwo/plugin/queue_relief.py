"""Whether a pending workload would get its quota if others ended, in terms that fit any queue system."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from kaiwo.engine.resource import Object, Resource


@dataclass(frozen=True, slots=True)
class QuotaPods:
    """Pods that are alike and wait for quota together.

    Attributes:
        count: how many.
        spec: their spec, as far as it is kept in the cache.
    """

    count: int
    spec: Object


@dataclass(frozen=True, slots=True)
class QuotaWait:
    """What an object of a kind in `QueueSystem.owned` waits for.

    Attributes:
        pods: the pods that get their quota together.
        since: since when the queue system finds no quota for them; None while it has not looked for any.
        lacks: resources of which it says that quota is missing; empty where it names none.
    """

    pods: tuple[QuotaPods, ...]
    since: datetime | None = None
    lacks: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ReliefRequest:
    """A workload that waits.

    Attributes:
        objects: the objects of the kinds in `QueueSystem.owned` that belong to it.
        resource: the resource that it waits for, for example ``amd.com/gpu``.
        node_labels: labels of nodes with the values that it can run on; a flavor whose nodes have another
            value is of no use to it.
    """

    objects: tuple[Object, ...]
    resource: str
    node_labels: Mapping[str, frozenset[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ReliefFacts:
    """What a queue system can read when it tells who holds the quota that workloads wait for.

    Attributes:
        waiting: those that wait, by uid.
        held: the objects of the kinds in `QueueSystem.owned` of those that could be ended, by uid.
        objects: objects of the other kinds in `QueueSystem.reads` and `QueueSystem.flavor_reads`, of all
            namespaces.
    """

    waiting: Mapping[str, ReliefRequest]
    held: Mapping[str, tuple[Object, ...]]
    objects: Mapping[Resource, tuple[Object, ...]]


@dataclass(frozen=True, slots=True)
class QueueRelief:
    """What ending others gives to a waiting workload.

    Attributes:
        queue: the queue of the workload.
        sharing: the queues that share quota with it, itself included.
        members: uids of the workloads among those that could be ended that hold quota of these queues.
        place: given the uids of workloads that end, the labels of the nodes on which the queue then lets the
            workload run; None where its quota is still not enough. A superset never gives less. For a
            workload that has its quota the labels are always the same.
        priority: the higher, the earlier.
        queued_at: since when it is queued; among workloads of one priority the earlier goes first.
        strict: its queue serves nobody before those that are first, also while there is no quota for these.
    """

    queue: str
    sharing: frozenset[str]
    members: frozenset[str]
    place: Callable[[frozenset[str]], Mapping[str, str] | None]
    priority: int = 0
    queued_at: datetime | None = None
    strict: bool = False
