"""Who uses the GPUs of nodes, from Nodes and Pods: one pass over each."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from kaiwo.client.node_records import (
    ExpectedNodes,
    GpuTotal,
    NodeAmount,
    NodeGpuUse,
    NodeList,
    NodeRecord,
    NodeUser,
)
from kaiwo.engine.quantity import Quantity, quantity
from kaiwo.workload.gpus.node_pools import NODEPOOL
from kaiwo.workload.gpus.nodes import expected_nodes, labels_of, node_fact
from kaiwo.workload.gpus.resource_keys import is_gpu
from kaiwo.workload.json_access import lenient_map, lenient_maps, one_line
from kaiwo.workload.labels import NAME, RUN_ID, TYPE, USER, WORKLOAD_TYPES
from kaiwo.workload.pods.requests import pod_requests

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kaiwo.api.resolved_config import ResolvedConfig
    from kaiwo.engine.resource import Object
    from kaiwo.plugin.facts import NodeFact, VendorGpus
    from kaiwo.plugin.vendors import GpuVendor

_KINDS = {word: kind for kind, word in WORKLOAD_TYPES.items()}


class _Use(NamedTuple):
    """What pods of a node request in all, and GPUs by who requests them."""

    total: dict[str, Quantity]
    gpus: dict[tuple[str, str, str, str, str], list[int]]


def nodes_from(
    nodes: Iterable[Object],
    pods: Iterable[Object],
    vendors: Sequence[GpuVendor],
    config: ResolvedConfig | None,
    flavors: Mapping[str, Mapping[str, str]] | None = None,
) -> NodeList:
    """The nodes with what uses them, from what was read. One pass over nodes and pods each.

    Args:
        nodes: Node objects.
        pods: Pod objects that have not ended.
        vendors: recognise GPUs.
        config: names expected nodes; None where it is not known.
        flavors: labels of the nodes of each flavor; None where they are not known.
    """
    keys = [key for vendor in vendors for key in vendor.resource_keys]
    use = _use_by_node(pods, keys)
    items = sorted(
        (_node(node, vendors, use, flavors or {}) for node in nodes),
        key=lambda item: (not item.gpus, item.gpus[0].vendor if item.gpus else "", item.pool, item.name),
    )
    expected = expected_nodes(config, vendors) if config is not None else ()
    return NodeList(
        items=tuple(items),
        totals=_totals(items),
        expected=tuple(
            ExpectedNodes(
                vendor=gpu.vendor, model=gpu.gpus.model, nodes=fact.count, gpus_per_node=gpu.gpus.count
            )
            for fact in expected
            for gpu in fact.gpus
        ),
        unseen=(),
    )


def narrowed(found: NodeList, *, vendor: str = "", pool: str = "", unseen: tuple[str, ...] = ()) -> NodeList:
    """The nodes of a vendor or pool, with the totals of these."""
    items = [
        item
        for item in found.items
        if (not vendor or any(gpu.vendor == vendor for gpu in item.gpus)) and (not pool or item.pool == pool)
    ]
    return NodeList(
        items=tuple(items),
        totals=tuple(total for total in _totals(items) if not vendor or total.vendor == vendor),
        expected=tuple(
            entry for entry in found.expected if not pool and (not vendor or entry.vendor == vendor)
        ),
        unseen=(*found.unseen, *unseen),
    )


def _use_by_node(pods: Iterable[Object], keys: Sequence[str]) -> Mapping[str, _Use]:

    found: dict[str, _Use] = defaultdict(lambda: _Use({}, {}))
    known: dict[str, bool] = {}
    for pod in pods:
        spec, status = lenient_map(pod.get("spec")), lenient_map(pod.get("status"))
        node = spec.get("nodeName")
        if not isinstance(node, str) or status.get("phase") in ("Succeeded", "Failed"):
            continue
        use = found[node]
        for resource, amount in pod_requests(spec).items():
            use.total[resource] = use.total[resource] + amount if resource in use.total else amount
            if resource not in known:
                known[resource] = is_gpu(resource, keys)
            if known[resource] and amount:
                share = use.gpus.setdefault((*_user(pod), resource), [0, 0])
                share[0] += amount.units
                share[1] += 1
    return found


def _user(pod: Object) -> tuple[str, str, str, str]:
    """Kind, namespace and name of the workload of a pod, and its user."""
    metadata = lenient_map(pod.get("metadata"))
    labels = lenient_map(metadata.get("labels"))
    namespace, user = str(metadata.get("namespace") or ""), str(labels.get(USER) or "")
    kind = _KINDS.get(str(labels.get(TYPE)))
    if kind and labels.get(NAME) and labels.get(RUN_ID):
        return kind, namespace, str(labels[NAME]), user
    owner = next(
        (item for item in lenient_maps(metadata.get("ownerReferences")) if item.get("controller")), {}
    )
    if owner.get("kind") and owner.get("name"):
        return str(owner["kind"]), namespace, str(owner["name"]), user
    return "Pod", namespace, str(metadata.get("name") or ""), user


def _node(
    node: Object,
    vendors: Sequence[GpuVendor],
    use: Mapping[str, _Use],
    flavors: Mapping[str, Mapping[str, str]],
) -> NodeRecord:

    fact = node_fact(node, vendors)
    used = use.get(fact.name, _Use({}, {}))
    state, reason = _state(node)
    labels = labels_of(node)
    # Workloads name models by the label. Of two vendors on one node it is the model of one.
    found = _with_unhealthy(node, fact, vendors)
    labelled = fact.model_label if len({gpu.vendor for gpu, _ in found}) == 1 else ""
    gpus = []
    for gpu, unhealthy in found:
        amount = used.total.get(gpu.gpus.resource_key)
        taken = amount.units if amount else 0
        free = max(0, gpu.gpus.count - taken) if fact.usable else 0
        gpus.append(
            NodeGpuUse(
                vendor=gpu.vendor,
                model=labelled or gpu.gpus.model,
                resource=gpu.gpus.resource_key,
                allocatable=gpu.gpus.count,
                unhealthy=unhealthy,
                used=taken,
                free=free,
            )
        )
    users = [
        NodeUser(
            kind=kind,
            namespace=namespace,
            name=name,
            user=user,
            resource=resource,
            gpus=share[0],
            pods=share[1],
        )
        for (kind, namespace, name, user, resource), share in used.gpus.items()
    ]
    return NodeRecord(
        name=fact.name,
        pool=labels.get(NODEPOOL, ""),
        flavors=tuple(
            name for name, wanted in flavors.items() if wanted and wanted.items() <= labels.items()
        ),
        state=state,
        reason=reason,
        taints=_taints(node),
        gpus=tuple(gpus),
        used_by=tuple(sorted(users, key=lambda item: (-item.gpus, item.namespace, item.name))),
        amounts=_amounts(node, used.total),
    )


def _with_unhealthy(
    node: Object, fact: NodeFact, vendors: Sequence[GpuVendor]
) -> list[tuple[VendorGpus, int]]:
    """The GPUs of a node, each with how many more of them no pod may use; also where that is all of them.

    A device plugin takes a GPU that has failed out of what is allocatable, and leaves it in the capacity.
    """
    status = lenient_map(node.get("status"))
    capacity, allocatable = lenient_map(status.get("capacity")), lenient_map(status.get("allocatable"))
    # Names of GPUs have a prefix. Nearly all nodes are sound, and need no second look of the vendors.
    if all(allocatable.get(key) == count for key, count in capacity.items() if "/" in key):
        return [(gpu, 0) for gpu in fact.gpus]
    # Vendors read what is allocatable, so they are asked as though all GPUs were.
    asked = node_fact({**node, "status": {**status, "allocatable": capacity}}, vendors)
    installed = {
        (gpu.vendor, gpu.gpus.resource_key): gpu for gpu in asked.gpus if gpu.gpus.resource_key in capacity
    }
    found = []
    for gpu in fact.gpus:
        known = installed.pop((gpu.vendor, gpu.gpus.resource_key), gpu)
        found.append((gpu, max(0, known.gpus.count - gpu.gpus.count)))
    found += [(replace(gpu, gpus=replace(gpu.gpus, count=0)), gpu.gpus.count) for gpu in installed.values()]
    return found


def _state(node: Object) -> tuple[str, str]:

    ready: Object = {}
    for condition in lenient_maps(lenient_map(node.get("status")).get("conditions")):
        if condition.get("type") == "Ready":
            ready = condition
    if ready.get("status") != "True":
        return "NotReady", one_line(ready.get("message")) or "no kubelet has reported"
    return ("Cordoned", "") if lenient_map(node.get("spec")).get("unschedulable") else ("Ready", "")


def _taints(node: Object) -> tuple[str, ...]:

    found = []
    for taint in lenient_maps(lenient_map(node.get("spec")).get("taints")):
        key, value = str(taint.get("key") or ""), taint.get("value")
        if key != "node.kubernetes.io/unschedulable":
            found.append(f"{key}={value}:{taint.get('effect')}" if value else f"{key}:{taint.get('effect')}")
    return tuple(found)


def _amounts(node: Object, used: Mapping[str, Quantity]) -> tuple[NodeAmount, ...]:

    allocatable = lenient_map(lenient_map(node.get("status")).get("allocatable"))
    return tuple(
        NodeAmount(resource=resource, allocatable=str(total), used=str(used.get(resource, Quantity(0))))
        for resource in ("cpu", "memory")
        if (total := quantity(allocatable.get(resource))) is not None
    )


def _totals(items: Iterable[NodeRecord]) -> tuple[GpuTotal, ...]:
    sums: dict[tuple[str, str, str], list[int]] = {}
    for item in items:
        for gpu in item.gpus:
            total = sums.setdefault((gpu.vendor, gpu.model, gpu.resource), [0, 0, 0, 0, 0])
            unused = max(0, gpu.allocatable - gpu.used)
            unavailable = unused - gpu.free + gpu.unhealthy
            for at, value in enumerate((1, gpu.allocatable, gpu.used, gpu.free, unavailable)):
                total[at] += value
    return tuple(
        GpuTotal(
            vendor=vendor,
            model=model,
            resource=resource,
            nodes=total[0],
            allocatable=total[1],
            used=total[2],
            free=total[3],
            unavailable=total[4],
        )
        for (vendor, model, resource), total in sorted(sums.items())
    )
