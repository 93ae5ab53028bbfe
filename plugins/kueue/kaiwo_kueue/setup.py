"""The default set-up that ``kaiwo init`` shows: the KaiwoQueueConfig, and what the operator makes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import ValidationError

from kaiwo.plugin.kit.cache import managers_of
from kaiwo.plugin.kit.fields import explain
from kaiwo.plugin.kit.json_access import lenient_map
from kaiwo.plugin.queue_setup import SetupChange, SetupPlan
from kaiwo_kueue.conversion import normal_form
from kaiwo_kueue.default_topology import default_topology, levels_of
from kaiwo_kueue.defaults import default_spec, most_pools, updated_spec
from kaiwo_kueue.desired import ClusterState, desired
from kaiwo_kueue.kinds import (
    CLUSTER_QUEUE,
    FIELD_MANAGER,
    QUEUE_CONFIG,
    RESOURCE_FLAVOR,
    SINGLETON,
    TOPOLOGY,
)
from kaiwo_kueue.kueue_api import FLAVOR_LIMITS
from kaiwo_kueue.models import QueueConfigSpec
from kaiwo_kueue.pools import labelled_node, quota_pools
from kaiwo_kueue.projections import LISTS
from kaiwo_kueue.usage import flavor_labels

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaiwo.plugin.kit.kinds import Object, Resource
    from kaiwo.plugin.queue_setup import SetupFacts
    from kaiwo_kueue.pools import LabelledNode

SHOWN = (TOPOLOGY, RESOURCE_FLAVOR, CLUSTER_QUEUE)
"""Kinds of objects that the operator makes and that a set-up shows."""


def plan_setup(facts: SetupFacts) -> SetupPlan:
    """The default KaiwoQueueConfig for the nodes as they are; one that somebody else wrote stays."""
    config = facts.config
    nodes = [
        labelled_node(node, facts.vendors, exclude_control_plane=config.exclude_master_nodes_from_node_pools)
        for node in facts.nodes
    ]
    found = quota_pools(nodes)
    most = most_pools(found, max(FLAVOR_LIMITS.values()))
    pools = found[:most]
    queue, cohort = config.default_cluster_queue_name, config.default_cluster_queue_cohort_name
    live = _find(facts, QUEUE_CONFIG, SINGLETON)
    notes = list(_node_notes(nodes))
    if len(found) > most:
        notes.append(
            f"{len(found)} node pools are more than the {most} that the default queue takes as flavors; "
            "those that differ least are merged where the operator labels the nodes, others are left out"
        )
    if live is None:
        before, spec = None, default_spec(pools, queue, cohort)
    else:
        before = lenient_map(live.get("spec"))
        others = {name for path in LISTS for name in managers_of(live, path)} - {FIELD_MANAGER}
        if others:
            spec = before
            notes.append(
                f"KaiwoQueueConfig {SINGLETON} was written by {', '.join(sorted(others))} and stays as it is"
            )
        else:
            spec = updated_spec(before, pools, queue, cohort, dynamically=True, ours=True)
    try:
        described = QueueConfigSpec.read(spec)
    except ValidationError as error:
        notes.append(f"KaiwoQueueConfig {SINGLETON}: {'; '.join(map(str, explain(error, ('spec',))))}")
        return SetupPlan((), tuple(notes), FIELD_MANAGER)
    state = ClusterState(
        pools=pools,
        nodes=nodes,
        gpu_keys=[key for vendor in facts.vendors for key in vendor.resource_keys],
        existing_flavors=flavor_labels(facts.objects.get(RESOURCE_FLAVOR, ())),
        gpu_taint=config.default_gpu_taint_key if config.add_taints_to_gpu_nodes else "",
        topology=default_topology(
            config.default_topology_name,
            nodes,
            _levels(facts, config.default_topology_name),
            listed=config.default_topology_name in described.topology_names,
        ),
    )
    wanted = desired(described, state)
    notes += [problem.message for problem in wanted.problems]
    changes = [SetupChange(QUEUE_CONFIG, SINGLETON, before, spec)]
    for item in wanted.objects:
        if item.kind in SHOWN:
            made = _find(facts, item.kind, item.name)
            normal = None if made is None else normal_form(item.kind, lenient_map(made.get("spec")))
            changes.append(SetupChange(item.kind, item.name, normal, item.normal_spec, by_operator=True))
    missing = [kind.kind for kind in SHOWN[1:] if kind not in facts.objects]
    if missing:
        notes.append(f"Kueue is not installed ({', '.join(missing)}); nothing is queued before it is")
    return SetupPlan(tuple(changes), tuple(notes), FIELD_MANAGER)


def _find(facts: SetupFacts, kind: Resource, name: str) -> Object | None:
    objects = facts.objects.get(kind, ())
    return next((obj for obj in objects if obj["metadata"]["name"] == name), None)


def _levels(facts: SetupFacts, name: str) -> tuple[str, ...]:
    return levels_of(lenient_map((_find(facts, TOPOLOGY, name) or {}).get("spec")))


def _node_notes(nodes: list[LabelledNode]) -> Iterator[str]:
    if not nodes:
        yield "the cluster has no nodes; the default queue gets its quotas with the first ones"
    outside = sorted(node.name for node in nodes if node.counts and not node.pool)
    if outside:
        more = f" and {len(outside) - 3} more" if len(outside) > 3 else ""  # noqa: PLR2004  enough to find them
        yield f"no quota for nodes without a pool: {', '.join(outside[:3])}{more}"
