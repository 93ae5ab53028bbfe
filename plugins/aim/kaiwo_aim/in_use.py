"""Which AIMNamespaceConfig counts in a namespace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.plugin.namespace_defaults import precedence
from kaiwo_aim.kinds import NAMESPACE_CONFIG

if TYPE_CHECKING:
    from kaiwo.plugin.controllers import ControllerHost
    from kaiwo.plugin.kit.cache import CachedObject


def config_in_use(host: ControllerHost, namespace: str) -> CachedObject | None:
    """The AIMNamespaceConfig that counts in a namespace."""
    present = (
        entry for entry in host.manager.cache.list(NAMESPACE_CONFIG, namespace) if entry.deleted is None
    )
    return min(present, key=lambda entry: precedence(entry.name, entry.created), default=None)
