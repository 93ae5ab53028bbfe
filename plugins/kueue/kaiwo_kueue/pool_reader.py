"""Reads node pools from the labels of nodes, and follows them through the cache."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from kaiwo.plugin.kit.cache import Projection
from kaiwo.plugin.kit.controllers import Watch
from kaiwo.plugin.kit.kinds import NODE
from kaiwo_kueue.defaults import most_pools
from kaiwo_kueue.kueue_api import FLAVOR_LIMITS
from kaiwo_kueue.pools import labelled_node, quota_pools

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaiwo.plugin.controllers import ControllerHost
    from kaiwo.plugin.kit.cache import CachedObject, CacheEvent
    from kaiwo_kueue.pools import LabelledNode, QuotaPool

_log = logging.getLogger(__name__)

LABEL_TIMEOUT = 10.0
"""Seconds for which nodes without a pool label are waited for: a node that joins gets its labels at once."""

_PROJECTION = Projection(
    keep=(("spec", "unschedulable"), ("spec", "taints"), ("status", "allocatable"), ("status", "capacity")),
)


class PoolReader:
    """The nodes of the cluster and their pools, as of now.

    Attributes:
        limit: flavors that one resource group takes by Kueue's schema.
    """

    def __init__(self, host: ControllerHost, clock: Callable[[], float] = time.monotonic) -> None:
        """Follow the nodes of a host's manager.

        Args:
            host: the operator around it.
            clock: monotonic seconds.
        """
        self.limit = max(FLAVOR_LIMITS.values())
        self._host = host
        self._clock = clock
        self._nodes: dict[str, LabelledNode] = {}
        self._listeners: list[Callable[[], None]] = []
        self._pools: tuple[QuotaPool, ...] | None = None
        self._unlabelled_since: float | None = None
        self._logged: set[tuple[str, str]] = set()
        host.manager.watch(Watch(NODE, projection=_PROJECTION))
        host.manager.cache.subscribe(NODE, self._on_node)
        host.on_config_change(self._on_config_change)

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call back whenever a node changed in what pools are made of."""
        self._listeners.append(listener)

    @property
    def nodes(self) -> tuple[LabelledNode, ...]:
        """All nodes."""
        return tuple(self._nodes.values())

    @property
    def pools(self) -> tuple[QuotaPool, ...]:
        """As many pools as a resource group takes flavors."""
        return self._all_pools[: self._most]

    @property
    def left_out(self) -> tuple[str, ...]:
        """Names of the pools that are too many."""
        return tuple(pool.name for pool in self._all_pools[self._most :])

    @property
    def _most(self) -> int:
        return most_pools(self._all_pools, self.limit)

    @property
    def _all_pools(self) -> tuple[QuotaPool, ...]:
        if self._pools is None:
            self._pools = quota_pools(self._nodes.values())
        return self._pools

    @property
    def unlabelled(self) -> list[str]:
        """Names of the nodes that count and that nobody has put into a pool."""
        return sorted(node.name for node in self._nodes.values() if node.counts and not node.pool)

    @property
    def merged(self) -> dict[str, str]:
        """Pools that were merged with others, to the pool that they became."""
        return {node.merged_from: node.pool for node in self._nodes.values() if node.merged_from}

    @property
    def pending(self) -> dict[str, str]:
        """Nodes that are going to change their pool, to the pool that they leave."""
        return {node.name: node.pool for node in self._nodes.values() if node.pool_pending}

    def label_wait(self) -> float:
        """Seconds for which to wait for nodes to be labelled; 0 when all are, or when nobody labels them.

        A default queue is made once, from the pools of the moment: nodes that are labelled a second later
        would never be part of it.
        """
        if not self._host.nodes_labelled or not self.unlabelled:
            self._unlabelled_since = None
            return 0.0
        now = self._clock()
        if self._unlabelled_since is None:
            self._unlabelled_since = now
        return max(0.0, self._unlabelled_since + LABEL_TIMEOUT - now)

    def _on_node(self, event: CacheEvent) -> None:
        name = event.latest.name
        before = self._nodes.get(name)
        after = self._read(event.new) if event.new is not None else None
        if after is None:
            self._nodes.pop(name, None)
        else:
            self._nodes[name] = after
        if before != after:
            self._changed()

    def _on_config_change(self) -> None:
        for entry in self._host.manager.cache.list(NODE):
            self._nodes[entry.name] = self._read(entry)
        self._changed()

    def _read(self, entry: CachedObject) -> LabelledNode:
        return labelled_node(
            entry.full(),
            self._host.vendors,
            exclude_control_plane=self._host.config().exclude_master_nodes_from_node_pools,
            failed=self._vendor_failed,
        )

    def _changed(self) -> None:
        self._pools = None
        for listener in self._listeners:
            listener()

    def _vendor_failed(self, vendor: str, error: Exception) -> None:
        failure = (vendor, f"{type(error).__name__}: {error}")
        if failure not in self._logged:
            self._logged.add(failure)
            _log.error("GPU vendor %s cannot read a node, no quota counts its GPUs: %s", *failure)
