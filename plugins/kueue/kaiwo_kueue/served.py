"""What of Kueue the cluster serves, and how many flavors its resource groups take."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from kaiwo.engine.errors import EngineError
from kaiwo.engine.resource import CUSTOM_RESOURCE_DEFINITION
from kaiwo.workload.json_access import lenient_map, lenient_maps
from kaiwo_kueue.kinds import CLUSTER_QUEUE, SYNCED

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Object, Resource

_log = logging.getLogger(__name__)

FLAVOR_LIMITS = {"v1beta1": 16, "v1beta2": 64}
"""``maxItems`` of ``resourceGroups[].flavors`` in Kueue 0.12 and 0.18, by their newest version."""

_PATH = ("spec", "resourceGroups", "flavors")


_FRESH = 5.0  # seconds for which an answer holds: a burst of passes asks once


class Kueue:
    """The Kueue of a cluster, as far as discovery tells.

    Attributes:
        flavor_limit: flavors that one resource group takes.
    """

    def __init__(self, client: Client, clock: Callable[[], float] = time.monotonic) -> None:
        """Prepare; nothing is asked yet.

        Args:
            client: reads.
            clock: monotonic seconds.
        """
        self.flavor_limit = max(FLAVOR_LIMITS.values())
        self._client = client
        self._clock = clock
        self._asked: float | None = None
        self._missing: tuple[Resource, ...] = ()
        self._read_of: str = ""

    async def missing(self) -> tuple[Resource, ...]:
        """Kinds that the cluster does not serve, in the order of writing."""
        if self._asked is None or self._clock() - self._asked > _FRESH:
            served = await self._client.served(SYNCED)
            self._missing = tuple(kind for kind in SYNCED if kind not in served)
            self._asked = self._clock()
        if CLUSTER_QUEUE in self._missing:
            self._read_of = ""
        else:
            version = self._client.in_use(CLUSTER_QUEUE).version
            if version != self._read_of:
                self.flavor_limit = await self._limit(version)
                self._read_of = version
        return self._missing

    async def _limit(self, version: str) -> int:
        """The limit in the CRD of ClusterQueue; what is known of the version where it cannot be read."""
        known = FLAVOR_LIMITS.get(version, min(FLAVOR_LIMITS.values()))
        try:
            crd = await self._client.get(CUSTOM_RESOURCE_DEFINITION, None, str(CLUSTER_QUEUE))
        except EngineError as error:
            _log.info("cannot read the CRD of %s, %d flavors are assumed: %s", CLUSTER_QUEUE, known, error)
            return known
        return limit_in(crd, version) or known


def limit_in(crd: Object, version: str) -> int:
    """``maxItems`` of a resource group's flavors in a version of the CRD; 0 when it says none."""
    for item in lenient_maps(lenient_map(crd.get("spec")).get("versions")):
        if item.get("name") != version:
            continue
        node = lenient_map(lenient_map(item.get("schema")).get("openAPIV3Schema"))
        for key in _PATH:
            node = lenient_map(lenient_map(node.get("properties")).get(key))
            inner = lenient_map(node.get("items"))
            if inner and key != _PATH[-1]:
                node = inner
        limit = node.get("maxItems")
        return limit if isinstance(limit, int) else 0
    return 0
