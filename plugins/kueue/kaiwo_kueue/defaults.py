"""The default KaiwoQueueConfig, and how its default queue follows the nodes."""

from __future__ import annotations

import re
from copy import deepcopy
from typing import TYPE_CHECKING

from kaiwo.plugin.kit.json_access import lenient_map, lenient_maps
from kaiwo.plugin.kit.nodes import CPU, MEMORY, NODEPOOL, STORAGE
from kaiwo_kueue.kinds import FIELD_MANAGER, QUEUE_CONFIG, SINGLETON
from kaiwo_kueue.kueue_api import COMBINATIONS
from kaiwo_kueue.projections import LISTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaiwo.plugin.kit.cache import CachedObject
    from kaiwo.plugin.kit.kinds import Object
    from kaiwo_kueue.pools import QuotaPool

_BASE = (CPU, MEMORY, STORAGE)
_DISCOVERED = re.compile(r"-\d+gpu-\d+core-\d+gi$")


def flavors(pools: Sequence[QuotaPool]) -> list[Object]:
    """Entries of ``resourceFlavors`` for discovered pools."""
    return [{"name": pool.name, "nodeLabels": {NODEPOOL: pool.label}} for pool in pools]


def covered_resources(pools: Sequence[QuotaPool]) -> list[str]:
    """The resources of a group over some pools: what every node has, and the GPU keys of all."""
    return [*_BASE, *sorted({key for pool in pools for key in pool.quota} - set(_BASE))]


