"""The quota of ClusterQueues and Cohorts as Kueue's scheduler computes it: what is free, lent and possible.

The rules are those of ``resource_node.go`` in Kueue: a node keeps what its lending limit does not lend, the
rest belongs to the parent, and a borrowing limit bounds what it gets from there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kaiwo.plugin.kit.json_access import lenient_map, lenient_maps
from kaiwo.plugin.kit.values import quantity
from kaiwo_kueue.conversion import to_v1beta2
from kaiwo_kueue.kinds import CLUSTER_QUEUE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kaiwo.plugin.kit.kinds import Object
    from kaiwo.plugin.kit.values import Form
    from kaiwo.plugin.queue_usage import FlavorResource


@dataclass(frozen=True, slots=True)
class NodeQuota:
    """Quota of one resource in one flavor, written in a ClusterQueue or Cohort; amounts in billionths.

    Attributes:
        nominal: the quota itself.
        borrowing: most that may be borrowed; None for no limit.
        lending: most that may be lent; None for no limit.
        form: in which suffixes the quota is written.
    """

    nominal: int
    borrowing: int | None
    lending: int | None
    form: Form


_NONE = NodeQuota(0, None, None, "decimal")


@dataclass(slots=True, eq=False)
class QuotaNode:
    """A ClusterQueue or Cohort in the tree.

    Attributes:
        name: its name.
        quotas: what is written in it.
        used: what its workloads hold (a ClusterQueue's only), in billionths.
        parent: its cohort; None at the top.
        children: of a cohort.
    """

    name: str
    quotas: Mapping[FlavorResource, NodeQuota]
    used: Mapping[FlavorResource, int] = field(default_factory=dict)
    parent: QuotaNode | None = None
    children: list[QuotaNode] = field(default_factory=list)
    _subtree: dict[FlavorResource, int] = field(default_factory=dict, init=False)
    _usage: dict[FlavorResource, int] = field(default_factory=dict, init=False)

    def use(self, used: Mapping[FlavorResource, int]) -> None:
        """Change what its workloads hold."""
        self.used = used
        self.recount()

    def recount(self) -> None:
        """Add up again what is used, from here to the top."""
        self._usage.clear()
        if self.parent is not None:
            self.parent.recount()

    def root(self) -> QuotaNode:
        """The top of the tree."""
        return self if self.parent is None else self.parent.root()

    def kept(self, key: FlavorResource) -> int:
        """The part of the quota that no other may use."""
        limit = self.quotas.get(key, _NONE).lending
        return 0 if limit is None else max(0, self.subtree(key) - limit)

    def subtree(self, key: FlavorResource) -> int:
        """The quota of the node and of all that belongs to it."""
        if key not in self._subtree:
            below = sum(child.subtree(key) - child.kept(key) for child in self.children)
            self._subtree[key] = self.quotas.get(key, _NONE).nominal + below
        return self._subtree[key]

    def usage(self, key: FlavorResource) -> int:
        """What is used of `subtree`."""
        if key not in self._usage:
            below = sum(max(0, child.usage(key) - child.kept(key)) for child in self.children)
            self._usage[key] = self.used.get(key, 0) + below
        return self._usage[key]

    def free(self, key: FlavorResource) -> int:
        """What the node can get now; negative where more is used than there is."""
        if self.parent is None:
            return self.subtree(key) - self.usage(key)
        kept = self.kept(key)
        above = self.parent.free(key)
        limit = self.quotas.get(key, _NONE).borrowing
        if limit is not None:
            above = min(above, self.subtree(key) - kept - max(0, self.usage(key) - kept) + limit)
        return max(0, kept - self.usage(key)) + above

    def most(self, key: FlavorResource) -> int:
        """What the node could get if nothing were used."""
        if self.parent is None:
            return self.subtree(key)
        found = self.kept(key) + self.parent.most(key)
        limit = self.quotas.get(key, _NONE).borrowing
        return found if limit is None else min(found, self.subtree(key) + limit)


def quota_nodes(
    queues: Iterable[Object], cohorts: Iterable[Object], used: Mapping[str, Mapping[FlavorResource, int]]
) -> dict[str, QuotaNode]:
    """The node of each ClusterQueue by name, linked into trees.

    Args:
        queues: ClusterQueues of either generation.
        cohorts: Cohorts of any generation; one that only queues name has no quota of its own.
        used: what the workloads of each queue hold.
    """
    written = {_name(cohort): lenient_map(cohort.get("spec")) for cohort in cohorts}
    nodes: dict[str, QuotaNode] = {}
    for name, spec in written.items():
        nodes[name] = QuotaNode(name, _quotas(spec))
    for name, spec in written.items():
        if parent := parent_of(spec):
            _link(nodes[name], nodes.setdefault(parent, QuotaNode(parent, {})))
    found: dict[str, QuotaNode] = {}
    for queue in queues:
        spec = to_v1beta2(CLUSTER_QUEUE, lenient_map(queue.get("spec")))
        name = _name(queue)
        node = found[name] = QuotaNode(name, _quotas(spec), used.get(name, {}))
        if cohort := str(spec.get("cohortName") or ""):
            _link(node, nodes.setdefault(cohort, QuotaNode(cohort, {})))
    return found


def parent_of(cohort: Object) -> str:
    """The cohort that a cohort belongs to, by its spec; v1alpha1 names it in ``parent``. Empty for none."""
    return str(cohort.get("parentName") or cohort.get("parent") or "")


def _link(child: QuotaNode, parent: QuotaNode) -> None:
    """Make a node the parent of another; a circle, in which Kueue admits nothing, is left open."""
    above: QuotaNode | None = parent
    while above is not None:
        if above is child:
            return
        above = above.parent
    child.parent = parent
    parent.children.append(child)


def _quotas(spec: Object) -> dict[FlavorResource, NodeQuota]:
    found: dict[FlavorResource, NodeQuota] = {}
    for group in lenient_maps(spec.get("resourceGroups")):
        for flavor in lenient_maps(group.get("flavors")):
            for resource in lenient_maps(flavor.get("resources")):
                nominal = quantity(resource.get("nominalQuota"))
                key = str(flavor.get("name")), str(resource.get("name"))
                found[key] = NodeQuota(
                    nominal.nano if nominal else 0,
                    _nano(resource.get("borrowingLimit")),
                    _nano(resource.get("lendingLimit")),
                    nominal.form if nominal else "decimal",
                )
    return found


def _nano(value: object) -> int | None:
    parsed = quantity(value)
    return None if parsed is None else parsed.nano


def _name(obj: Object) -> str:
    return str(lenient_map(obj.get("metadata")).get("name") or "")
