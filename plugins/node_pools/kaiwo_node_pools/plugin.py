"""The plugin ``node_pools``: labels nodes with their pool and GPU model, and taints GPU nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.plugin import hookimpl
from kaiwo.plugin.controllers import ExtraController
from kaiwo.plugin.rbac import PolicyRule

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kaiwo.plugin.kit.kinds import Object
    from kaiwo.plugin.kit.workload import ResolvedConfig
    from kaiwo.plugin.vendors import GpuVendor

KAIWO_API = 1

_READ = ("get", "list", "watch")
_RULES = (
    PolicyRule(("",), ("nodes",), (*_READ, "patch"), "nodes show their pool by labels and a taint"),
    PolicyRule(
        ("",), ("pods",), _READ, "a node's new pool waits for pods that select the old one", namespaced=True
    ),
    PolicyRule(
        ("kueue.x-k8s.io",), ("resourceflavors",), _READ, "a node keeps the pool that a flavor selects"
    ),
    PolicyRule(
        ("apiextensions.k8s.io",),
        ("customresourcedefinitions",),
        ("get",),
        "the number of pools that a queue takes is read from Kueue's CRD",
    ),
)


def node_labels(
    nodes: Sequence[Object], vendors: Sequence[GpuVendor], config: ResolvedConfig
) -> Mapping[str, Mapping[str, str]]:
    """The pool labels that nodes are going to get, by the name of the node."""
    from kaiwo_node_pools.predicted_labels import predicted_labels

    return predicted_labels(nodes, vendors, config)


@hookimpl
def kaiwo_controllers() -> list[ExtraController]:
    """The controller that writes labels and taints of nodes."""
    from kaiwo_node_pools.settings import NodePoolsSettings

    return [
        ExtraController(
            name="node-pools",
            build="kaiwo_node_pools.controller:build",
            rules=_RULES,
            settings=NodePoolsSettings,
            labels_nodes=True,
            node_labels=node_labels,
            removals="kaiwo_node_pools.removals:removals",
        )
    ]
