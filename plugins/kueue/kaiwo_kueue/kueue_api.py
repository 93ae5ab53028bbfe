"""Discovery of Kueue: which of its kinds the cluster serves, and how many flavors a resource group takes."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from kaiwo.plugin.kit.api_errors import EngineError
from kaiwo.plugin.kit.controllers import max_items
from kaiwo.plugin.kit.kinds import CUSTOM_RESOURCE_DEFINITION
from kaiwo_kueue.kinds import CLUSTER_QUEUE, SYNCED

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaiwo.plugin.kit.controllers import Client
    from kaiwo.plugin.kit.kinds import Resource

_log = logging.getLogger(__name__)

FLAVOR_LIMITS = {"v1beta1": 16, "v1beta2": 64}
"""``maxItems`` of ``resourceGroups[].flavors`` in Kueue 0.12 and 0.18, by their newest version."""

_FLAVORS = ("spec", "resourceGroups", "flavors")
_CACHE_SECONDS = 5.0  # a burst of reconciliations sends one request


class KueueApi:
    """The API of the cluster's Kueue.

    Attributes:
        flavor_limit: flavors that one resource group takes.
    """

    def __init__(self, client: Client, clock: Callable[[], float] = time.monotonic) -> None:
        """Prepare; nothing is read yet.

        Args:
            client: reads.
            clock: monotonic seconds.
        """
        self.flavor_limit = max(FLAVOR_LIMITS.values())
        self._client = client
        self._clock = clock
        self._discovered_at: float | None = None
        self._missing: tuple[Resource, ...] = ()
        self._limit_version: str = ""

    async def missing(self) -> tuple[Resource, ...]:
        """Kinds that the cluster does not serve, in the order of writing."""
        if self._discovered_at is None or self._clock() - self._discovered_at > _CACHE_SECONDS:
            served = await self._client.served(SYNCED)
            self._missing = tuple(kind for kind in SYNCED if kind not in served)
            self._discovered_at = self._clock()
        if CLUSTER_QUEUE in self._missing:
            self._limit_version = ""
        else:
            version = self._client.in_use(CLUSTER_QUEUE).version
            if version != self._limit_version:
                self.flavor_limit = await self._limit(version)
                self._limit_version = version
        return self._missing

    async def _limit(self, version: str) -> int:
        """The limit in the CRD of ClusterQueue; the one known for the version where it cannot be read."""
        known = FLAVOR_LIMITS.get(version, min(FLAVOR_LIMITS.values()))
        try:
            crd = await self._client.get(CUSTOM_RESOURCE_DEFINITION, None, str(CLUSTER_QUEUE))
        except EngineError as error:
            _log.info(
                "cannot read the CRD of %s, assuming a limit of %d flavors: %s", CLUSTER_QUEUE, known, error
            )
            return known
        return max_items(crd, version, _FLAVORS) or known
