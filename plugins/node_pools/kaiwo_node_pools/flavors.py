"""Kueue's ResourceFlavors, as far as they select node pools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaiwo.plugin.kit.cache import Projection
from kaiwo.plugin.kit.kinds import Resource
from kaiwo.plugin.kit.nodes import NODEPOOL

if TYPE_CHECKING:
    from kaiwo.plugin.kit.cache import Cache, CacheEvent

RESOURCE_FLAVOR: Final = Resource(
    "kueue.x-k8s.io", "v1beta2", "ResourceFlavor", "resourceflavors", namespaced=False, fallbacks=("v1beta1",)
)
FLAVOR_PROJECTION = Projection(keep=(("spec", "nodeLabels"),))


def selected_pools(cache: Cache) -> frozenset[str]:
    """The pools that a ResourceFlavor selects; none where Kueue is not installed."""
    pools = (
        entry.part("spec", "nodeLabels", NODEPOOL)
        for entry in cache.list(RESOURCE_FLAVOR)
        if entry.deleted is None
    )
    return frozenset(pool for pool in pools if isinstance(pool, str))


def changes_selection(event: CacheEvent) -> bool:
    """Whether an event adds or removes a flavor, or changes the pool that it selects."""
    old, new = event.old, event.new
    if old is None or new is None or old.deleted != new.deleted:
        return True
    return bool(old.part("spec", "nodeLabels", NODEPOOL) != new.part("spec", "nodeLabels", NODEPOOL))
