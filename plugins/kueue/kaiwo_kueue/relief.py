"""Whether Kueue would admit a pending workload if others ended: the rules of its scheduler, on figures."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from kaiwo.plugin.kit.allocation import pod_requests
from kaiwo.plugin.kit.json_access import lenient_map, lenient_maps, lenient_text, name_of
from kaiwo.plugin.kit.values import parse_time
from kaiwo.plugin.queue_relief import QueueRelief, QuotaPods, QuotaWait
from kaiwo_kueue.admission import is_over
from kaiwo_kueue.conversion import to_v1beta2
from kaiwo_kueue.flavor_fit import lets_in
from kaiwo_kueue.kinds import CLUSTER_QUEUE, COHORT, LOCAL_QUEUE, RESOURCE_FLAVOR
from kaiwo_kueue.quota_tree import quota_nodes
from kaiwo_kueue.refusals import is_refused
from kaiwo_kueue.usage import flavor_labels, stopped, used_of
from kaiwo_kueue.workload_usage import created_of, held, namespace_of, priority, spec_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kaiwo.plugin.kit.kinds import Object
    from kaiwo.plugin.queue_relief import ReliefFacts, ReliefRequest
    from kaiwo.plugin.queue_usage import FlavorResource
    from kaiwo_kueue.quota_tree import QuotaNode

    Amounts = dict[FlavorResource, int]


_NO_QUOTA: Final = re.compile(r"insufficient (?:unused )?quota for (\S+) in ")


def waiting(workload: Object) -> QuotaWait | None:
    """What a Workload waits for; None for one that has its quota, is over or is not to run."""
    conditions = _conditions(workload)
    if not _is_pending(workload) or is_over(conditions):
        return None
    pods = [
        QuotaPods(_count(pod_set), lenient_map(lenient_map(pod_set.get("template")).get("spec")))
        for pod_set in lenient_maps(spec_of(workload).get("podSets"))
    ]
    reserved = next((item for item in conditions if item.get("type") == "QuotaReserved"), {})
    message = lenient_text(reserved.get("message"))
    return QuotaWait(
        tuple(pods), parse_time(reserved.get("lastTransitionTime")), frozenset(_NO_QUOTA.findall(message))
    )


def relief(facts: ReliefFacts) -> dict[str, QueueRelief]:
    """What ending others gives to each waiting workload; nothing for those that Kueue would not admit."""
    queues = {name_of(obj): obj for obj in facts.objects.get(CLUSTER_QUEUE, ())}
    entrances = {
        (namespace_of(obj), name_of(obj)): _Entrance(
            lenient_text(spec_of(obj).get("clusterQueue")),
            is_open=not stopped(spec_of(obj), lenient_map(obj.get("status"))),
        )
        for obj in facts.objects.get(LOCAL_QUEUE, ())
    }
    used = {queue: used_of(obj) for queue, obj in queues.items()}
    read = _Read(
        queues=queues,
        entrances=entrances,
        labels=flavor_labels(facts.objects.get(RESOURCE_FLAVOR, ())),
        flavors={name_of(obj): spec_of(obj) for obj in facts.objects.get(RESOURCE_FLAVOR, ())},
        tree=_Tree(quota_nodes(queues.values(), facts.objects.get(COHORT, ()), used)),
        amounts={uid: _held(objects) for uid, objects in facts.held.items()},
    )
    found = {uid: _relief(request, read) for uid, request in facts.waiting.items()}
    return {uid: answer for uid, answer in found.items() if answer is not None}


@dataclass(frozen=True, slots=True)
class _Entrance:
    """A LocalQueue: the ClusterQueue that it leads to, and whether it takes workloads."""

    queue: str
    is_open: bool


@dataclass(frozen=True, slots=True)
class _Read:
    """What is the same for all that wait: queues, flavors, quotas, and what others hold by queue."""

    queues: Mapping[str, Object]
    entrances: Mapping[tuple[str, str], _Entrance]
    labels: Mapping[str, Mapping[str, str]]
    flavors: Mapping[str, Object]
    tree: _Tree
    amounts: Mapping[str, Mapping[str, Amounts]]
    members: dict[frozenset[str], frozenset[str]] = field(default_factory=dict)
    specs: dict[str, Object] = field(default_factory=dict)

    def spec(self, queue: str) -> Object:
        """The spec of a queue in the newest version."""
        if queue not in self.specs:
            self.specs[queue] = to_v1beta2(CLUSTER_QUEUE, spec_of(self.queues[queue]))
        return self.specs[queue]


def _relief(request: ReliefRequest, read: _Read) -> QueueRelief | None:
    live = [obj for obj in request.objects if not is_over(_conditions(obj))]
    pending = [obj for obj in live if _is_pending(obj)]
    first = next(iter(pending or live), None)
    if first is None:
        return None
    place = namespace_of(first), lenient_text(spec_of(first).get("queueName"))
    entrance = read.entrances.get(place, _Entrance("", is_open=True))
    name = _cluster_queue(first) or entrance.queue
    if name not in read.queues:
        return None
    sharing = read.tree.sharing(name)
    if sharing not in read.members:
        read.members[sharing] = frozenset(
            uid for uid, holds in read.amounts.items() if not sharing.isdisjoint(holds)
        )
    members = read.members[sharing]
    if not pending:
        where = _given(live, request.resource, read.labels)
        return QueueRelief(name, sharing, members, lambda _: where, priority(first), created_of(first))
    spec = read.spec(name)
    if stopped(spec, lenient_map(read.queues[name].get("status"))) or not entrance.is_open:
        return None
    if any(map(_is_left_out, pending)):
        return None
    quota = _Quota(read.tree, name, spec, [item for obj in pending for item in _pod_sets(obj)], read.flavors)
    quota.exclude(read.labels, request)

    def placed(ended: frozenset[str]) -> Mapping[str, str] | None:
        flavor = quota.flavor([read.amounts[uid] for uid in ended if uid in members], request.resource)
        return None if flavor is None else read.labels.get(flavor, {})

    strict = spec.get("queueingStrategy") == "StrictFIFO"
    return QueueRelief(name, sharing, members, placed, priority(first), created_of(first), strict)


class _Tree:
    """The tree of quotas, in which some of what is used can be taken away."""

    def __init__(self, nodes: Mapping[str, QuotaNode]) -> None:
        self.nodes = nodes
        self._used = {name: dict(node.used) for name, node in nodes.items()}
        self._changed: set[str] = set()
        self._roots: dict[str, set[str]] = {}
        for name, node in nodes.items():
            self._roots.setdefault(node.root().name if node.parent else f"queue {name}", set()).add(name)
        self._sharing = {name: frozenset(names) for names in self._roots.values() for name in names}

    def sharing(self, queue: str) -> frozenset[str]:
        """The queues that share quota with one, itself included."""
        return self._sharing[queue]

    def free(self, freed: Mapping[str, Amounts]) -> None:
        """Take away what is freed, and nothing that was taken away before."""
        for queue in {*self._changed, *freed}:
            without = freed.get(queue, {})
            self.nodes[queue].use(
                {key: max(0, amount - without.get(key, 0)) for key, amount in self._used[queue].items()}
            )
        self._changed = set(freed)


class _Quota:
    """What one waiting workload gets of the quota."""

    def __init__(
        self,
        tree: _Tree,
        queue: str,
        spec: Object,
        pod_sets: Sequence[_PodSet],
        flavors: Mapping[str, Object],
    ) -> None:
        self._tree = tree
        self._queue = tree.nodes[queue]
        self._sharing = tree.sharing(queue)
        self._pod_sets = pod_sets
        self._groups = [
            [
                (lenient_text(flavor.get("name")), _names(flavor))
                for flavor in lenient_maps(group.get("flavors"))
            ]
            for group in lenient_maps(spec.get("resourceGroups"))
        ]
        keys = [
            {key for name, _ in group for key in lenient_map(flavors.get(name, {}).get("nodeLabels"))}
            for group in self._groups
        ]
        self._closed = [
            frozenset(
                name
                for group, known in zip(self._groups, keys, strict=True)
                for name, _ in group
                if name in flavors and not lets_in(flavors[name], known, pods.spec)
            )
            for pods in pod_sets
        ]
        self._known: dict[frozenset[tuple[str, FlavorResource, int]], dict[str, str] | None] = {}

    def exclude(self, labels: Mapping[str, Mapping[str, str]], request: ReliefRequest) -> None:
        """Leave out flavors of nodes on which the pods cannot run."""
        self._groups = [
            [
                (flavor, resources)
                for flavor, resources in group
                if all(
                    key not in labels.get(flavor, {}) or labels[flavor][key] in values
                    for key, values in request.node_labels.items()
                    if request.resource in resources
                )
            ]
            for group in self._groups
        ]

    def flavor(self, ended: Iterable[Mapping[str, Amounts]], resource: str) -> str | None:
        """The flavor of a resource that is assigned once these amounts by queue are free; None if none is."""
        freed: dict[str, Amounts] = {}
        for by_queue in ended:
            for queue, amounts in by_queue.items():
                if queue not in self._sharing:
                    continue
                into = freed.setdefault(queue, {})
                for key, amount in amounts.items():
                    into[key] = into.get(key, 0) + amount
        known = frozenset(
            (queue, key, amount) for queue, amounts in freed.items() for key, amount in amounts.items()
        )
        if known not in self._known:
            self._known[known] = self._assigned(freed)
        found = self._known[known]
        return None if found is None else found.get(resource)

    def _assigned(self, freed: Mapping[str, Amounts]) -> dict[str, str] | None:
        """The flavor of each resource of all pod sets; None where one does not fit."""
        self._tree.free(freed)
        taken: Amounts = {}
        assigned: dict[str, str] = {}
        for pods, closed in zip(self._pod_sets, self._closed, strict=True):
            requests = pods.requests
            covered: set[str] = set()
            for group in self._groups:
                names = {name for _, resources in group for name in resources} & requests.keys()
                if not names:
                    continue
                usable = [item for item in group if item[0] not in closed]
                flavor = self._first(usable, {name: requests[name] for name in names}, taken)
                if flavor is None:
                    return None
                covered |= names
                assigned |= dict.fromkeys(names, flavor)
                for name in names:
                    taken[flavor, name] = taken.get((flavor, name), 0) + requests[name]
            if requests.keys() - covered:
                return None
        return assigned

    def _first(
        self, group: Iterable[tuple[str, frozenset[str]]], requests: Mapping[str, int], taken: Amounts
    ) -> str | None:
        for flavor, resources in group:
            if requests.keys() <= resources and all(
                self._queue.free((flavor, name)) - taken.get((flavor, name), 0) >= amount
                for name, amount in requests.items()
            ):
                return flavor
        return None


def _names(flavor: Object) -> frozenset[str]:
    return frozenset(lenient_text(item.get("name")) for item in lenient_maps(flavor.get("resources")))


def _conditions(workload: Object) -> list[Object]:
    return lenient_maps(lenient_map(workload.get("status")).get("conditions"))


def _is_pending(workload: Object) -> bool:
    return not _cluster_queue(workload) and spec_of(workload).get("active") is not False


def _cluster_queue(workload: Object) -> str:
    """The ClusterQueue of an admission."""
    return lenient_text(lenient_map(lenient_map(workload.get("status")).get("admission")).get("clusterQueue"))


def _held(workloads: Iterable[Object]) -> dict[str, Amounts]:
    """What Workloads hold, by queue."""
    found: dict[str, Amounts] = {}
    for workload in workloads:
        queue = _cluster_queue(workload)
        if not queue or is_over(_conditions(workload)):
            continue
        into = found.setdefault(queue, {})
        for key, amount in held(workload).items():
            into[key] = into.get(key, 0) + amount.nano
    return {queue: amounts for queue, amounts in found.items() if amounts}


def _given(
    workloads: Iterable[Object], resource: str, labels: Mapping[str, Mapping[str, str]]
) -> Mapping[str, str]:
    """The labels of the flavor that a resource of admitted Workloads has."""
    for workload in workloads:
        for flavor, name in held(workload):
            if name == resource:
                return labels.get(flavor, {})
    return {}


def _is_left_out(workload: Object) -> bool:
    """Whether Kueue does not admit a Workload whatever is free: it is refused, or waits for a back-off."""
    by_type = {item.get("type"): item for item in _conditions(workload)}
    reserved, requeued = by_type.get("QuotaReserved", {}), by_type.get("Requeued", {})
    return is_refused(lenient_text(reserved.get("message"))) or requeued.get("status") == "False"


@dataclass(frozen=True, slots=True)
class _PodSet:
    """The pods of a pod set: what all of them request, and their spec."""

    requests: Mapping[str, int]
    spec: Object


def _pod_sets(workload: Object) -> list[_PodSet]:
    """The pod sets of a pending Workload, with what their templates request."""
    sets = []
    for pod_set in lenient_maps(spec_of(workload).get("podSets")):
        pods = _count(pod_set)
        spec = lenient_map(lenient_map(pod_set.get("template")).get("spec"))
        requests = {name: amount.nano * pods for name, amount in pod_requests(spec).items()}
        sets.append(_PodSet({name: amount for name, amount in requests.items() if amount}, spec))
    return sets


def _count(pod_set: Object) -> int:
    count = pod_set.get("count")
    return count if isinstance(count, int) else 1
