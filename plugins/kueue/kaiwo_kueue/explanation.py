"""The chain of one child through Kueue: its Workload, its queue, the flavors that it may use, the cohort."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.plugin.diagnosis import ChainLink, QueueExplanation
from kaiwo.plugin.kit.json_access import (
    is_deleting,
    lenient_map,
    lenient_maps,
    lenient_text,
    name_of,
    one_line,
)
from kaiwo.plugin.kit.values import NANO, Quantity, quantity
from kaiwo.plugin.observation import Finding
from kaiwo_kueue.admission import admission, requested
from kaiwo_kueue.conversion import to_v1beta2
from kaiwo_kueue.holding import cluster_queue
from kaiwo_kueue.kinds import CLUSTER_QUEUE, COHORT, LOCAL_QUEUE, QUEUE_LABEL, RESOURCE_FLAVOR, WORKLOAD
from kaiwo_kueue.quota_tree import parent_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kaiwo.plugin.diagnosis import LinkState
    from kaiwo.plugin.kit.kinds import Object
    from kaiwo.plugin.queues import Admission, QueueFacts

JOB_UID = "kueue.x-k8s.io/job-uid"
"""Label of a Workload: uid of the object that it stands for."""

_STATES: dict[str, LinkState] = {
    "pending": "waits",
    "evicted": "waits",
    "admitted": "ok",
    "finished": "ok",
    "unmanaged": "failed",
}
_NOTHING = Quantity(0)
_BYTES = ("memory", "ephemeral-storage")
_MOST_FLAVORS = 4
_MOST_SELECTED = 50


def owned_by(uids: Sequence[str]) -> str:
    """The label selector of the Workloads of objects with these uids."""
    return f"{JOB_UID} in ({','.join(uids[:_MOST_SELECTED])})"


def explain(child: Object, facts: QueueFacts) -> QueueExplanation | None:
    """The links of a child's chain, and why Kueue has not admitted it; None for a child without a queue."""
    queue = lenient_map(lenient_map(child.get("metadata")).get("labels")).get(QUEUE_LABEL)
    if not isinstance(queue, str) or not queue:
        return None
    known = admission(child, facts)
    workloads = facts.objects.get(WORKLOAD, ())
    links = [_workload_link(workload, known) for workload in workloads[:1]]
    if known is not None and not workloads:
        links.append(ChainLink("Workload", "not created", _STATES[known.state], one_line(known.message)))
    local = _named(facts.objects.get(LOCAL_QUEUE, ()), queue)
    if LOCAL_QUEUE in facts.objects:
        links.append(_queue_link("LocalQueue", queue, local))
    name = cluster_queue(queue, facts)
    own = _named(facts.objects.get(CLUSTER_QUEUE, ()), name)
    keys = sorted({key for workload in workloads for key in requested(workload)})
    if CLUSTER_QUEUE in facts.objects and (local is not None or own is not None):
        links.append(_queue_link("ClusterQueue", name, own))
        if own is not None:
            links += [*_flavor_links(own, keys, facts), *_cohort_links(own, keys, facts)]
    finding = None
    if known is not None and known.state in ("pending", "evicted", "unmanaged"):
        finding = Finding(known.reason, _message(known, own, name))
    evidence = tuple(f"{link.kind} {link.name}: {link.message}" for link in links if link.state != "ok")
    return QueueExplanation(tuple(links), finding, evidence if finding else ())


def _message(known: Admission, queue: Object | None, name: str) -> str:
    """Kueue's own words; of a Workload that Kueue has not considered yet, how many wait in its queue."""
    if not known.undecided or queue is None:
        return one_line(known.message)
    pending = lenient_map(queue.get("status")).get("pendingWorkloads")
    others = pending - 1 if isinstance(pending, int) and pending > 1 else 0
    if not others:
        return one_line(known.message)
    waits = "1 other workload waits" if others == 1 else f"{others} other workloads wait"
    return f"waits in queue {name}, where {waits}; Kueue has not considered it yet"


def _workload_link(workload: Object, known: Admission | None) -> ChainLink:
    state: LinkState = _STATES[known.state] if known is not None else "unknown"
    return ChainLink("Workload", name_of(workload), state, one_line(known.message) if known else "")


def _queue_link(kind: str, name: str, queue: Object | None) -> ChainLink:
    if queue is None:
        return ChainLink(kind, name, "failed", "does not exist")
    status, spec = lenient_map(queue.get("status")), lenient_map(queue.get("spec"))
    if is_deleting(queue):
        return ChainLink(kind, name, "failed", "is being deleted")
    for condition in lenient_maps(status.get("conditions")):
        if condition.get("type") == "Active" and condition.get("status") == "False":
            return ChainLink(kind, name, "failed", f"is not active: {one_line(condition.get('message'))}")
    if spec.get("stopPolicy") not in (None, "None"):
        return ChainLink(kind, name, "failed", f"admits nothing: its stopPolicy is {spec['stopPolicy']}")
    counts = [
        f"{status[key]} {word}"
        for key, word in (("pendingWorkloads", "wait"), ("reservingWorkloads", "hold quota"))
        if isinstance(status.get(key), int)
    ]
    return ChainLink(kind, name, "ok", ", ".join(counts))


