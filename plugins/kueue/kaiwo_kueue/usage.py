"""The use of Kueue's queues: quota, who holds it, and who waits in which order."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kaiwo.plugin.kit.json_access import lenient_map, lenient_maps, lenient_text, name_of, one_line
from kaiwo.plugin.kit.values import Quantity, quantity
from kaiwo.plugin.queue_usage import (
    QueueCapacity,
    QueuedWorkload,
    QueueEntrance,
    QueueState,
    QueueUsage,
    QuotaShortage,
)
from kaiwo_kueue.admission import is_over
from kaiwo_kueue.conversion import to_v1beta2
from kaiwo_kueue.kinds import CLUSTER_QUEUE, COHORT, LOCAL_QUEUE, VISIBILITY, WORKLOAD
from kaiwo_kueue.pending_order import add_visible, in_order, is_partial
from kaiwo_kueue.quota_tree import quota_nodes
from kaiwo_kueue.workload_usage import (
    QueuePlace,
    holder_of,
    least_sets,
    namespace_of,
    number_of,
    pending_of,
    spec_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kaiwo.plugin.kit.kinds import Object
    from kaiwo.plugin.queue_usage import FlavorResource, QuotaHolder, UsageFacts
    from kaiwo_kueue.quota_tree import NodeQuota, QuotaNode

    _PodSets = Sequence[Mapping[str, Quantity]]
    """What each pod set of a workload requests, by resource."""

_ZERO = Quantity(0)
_LAST = datetime.max.replace(tzinfo=UTC)


def usage(facts: UsageFacts) -> QueueUsage:
    """The use of all queues, as far as it may be read."""
    locals_ = facts.objects.get(LOCAL_QUEUE, ())
    leads_to = {
        (namespace_of(obj), name_of(obj)): lenient_text(spec_of(obj).get("clusterQueue")) for obj in locals_
    }
    holders: dict[str, list[QuotaHolder]] = defaultdict(list)
    pending: dict[str, list[QueuedWorkload]] = defaultdict(list)
    for workload in facts.objects.get(WORKLOAD, ()):
        _sort_in(workload, leads_to, holders, pending)
    unplaced = pending.pop("", [])
    waiting = {item.subject.uid for items in pending.values() for item in items}
    pod_sets = {
        uid: least_sets(workload)
        for workload in facts.objects.get(WORKLOAD, ())
        if (uid := lenient_text(lenient_map(workload.get("metadata")).get("uid"))) in waiting
    }
    shut = {
        (namespace_of(obj), name_of(obj)): f"LocalQueue {name_of(obj)} is stopped"
        for obj in locals_
        if spec_of(obj).get("stopPolicy") not in (None, "", "None")
    }
    for name, items in pending.items():
        pending[name] = [_in_entrance(item, shut) for item in items]
    add_visible(facts, leads_to, pending)
    queues = {name_of(obj): obj for obj in facts.objects.get(CLUSTER_QUEUE, ())}
    used = {name: used_of(obj, holders.get(name, ())) for name, obj in queues.items()}
    nodes = quota_nodes(queues.values(), facts.objects.get(COHORT, ()), used)
    names = {*queues, *holders, *pending, *(name for name in leads_to.values() if name)}
    entrances = _entrances(locals_)
    exact = not is_partial(facts)
    states = []
    for name in sorted(names):
        state = QueueState(
            name=name,
            entrances=tuple(entrances.get(name, ())),
            holders=tuple(
                sorted(holders.get(name, ()), key=lambda item: item.since or item.created or _LAST)
            ),
            pending=tuple(in_order(pending.get(name, ()), exact=exact)),
        )
        if name in queues:
            quota = _with_quota(state, queues[name], nodes[name], pod_sets)
            states.append(_in_unknown_cohort(quota) if quota.cohort and COHORT in facts.hidden else quota)
        else:
            absent = "" if CLUSTER_QUEUE in facts.hidden else f"ClusterQueue {name} does not exist"
            states.append(replace(_without_quota(state), stopped=absent))
    return QueueUsage(tuple(states), tuple(unplaced), tuple(_unseen(facts, pending.values())))


def flavor_labels(flavors: Iterable[Object]) -> dict[str, dict[str, str]]:
    """The labels that nodes of each ResourceFlavor have, by its name."""
    found = {}
    for flavor in flavors:
        labels = lenient_map(spec_of(flavor).get("nodeLabels"))
        found[name_of(flavor)] = {str(key): str(value) for key, value in labels.items()}
    return found


def _in_entrance(item: QueuedWorkload, shut: Mapping[tuple[str, str], str]) -> QueuedWorkload:
    """A pending workload, which takes no part while its LocalQueue is stopped."""
    why = shut.get((item.subject.namespace, item.entrance))
    return replace(item, state="inactive", held=why) if why and item.state == "pending" else item


def _sort_in(
    workload: Object,
    leads_to: Mapping[tuple[str, str], str],
    holders: dict[str, list[QuotaHolder]],
    pending: dict[str, list[QueuedWorkload]],
) -> None:
    status = lenient_map(workload.get("status"))
    listed = lenient_maps(status.get("conditions"))
    if is_over(listed):
        return
    conditions = {str(item.get("type")): item for item in listed}
    entrance = lenient_text(spec_of(workload).get("queueName"))
    by = lenient_text(lenient_map(status.get("admission")).get("clusterQueue"))
    if by:
        holders[by].append(holder_of(workload, QueuePlace(by, entrance), conditions))
    elif entrance:
        queue = leads_to.get((namespace_of(workload), entrance), "")
        pending[queue].append(pending_of(workload, QueuePlace(queue, entrance), conditions))


def used_of(queue: Object, holders: Iterable[QuotaHolder] = ()) -> dict[FlavorResource, int]:
    """What is reserved in a queue: as its status says, else what its workloads hold."""
    reported = lenient_map(queue.get("status")).get("flavorsReservation")
    found: dict[FlavorResource, int] = {}
    if isinstance(reported, list):
        for flavor in lenient_maps(reported):
            for resource in lenient_maps(flavor.get("resources")):
                amount = quantity(resource.get("total"))
                found[str(flavor.get("name")), str(resource.get("name"))] = amount.nano if amount else 0
        return found
    for holder in holders:
        for key, amount in holder.amounts.items():
            found[key] = found.get(key, 0) + amount.nano
    return found


def _without_quota(state: QueueState) -> QueueState:
    """A queue that may not be read."""
    return replace(
        state,
        capacities=tuple(_held_only(state.holders)),
        pending_count=max(len(state.pending), sum(item.pending for item in state.entrances)),
        holder_count=max(len(state.holders), sum(item.admitted for item in state.entrances)),
        readable=False,
    )


def _with_quota(
    state: QueueState, queue: Object, node: QuotaNode, pod_sets: Mapping[str, _PodSets]
) -> QueueState:
    spec = to_v1beta2(CLUSTER_QUEUE, spec_of(queue))
    status = lenient_map(queue.get("status"))
    keys = [key for group in lenient_maps(spec.get("resourceGroups")) for key in _keys(group)]
    root = node.root()
    return replace(
        state,
        cohort=lenient_text(spec.get("cohortName")),
        cohort_root=root.name if root is not node else "",
        strict=spec.get("queueingStrategy") == "StrictFIFO",
        stopped=stopped(spec, status),
        capacities=tuple(_capacity(key, node.quotas[key], node, state.pending) for key in keys),
        pending=tuple(
            _with_shortages(item, node, pod_sets.get(item.subject.uid, [item.requests]))
            for item in state.pending
        ),
        pending_count=max(len(state.pending), number_of(status.get("pendingWorkloads"))),
        holder_count=max(len(state.holders), number_of(status.get("reservingWorkloads"))),
    )


def _in_unknown_cohort(state: QueueState) -> QueueState:
    """A queue whose cohort may not be read: it may have quota of its own, and belong to another one."""
    return replace(
        state,
        capacities=tuple(replace(item, lent=_ZERO, free=None, most=None) for item in state.capacities),
        pending=tuple(replace(item, shortages=()) for item in state.pending),
    )


def _keys(group: Object) -> Iterator[FlavorResource]:
    for flavor in lenient_maps(group.get("flavors")):
        for resource in lenient_maps(flavor.get("resources")):
            yield str(flavor.get("name")), str(resource.get("name"))


def _capacity(
    key: FlavorResource, quota: NodeQuota, node: QuotaNode, pending: Sequence[QueuedWorkload]
) -> QueueCapacity:
    used, free = node.used.get(key, 0), max(0, node.free(key))
    lendable = quota.nominal if quota.lending is None else min(quota.nominal, quota.lending)
    waiting = sum(item.requests[key[1]].nano for item in pending if key[1] in item.requests)

    def amount(nano: int) -> Quantity:
        return Quantity(nano, quota.form)

    return QueueCapacity(
        flavor=key[0],
        resource=key[1],
        nominal=amount(quota.nominal),
        used=amount(used),
        borrowed=amount(max(0, used - quota.nominal)),
        lent=amount(max(0, quota.nominal - used - free)),
        free=amount(free),
        most=amount(node.most(key)),
        lendable=amount(lendable if node.parent is not None else 0),
        pending=amount(waiting),
    )


def _held_only(holders: Iterable[QuotaHolder]) -> Iterator[QueueCapacity]:
    """What is known of the quotas of a queue that may not be read: what one's own workloads hold."""
    total: dict[FlavorResource, Quantity] = {}
    for holder in holders:
        for key, amount in holder.amounts.items():
            total[key] = total.get(key, _ZERO) + amount
    for (flavor, resource), amount in sorted(total.items()):
        yield QueueCapacity(flavor, resource, None, amount, _ZERO, _ZERO, None, None, _ZERO, _ZERO)


