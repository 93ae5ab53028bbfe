"""Discovery of Kueue: which of its kinds the cluster serves, and how many flavors a resource group takes."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kaiwo.plugin.kit.api_errors import EngineError
from kaiwo.plugin.kit.controllers import max_items
from kaiwo.plugin.kit.kinds import CUSTOM_RESOURCE_DEFINITION
from kaiwo_kueue.kinds import CLUSTER_QUEUE, SYNCED

if TYPE_CHECKING:
    from kaiwo.plugin.kit.controllers import Manager
    from kaiwo.plugin.kit.kinds import Resource

_log = logging.getLogger(__name__)

FLAVOR_LIMITS = {"v1beta1": 16, "v1beta2": 64}
"""``maxItems`` of ``resourceGroups[].flavors`` in Kueue 0.12 and 0.18, by their newest version."""

COMBINATIONS = 512
"""Pairs of a flavor and a resource in a resource group that Kueue's webhook takes from 0.15 on."""

_FLAVORS = ("spec", "resourceGroups", "flavors")


class KueueApi:
    """The API of the cluster's Kueue.

    Attributes:
        flavor_limit: flavors that one resource group takes.
    """

    def __init__(self, manager: Manager) -> None:
        """Prepare; nothing is read yet.

        Args:
            manager: watches Kueue's kinds.
        """
        self.flavor_limit = max(FLAVOR_LIMITS.values())
        self._manager = manager
        self._limit_version: str = ""

    async def missing(self) -> tuple[Resource, ...]:
        """Kinds that the cluster does not serve, or that are not listed yet, in the order of writing."""
        missing = tuple(kind for kind in SYNCED if not self._manager.is_served(kind))
        if CLUSTER_QUEUE in missing:
            self._limit_version = ""
        else:
            version = self._manager.client.in_use(CLUSTER_QUEUE).version
            if version != self._limit_version:
                self.flavor_limit = await self._limit(version)
                self._limit_version = version
        return missing

    async def _limit(self, version: str) -> int:
        """The limit in the CRD of ClusterQueue; the one known for the version where it cannot be read."""
        known = FLAVOR_LIMITS.get(version, min(FLAVOR_LIMITS.values()))
        try:
            crd = await self._manager.client.get(CUSTOM_RESOURCE_DEFINITION, None, str(CLUSTER_QUEUE))
        except EngineError as error:
            _log.info(
                "cannot read the CRD of %s, assuming a limit of %d flavors: %s", CLUSTER_QUEUE, known, error
            )
            return known
        return max_items(crd, version, _FLAVORS) or known