def _flavor_links(queue: Object, keys: Iterable[str], facts: QueueFacts) -> Iterator[ChainLink]:
    """The flavors that have all requested resources, with what is used of them; those with room first."""
    known, wanted, used = facts.objects.get(RESOURCE_FLAVOR), list(keys), _used(queue)
    found: list[tuple[bool, ChainLink]] = []
    for flavor in _flavors(queue):
        name = str(flavor.get("name"))
        quotas = {
            str(resource.get("name")): quantity(resource.get("nominalQuota")) or _NOTHING
            for resource in lenient_maps(flavor.get("resources"))
        }
        if known is not None and _named(known, name) is None:
            found.append((False, ChainLink("ResourceFlavor", name, "failed", "does not exist")))
        elif wanted and all(quotas.get(key, _NOTHING) > _NOTHING for key in wanted):
            amounts = [(key, used.get((name, key), _NOTHING), quotas[key]) for key in wanted]
            full = any(now >= nominal for _, now, nominal in amounts)
            text = ", ".join(_use(key, now, nominal) for key, now, nominal in amounts)
            found.append((full, ChainLink("ResourceFlavor", name, "waits" if full else "ok", text)))
    found.sort(key=lambda item: item[0])
    yield from (link for _, link in found[:_MOST_FLAVORS])


def _use(key: str, used: Quantity, nominal: Quantity) -> str:
    return f"{key} {_amount(key, used)} of {_amount(key, nominal)} used"


def _amount(key: str, amount: Quantity) -> str:
    """An amount as people write it: of memory in Gi."""
    if key not in _BYTES:
        return str(amount)
    return f"{amount.nano / NANO / 2**30:.0f}Gi"


def _cohort_links(queue: Object, keys: Iterable[str], facts: QueueFacts) -> Iterator[ChainLink]:
    """What the queues of the cohort use together, and those of each cohort above it."""
    cohorts = facts.objects.get(COHORT)
    parents = {name_of(cohort): parent_of(_cohort_spec(cohort)) for cohort in cohorts or ()}
    wanted = list(keys)
    for name in _lineage(_cohort_of(queue), parents):
        members = [
            item for item in facts.objects[CLUSTER_QUEUE] if name in _lineage(_cohort_of(item), parents)
        ]
        own = [item for item in cohorts or () if name in _lineage(name_of(item), parents)]
        quotas = [*map(_spec, members), *map(_cohort_spec, own)]
        yield _cohort_link(name, wanted, members, None if cohorts is None else quotas)


def _cohort_link(
    name: str, keys: Iterable[str], members: Sequence[Object], quotas: Sequence[Object] | None
) -> ChainLink:
    """What the queues of a cohort use together.

    Args:
        name: of the cohort.
        keys: resource keys.
        members: its ClusterQueues.
        quotas: the specs with its quota, its own among them; None where that is not known.
    """
    parts, full = [], False
    for key in keys:
        nominal = sum(
            (quantity(resource.get("nominalQuota")) or _NOTHING).nano
            for spec in quotas or ()
            for flavor in _flavors_of(spec)
            for resource in lenient_maps(flavor.get("resources"))
            if resource.get("name") == key
        )
        held = [
            (sum(amount.nano for (_, name), amount in _used(member).items() if name == key), name_of(member))
            for member in members
        ]
        total = sum(amount for amount, _ in held)
        if not nominal and quotas is not None:
            continue
        full = full or (quotas is not None and total >= nominal)
        shares = sorted(((amount, name) for amount, name in held if amount), reverse=True)
        by = ", ".join(f"{name} {_amount(key, Quantity(amount))}" for amount, name in shares)
        used = (
            f"{key} {_amount(key, Quantity(total))} used"
            if quotas is None
            else _use(key, Quantity(total), Quantity(nominal))
        )
        parts.append(f"{used}{f' ({by})' if by else ''}")
    state: LinkState = "unknown" if quotas is None else "waits" if full else "ok"
    return ChainLink("Cohort", name, state, ", ".join(parts))


def _cohort_of(queue: Object) -> str:
    return lenient_text(_spec(queue).get("cohortName"))


def _cohort_spec(cohort: Object) -> Object:
    return lenient_map(cohort.get("spec"))


def _lineage(cohort: str, parents: Mapping[str, str]) -> list[str]:
    """A cohort and those above it; a circle, in which Kueue admits nothing, ends."""
    found: list[str] = []
    while cohort and cohort not in found:
        found.append(cohort)
        cohort = parents.get(cohort, "")
    return found


def _flavors(queue: Object) -> Iterator[Object]:
    return _flavors_of(_spec(queue))


def _flavors_of(spec: Object) -> Iterator[Object]:
    for group in lenient_maps(spec.get("resourceGroups")):
        yield from lenient_maps(group.get("flavors"))


def _used(queue: Object) -> dict[tuple[str, str], Quantity]:
    """What is reserved, by flavor and resource."""
    return {
        (str(flavor.get("name")), str(resource.get("name"))): quantity(resource.get("total")) or _NOTHING
        for flavor in lenient_maps(lenient_map(queue.get("status")).get("flavorsReservation"))
        for resource in lenient_maps(flavor.get("resources"))
    }


def _spec(queue: Object) -> Object:
    return to_v1beta2(CLUSTER_QUEUE, lenient_map(queue.get("spec")))


def _named(objects: Iterable[Object], name: str) -> Object | None:
    return next((obj for obj in objects if name_of(obj) == name), None)