def _with_shortages(item: QueuedWorkload, node: QuotaNode, pod_sets: _PodSets) -> QueuedWorkload:
    """A pending workload with what it lacks, of each resource in the flavor that lacks least."""
    lacking = []
    for resource, requested in sorted(item.requests.items()):
        if not requested:
            continue
        keys = [key for key in node.quotas if key[1] == resource]
        if not keys:
            if resource in item.message:
                # Kueue may be configured to ignore a resource; then it does not write about it.
                lacking.append(QuotaShortage("", resource, requested, _ZERO, _ZERO))
            continue
        amounts = [amount for amounts in pod_sets if (amount := amounts.get(resource))]
        shortage = _shortage(resource, amounts, node, keys)
        if shortage is not None:
            lacking.append(shortage)
    return replace(item, shortages=tuple(lacking)) if lacking else item


def _shortage(
    resource: str, amounts: Sequence[Quantity], node: QuotaNode, keys: Sequence[FlavorResource]
) -> QuotaShortage | None:
    """What the pod sets of a workload lack of a resource. The pods of one set take one flavor.

    Args:
        resource: resource key.
        amounts: what each pod set requests, in their order.
        node: the queue.
        keys: its flavors with the resource.
    """
    left = {key: min(node.free(key), node.most(key)) for key in keys}
    most = max(node.most(key) for key in keys)
    lacking = next((amount for amount in amounts if amount.nano > most), None)
    if lacking is None:
        for amount in amounts:
            key = next((key for key in keys if amount.nano <= left[key]), None)
            if key is None:
                lacking = amount
                break
            left[key] -= amount.nano
    if lacking is None:
        return None
    total, every = sum(amount.nano for amount in amounts), sum(node.most(key) for key in keys)
    requested = lacking.nano
    key = min(keys, key=lambda key: (requested > node.most(key), -left[key]))
    form, free, limit = node.quotas[key].form, left[key], node.most(key)
    if requested <= most and total > every:
        lacking, free, limit = Quantity(total, lacking.form), sum(left.values()), every
    return QuotaShortage(key[0], resource, lacking, Quantity(max(0, free), form), Quantity(limit, form))


