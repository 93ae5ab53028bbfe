"""What the plugin wrote on nodes, for an uninstallation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.plugin.kit.json_access import lenient_map
from kaiwo.plugin.kit.kinds import NODE
from kaiwo.plugin.removals import Removal
from kaiwo_node_pools.node_patch import node_patch
from kaiwo_node_pools.pools import pool_node

if TYPE_CHECKING:
    from kaiwo.plugin.kit.controllers import Client
    from kaiwo.plugin.kit.kinds import Object


async def removals(client: Client) -> list[Removal]:
    """The changes that take Kaiwo's labels, taint and annotations from the nodes."""
    found = [removal(node) async for node in client.list(NODE)]
    return [item for item in found if item is not None]


def removal(node: Object) -> Removal | None:
    """The change that takes from a node what Kaiwo recorded to have written; None when that is nothing."""
    entry = pool_node(node, ())
    patch = node_patch(entry, "", "")
    if not patch:
        return None
    changes = lenient_map(patch.get("metadata"))
    keys = [key for name in ("labels", "annotations") for key in lenient_map(changes.get(name))]
    taint = [f"taint {entry.written.get('taint')}"] if "spec" in patch else []
    return Removal.change(NODE, node, ", ".join([*keys, *taint]), patch)
