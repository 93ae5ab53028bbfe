"""How many node pools there may be: as many as a resource group of the cluster's Kueue takes flavors."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from kaiwo.plugin.kit.api_errors import EngineError, NotFound
from kaiwo.plugin.kit.controllers import max_items
from kaiwo.plugin.kit.json_access import lenient_map, lenient_maps
from kaiwo.plugin.kit.kinds import CUSTOM_RESOURCE_DEFINITION
from kaiwo.plugin.kit.nodes import CPU, MEMORY, STORAGE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kaiwo.plugin.kit.controllers import Client
    from kaiwo.plugin.kit.kinds import Object
    from kaiwo_node_pools.pools import PoolNode

_log = logging.getLogger(__name__)

LOWEST = 16
"""Flavors of a resource group in Kueue 0.12; with no more pools than that nothing has to be read."""
HIGHEST = 64
"""Flavors of a resource group in Kueue 0.18, and the limit where Kueue is not installed."""

COMBINATIONS = 512
"""Pairs of a flavor and a resource in a resource group: Kueue's webhook refuses more from 0.15 on, and the
limits of earlier ones are lower."""

READ_AGAIN = 60.0
"""Seconds after which the limit is read again: Kueue may be installed or upgraded at any time."""

_CRD = "clusterqueues.kueue.x-k8s.io"
_FLAVORS = ("spec", "resourceGroups", "flavors")


class PoolLimit:
    """The limit on the number of pools, read from the CRD of Kueue's ClusterQueue."""

    def __init__(self, client: Client, clock: Callable[[], float] = time.monotonic) -> None:
        """Prepare; nothing is read yet.

        Args:
            client: reads.
            clock: monotonic seconds.
        """
        self._client = client
        self._clock = clock
        self._limit = HIGHEST
        self._read_at: float | None = None

    async def read(self) -> int:
        """The limit; the last known one while the CRD cannot be read."""
        if self._read_at is None or self._clock() - self._read_at >= READ_AGAIN:
            self._read_at = self._clock()
            try:
                self._limit = limit_of(await self._client.get(CUSTOM_RESOURCE_DEFINITION, None, _CRD))
            except NotFound:
                self._limit = HIGHEST
            except EngineError as error:
                _log.info(
                    "cannot read the CRD %s, assuming a limit of %d pools: %s", _CRD, self._limit, error
                )
        return self._limit


def limit_of(crd: Object) -> int:
    """Flavors that a resource group takes in the served versions of a ClusterQueue's CRD."""
    versions = lenient_maps(lenient_map(crd.get("spec")).get("versions"))
    served = [str(version.get("name")) for version in versions if version.get("served")]
    return max((max_items(crd, version, _FLAVORS) for version in served), default=0) or HIGHEST


def limit_for(nodes: Iterable[PoolNode], flavors: int) -> int:
    """How many pools there may be: each flavor of the default queue lists the resources of all nodes.

    Args:
        nodes: all nodes.
        flavors: that a resource group takes.
    """
    covered = {CPU, MEMORY, STORAGE}.union(*(node.resource_keys for node in nodes if node.schedulable))
    return min(flavors, COMBINATIONS // len(covered))