def most_pools(pools: Sequence[QuotaPool], flavors: int) -> int:
    """How many of some pools one resource group takes: each flavor lists the resources of all of them.

    Args:
        pools: discovered pools.
        flavors: that a resource group takes by Kueue's schema.
    """
    return min(flavors, COMBINATIONS // len(covered_resources(pools)))


def resource_groups(pools: Sequence[QuotaPool]) -> list[Object]:
    """One group over all pools: every flavor lists every resource, 0 where it has none.

    Ephemeral storage is covered as well: Kueue never admits a job that requests an uncovered resource.
    """
    if not pools:
        return []
    covered = covered_resources(pools)
    return [
        {
            "coveredResources": covered,
            "flavors": [
                {
                    "name": pool.name,
                    "resources": [
                        {"name": key, "nominalQuota": str(pool.quota.get(key, 0))} for key in covered
                    ],
                }
                for pool in pools
            ],
        }
    ]


def default_spec(pools: Sequence[QuotaPool], queue: str, cohort: str) -> Object:
    """``spec`` of the default KaiwoQueueConfig.

    Args:
        pools: discovered pools.
        queue: name of the default ClusterQueue.
        cohort: its cohort.
    """
    return {
        "clusterQueues": [
            {
                "name": queue,
                "spec": {
                    "cohort": cohort,
                    "namespaceSelector": {},
                    "resourceGroups": resource_groups(pools),
                },
            }
        ],
        "resourceFlavors": flavors(pools),
    }


def default_config(pools: Sequence[QuotaPool], queue: str, cohort: str) -> Object:
    """The default KaiwoQueueConfig."""
    return {
        "apiVersion": QUEUE_CONFIG.api_version,
        "kind": QUEUE_CONFIG.kind,
        "metadata": {"name": SINGLETON},
        "spec": default_spec(pools, queue, cohort),
    }


def is_default(config: CachedObject) -> bool:
    """Whether the lists of a KaiwoQueueConfig are as the operator wrote them, by their field managers."""
    queues, flavors_ = (set(config.managers(path)) for path in LISTS)
    return queues == {FIELD_MANAGER} and flavors_ <= {FIELD_MANAGER}


def updated_spec(
    spec: Object,
    pools: Sequence[QuotaPool],
    queue: str,
    cohort: str,
    *,
    dynamically: bool,
    ours: bool = False,
) -> Object:
    """The spec that is in force; equal to the written one when the operator computes nothing.

    A default one that was created before there were nodes, and that nobody has changed, gets its quotas with
    the first nodes. Otherwise a spec is changed only where KaiwoConfig has it follow the nodes. In one that
    nobody but the operator wrote, no other queue and no flavor is anybody's: it is made anew, with the names
    that KaiwoConfig has now.

    Args:
        spec: the spec as it is; it is not changed.
        pools: discovered pools.
        queue: name of the default ClusterQueue.
        cohort: its cohort.
        dynamically: KaiwoConfig ``dynamicallyUpdateDefaultClusterQueue``.
        ours: nobody but the operator wrote the lists of the spec.
    """
    if not pools:
        return spec
    if ours:
        empty = spec == default_spec((), *_default_names(spec))
        return {**spec, **default_spec(pools, queue, cohort)} if dynamically or empty else spec
    if dynamically:
        return follow_pools(spec, pools, queue, cohort)
    return default_spec(pools, queue, cohort) if spec == default_spec((), queue, cohort) else spec


def _default_names(spec: Object) -> tuple[str, str]:
    """Name and cohort of the first queue, which may be the default queue of an earlier KaiwoConfig."""
    first = next(iter(lenient_maps(spec.get("clusterQueues"))), {})
    return str(first.get("name")), str(lenient_map(first.get("spec")).get("cohort"))


def computed_lists(spec: Object, in_force: Object, pools: Sequence[QuotaPool]) -> Object | None:
    """The entries that the operator computed and that the written spec does not have; None without any.

    Args:
        spec: the spec as it is written.
        in_force: the spec that is in force.
        pools: discovered pools.
    """
    written = lenient_maps(spec.get("clusterQueues"))
    names = {entry.get("name") for entry in written}
    queues = []
    for entry in lenient_maps(in_force.get("clusterQueues")):
        if entry in written:
            continue
        # Of a listed queue only the quotas are computed.
        groups = {"resourceGroups": lenient_map(entry.get("spec")).get("resourceGroups")}
        queues.append({"name": entry["name"], "spec": groups} if entry["name"] in names else entry)
    listed = lenient_maps(in_force.get("resourceFlavors"))
    discovered = listed if listed != lenient_maps(spec.get("resourceFlavors")) else []
    lists = {"clusterQueues": queues, "resourceFlavors": discovered if listed else flavors(pools)}
    return {name: entries for name, entries in lists.items() if entries} or None


def follow_pools(spec: Object, pools: Sequence[QuotaPool], queue: str, cohort: str) -> Object:
    """A spec with the default queue's quotas and the discovered flavors as the nodes are now.

    Entries of other names stay, and so do the other fields of the default queue, which stays first. Flavors
    of pools that no longer exist are removed. An omitted or empty list of flavors stays so: the discovered
    flavors are used then.

    Args:
        spec: the spec as it is; it is not changed.
        pools: discovered pools.
        queue: name of the default ClusterQueue.
        cohort: its cohort, if the queue has to be created.
    """
    updated = deepcopy(spec)
    entries = lenient_maps(updated.get("clusterQueues"))
    own = next((entry for entry in entries if entry.get("name") == queue), None)
    if own is None:
        own = default_spec(pools, queue, cohort)["clusterQueues"][0]
    else:
        own["spec"] = {**lenient_map(own.get("spec")), "resourceGroups": resource_groups(pools)}
    updated["clusterQueues"] = [own, *(entry for entry in entries if entry is not own)]
    listed = lenient_maps(updated.get("resourceFlavors"))
    if listed:
        names = {pool.name for pool in pools}
        others = [entry for entry in listed if not _is_discovered(entry)]
        taken = {entry.get("name") for entry in others}
        new = [entry for entry in flavors(pools) if entry["name"] not in taken]
        unchanged = {entry.get("name"): entry for entry in listed if entry.get("name") in names}
        updated["resourceFlavors"] = [*(unchanged.get(entry["name"], entry) for entry in new), *others]
    return updated


def _is_discovered(entry: Object) -> bool:
    """Whether a flavor stands for a discovered pool: it is named like one and selects just that."""
    name = entry.get("name")
    return (
        isinstance(name, str)
        and bool(_DISCOVERED.search(name))
        and lenient_map(entry.get("nodeLabels")) == {NODEPOOL: name}
    )
