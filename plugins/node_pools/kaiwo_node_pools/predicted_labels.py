"""The labels that nodes are going to get, for ``kaiwo init`` before an operator has run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.plugin.kit.names import GPU_MODEL
from kaiwo.plugin.kit.nodes import NODEPOOL, WORKER
from kaiwo_node_pools.pool_limit import LOWEST
from kaiwo_node_pools.pools import node_pools, pool_node, pool_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kaiwo.plugin.kit.kinds import Object
    from kaiwo.plugin.kit.workload import ResolvedConfig
    from kaiwo.plugin.vendors import GpuVendor


def predicted_labels(
    nodes: Sequence[Object], vendors: Sequence[GpuVendor], config: ResolvedConfig
) -> Mapping[str, Mapping[str, str]]:
    """The pool labels of nodes by their hardware, by the name of the node.

    With more pools than every Kueue takes nothing is predicted: which ones are merged depends on the cluster.
    """
    read = [
        pool_node(node, vendors, exclude_control_plane=config.exclude_master_nodes_from_node_pools)
        for node in nodes
    ]
    if len(node_pools(read)) > LOWEST:
        return {}
    found: dict[str, Mapping[str, str]] = {}
    for node in read:
        pool = pool_of(node, {})
        if pool:
            model = {GPU_MODEL: node.gpu_model} if node.gpu_model else {}
            found[node.name] = {WORKER: "true", NODEPOOL: pool, **model}
    return found