def stopped(spec: Object, status: Object) -> str:
    """Why a queue admits nothing, empty when it works."""
    for condition in lenient_maps(status.get("conditions")):
        if condition.get("type") == "Active" and condition.get("status") == "False":
            return one_line(condition.get("message")) or lenient_text(condition.get("reason"))
    policy = lenient_text(spec.get("stopPolicy"))
    return f"its stopPolicy is {policy}" if policy not in ("", "None") else ""


def _entrances(locals_: Iterable[Object]) -> dict[str, list[QueueEntrance]]:
    found: dict[str, list[QueueEntrance]] = defaultdict(list)
    for local in sorted(locals_, key=lambda obj: (namespace_of(obj), name_of(obj))):
        status, queue = lenient_map(local.get("status")), lenient_text(spec_of(local).get("clusterQueue"))
        found[queue].append(
            QueueEntrance(
                namespace=namespace_of(local),
                name=name_of(local),
                queue=queue,
                pending=number_of(status.get("pendingWorkloads")),
                admitted=number_of(status.get("reservingWorkloads")),
                message=stopped(spec_of(local), status),
            )
        )
    return found


def _unseen(facts: UsageFacts, pending: Iterable[Sequence[QueuedWorkload]]) -> Iterator[str]:
    """What may not be read, and what is missing for that reason."""
    if CLUSTER_QUEUE in facts.hidden:
        yield f"quotas and cohorts: not allowed to list {CLUSTER_QUEUE} in the whole cluster"
    elif COHORT in facts.hidden:
        yield f"quotas of cohorts: not allowed to list {COHORT} in the whole cluster"
    if WORKLOAD in facts.hidden:
        yield f"workloads and their order: not allowed to list {WORKLOAD}"
    elif WORKLOAD in facts.narrowed:
        here = f"namespace {facts.namespace}"
        positioned = any(item.position is not None for items in pending for item in items)
        what = (
            "workloads of other namespaces" if positioned else "positions, and workloads of other namespaces"
        )
        text = f"{what}: allowed to list {WORKLOAD} in {here} only"
        if not positioned:
            text += f", and {VISIBILITY} (localqueues/pendingworkloads) is not served or not allowed"
        yield text
    if LOCAL_QUEUE in facts.hidden:
        yield f"who may use a queue: not allowed to list {LOCAL_QUEUE}"
    elif LOCAL_QUEUE in facts.narrowed:
        yield f"who else may use a queue: allowed to list {LOCAL_QUEUE} in namespace {facts.namespace} only"
