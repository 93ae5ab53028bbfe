"""Checks that nodes carry the labels that flavors select on, where no loaded plugin writes these labels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.plugin.kit.json_access import lenient_map
from kaiwo.plugin.kit.nodes import NODEPOOL, WORKER
from kaiwo_kueue.kinds import RESOURCE_FLAVOR
from kaiwo_kueue.objects import SyncProblem
from kaiwo_kueue.pools import POOL_LABELS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from kaiwo_kueue.objects import DesiredObject
    from kaiwo_kueue.pools import LabelledNode

REASON = "NodePoolsNotLoaded"
_NEXT_STEP = "add node_pools to the operator's plugins, or label the nodes"


def missing_labels(flavors: Iterable[DesiredObject], nodes: Collection[LabelledNode]) -> list[SyncProblem]:
    """Flavors that no node can serve because nobody labels nodes; none where an administrator labelled them.

    Args:
        flavors: the desired ResourceFlavors.
        nodes: all nodes.
    """
    if not any(node.counts and WORKER not in node.labels for node in nodes):
        return []
    found = list(flavors)
    if not found:
        text = f"no node has the label {NODEPOOL}, and no loaded plugin writes it; {_NEXT_STEP}"
        return [SyncProblem(RESOURCE_FLAVOR, "", REASON, text)]
    problems = []
    for flavor in found:
        selected = {
            key: value
            for key, value in lenient_map(flavor.spec.get("nodeLabels")).items()
            if key in POOL_LABELS
        }
        if selected and not any(selected.items() <= dict(node.labels).items() for node in nodes):
            text = (
                f"ResourceFlavor {flavor.name} selects nodes by {', '.join(sorted(selected))}; no node has "
                f"these labels, and no loaded plugin writes them; {_NEXT_STEP}"
            )
            problems.append(SyncProblem(RESOURCE_FLAVOR, flavor.name, REASON, text))
    return problems
