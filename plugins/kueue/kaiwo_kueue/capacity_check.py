"""Compares quotas with nodes: quota that no node can serve, and GPUs that no queue can use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kaiwo.plugin.kit.allocation import is_gpu
from kaiwo.plugin.kit.json_access import lenient_map, lenient_maps
from kaiwo.plugin.kit.values import quantity
from kaiwo_kueue.kinds import CLUSTER_QUEUE, RESOURCE_FLAVOR
from kaiwo_kueue.objects import SyncProblem, flavors_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from kaiwo.plugin.kit.kinds import Object
    from kaiwo_kueue.objects import DesiredObject, LiveObject
    from kaiwo_kueue.pools import LabelledNode, QuotaPool

_NANO = 10**9
_SHOWN = 5
_SEVERAL = 2


@dataclass(frozen=True, slots=True)
class _Quota:
    """One nominal quota of a queue."""

    queue: str
    flavor: str
    resource: str
    nano: int


def quota_beyond_nodes(
    queues: Sequence[DesiredObject], pools: Sequence[QuotaPool], nodes: Collection[LabelledNode] = ()
) -> list[SyncProblem]:
    """Pools of which the quotas of several queues together exceed what the nodes have.

    Args:
        queues: the ClusterQueues that are described.
        pools: the nodes that count, by pool.
        nodes: all nodes. What cordoned ones would add is said: then nobody needs to change a quota.
    """
    totals: dict[tuple[str, str], tuple[int, list[str]]] = {}
    for item in _quotas(queues):
        total, names = totals.get((item.flavor, item.resource), (0, []))
        totals[item.flavor, item.resource] = (total + item.nano, [*names, item.queue])
    problems = []
    for pool in pools:
        away = [node for node in nodes if not node.counts and node.pool == pool.label]
        for resource, available in sorted(pool.quota.items()):
            nano, names = totals.get((pool.name, resource), (0, []))
            total = nano // _NANO
            if total <= available or len(names) < _SEVERAL:
                continue
            reason, advice = "QuotaExceedsNodes", "Lower a quota, or add nodes"
            if total <= available + sum(dict(node.resources).get(resource, 0) for node in away):
                reason = "NodesCordoned"
                advice = f"Cordoned: {', '.join(sorted(node.name for node in away)[:_SHOWN])}"
            text = (
                f"flavor {pool.name}: queues {', '.join(names)} together have {total} {resource}, its nodes "
                f"have {available}; workloads beyond that are admitted and wait for nodes. {advice}"
            )
            problems.append(SyncProblem(CLUSTER_QUEUE, names[-1], reason, text, "INFO"))
    return problems


def quota_without_nodes(
    objects: Sequence[DesiredObject], nodes: Collection[LabelledNode], gpu_keys: Collection[str]
) -> list[SyncProblem]:
    """GPU quota that no node can serve; Kueue admits workloads to it, and they wait for nodes for ever.

    Args:
        objects: the ResourceFlavors and ClusterQueues that are described.
        nodes: all nodes; where none is known, nothing is compared.
        gpu_keys: resource keys of the loaded GPU vendors, and patterns that end in ``*``.
    """
    if not nodes:
        return []
    labels = {item.name: _node_labels(item.spec) for item in objects if item.kind == RESOURCE_FLAVOR}
    problems = []
    for item in _quotas([item for item in objects if item.kind == CLUSTER_QUEUE]):
        if item.flavor not in labels or not _is_like_gpu(item.resource, gpu_keys):
            continue
        where = f"ClusterQueue {item.queue}, flavor {item.flavor}"
        members = [node for node in nodes if labels[item.flavor].items() <= node.labels.items()]
        if not any(item.resource in node.offered for node in members):
            what = f"no node of the flavor has {item.resource}" if members else "the flavor has no nodes"
            text = f"{where}: {what}; correct the name, remove the quota, or add such nodes"
            problems.append(SyncProblem(CLUSTER_QUEUE, item.queue, "QuotaWithoutNodes", text, "INFO"))
        elif item.nano % _NANO:
            text = (
                f"{where}: the quota of {item.resource} is not a whole number; no pod can use a part of a "
                "GPU, round it"
            )
            problems.append(SyncProblem(CLUSTER_QUEUE, item.queue, "FractionalGPUs", text, "INFO"))
    return problems


def gpus_outside_queues(
    objects: Sequence[DesiredObject], live: Sequence[LiveObject], nodes: Collection[LabelledNode]
) -> dict[str, int]:
    """The GPUs of each node that no flavor of any queue selects.

    Args:
        objects: the objects that are described.
        live: the live objects, also those that Kaiwo does not manage.
        nodes: all nodes.
    """
    flavors = {item.name: _node_labels(item.normal_spec) for item in live if item.kind == RESOURCE_FLAVOR}
    flavors |= {item.name: _node_labels(item.spec) for item in objects if item.kind == RESOURCE_FLAVOR}
    listed = {
        name
        for forms in (
            [item.normal_spec for item in live if item.kind == CLUSTER_QUEUE],
            [item.spec for item in objects if item.kind == CLUSTER_QUEUE],
        )
        for form in forms
        for name in flavors_of(form)
    }
    usable = [labels for name, labels in flavors.items() if name in listed]
    return {
        node.name: node.size[0]
        for node in nodes
        if node.counts
        and node.size[0]
        and not any(labels.items() <= node.labels.items() for labels in usable)
    }


def outside_text(nodes: Mapping[str, int]) -> str:
    """The message about GPUs that no queue can use."""
    names = sorted(nodes)
    shown = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
    return (
        f"no flavor of any queue selects {sum(nodes.values())} GPUs of the nodes {shown}; add a flavor with "
        "their labels to a queue, or set dynamicallyUpdateDefaultClusterQueue in KaiwoConfig"
    )


def _quotas(queues: Sequence[DesiredObject]) -> Iterator[_Quota]:
    """The nominal quotas of some queues, without those that are 0."""
    for queue in queues:
        for group in lenient_maps(queue.spec.get("resourceGroups")):
            for flavor in lenient_maps(group.get("flavors")):
                for resource in lenient_maps(flavor.get("resources")):
                    amount = quantity(resource.get("nominalQuota"))
                    if amount:
                        names = str(flavor.get("name")), str(resource.get("name"))
                        yield _Quota(queue.name, *names, amount.nano)


def _node_labels(spec: Object) -> dict[str, str]:
    return {key: str(value) for key, value in lenient_map(spec.get("nodeLabels")).items()}


def _is_like_gpu(resource: str, gpu_keys: Collection[str]) -> bool:
    """Whether a resource is a GPU, or has the domain of one and may be misspelt (``amd.com/gpus``)."""
    domains = {key.partition("/")[0] for key in gpu_keys}
    return is_gpu(resource, gpu_keys) or ("/" in resource and resource.partition("/")[0] in domains)
