"""The Topology of the discovered flavors, made from the labels of the nodes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from kaiwo.plugin.kit.json_access import lenient_maps
from kaiwo.plugin.kit.nodes import TOPOLOGY_BLOCK, TOPOLOGY_RACK

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kaiwo.plugin.kit.kinds import Object
    from kaiwo_kueue.pools import LabelledNode

HOSTNAME = "kubernetes.io/hostname"
LEVELS: Final = (TOPOLOGY_BLOCK, TOPOLOGY_RACK, HOSTNAME)
"""Labels that can be levels, the widest first."""

_SHOWN = 5


@dataclass(frozen=True, slots=True)
class DefaultTopology:
    """A Topology that follows the nodes.

    Attributes:
        name: its name, which is the one in KaiwoConfig.
        levels: node labels, the widest first; none where the KaiwoQueueConfig lists the Topology itself.
        lacking: labels that only some nodes carry, to the names of those that do not. They are no levels.
    """

    name: str
    levels: tuple[str, ...]
    lacking: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def left_out(self) -> str:
        """Which levels are left out and why, empty when all nodes carry the same ones."""
        return "; ".join(
            f"Topology {self.name} has no level {label}: {_joined(names)} without this label; label the "
            "nodes, or give plugins.node_pools.topologyRules in KaiwoConfig a rule for them"
            for label, names in self.lacking.items()
        )


def default_topology(
    name: str, nodes: Iterable[LabelledNode], live: Sequence[str] = (), *, listed: bool = False
) -> DefaultTopology | None:
    """The Topology for the nodes of the discovered pools.

    Levels of a Topology are immutable, so one whose nodes are all gone or cordoned stays as it is.

    Args:
        name: of the Topology, empty for none.
        nodes: all nodes; those count that are in a pool.
        live: levels of the live Topology of that name.
        listed: whether the KaiwoQueueConfig lists a Topology of that name.
    """
    if not name or listed:
        return DefaultTopology(name, ()) if name else None
    members = sorted((node for node in nodes if node.counts and node.pool), key=lambda node: node.name)
    if not members:
        return DefaultTopology(name, tuple(live)) if live else None
    without = {label: tuple(node.name for node in members if not node.labels.get(label)) for label in LEVELS}
    levels = tuple(label for label in LEVELS if not without[label])
    lacking = {label: names for label, names in without.items() if 0 < len(names) < len(members)}
    return DefaultTopology(name, levels, lacking) if levels else None


def levels_of(spec: Object) -> tuple[str, ...]:
    """The node labels in the spec of a Topology."""
    return tuple(str(level.get("nodeLabel")) for level in lenient_maps(spec.get("levels")))


def _joined(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    verb = "are" if len(names) > 1 else "is"
    return f"{', '.join(names[:_SHOWN])}{more} {verb}"
