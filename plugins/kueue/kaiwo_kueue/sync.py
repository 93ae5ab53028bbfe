"""The plan that makes Kueue's objects equal to the ones that a KaiwoQueueConfig describes.

The plan depends only on the desired and the live objects, so an interrupted reconciliation can be repeated. A
flavor that Kueue does not let change is replaced in several reconciliations: Kueue's finalizer holds it while
any ClusterQueue lists it, so our queues drop it first, with stopPolicy Hold, and list it again afterwards. A
queue that workloads use is never deleted: it is held until no workload uses it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from kaiwo.plugin.kit.json_access import lenient_maps
from kaiwo_kueue.conversion import contains
from kaiwo_kueue.deviations import deviations
from kaiwo_kueue.draining import is_of_an_administrator
from kaiwo_kueue.kinds import CLUSTER_QUEUE, LOCAL_QUEUE, RESOURCE_FLAVOR, SYNCED, TOPOLOGY
from kaiwo_kueue.objects import HELD, ConfigOwner, SyncProblem, flavors_of
from kaiwo_kueue.sync_actions import (
    ApplyObject,
    DeleteObject,
    HoldObject,
    MigrateObject,
    ReleaseObject,
    RetryWorkloads,
    SyncPlan,
    TouchObject,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from kaiwo.plugin.kit.kinds import Object
    from kaiwo_kueue.objects import DesiredObject, Identity, LiveObject, Severity
    from kaiwo_kueue.sync_actions import Action

RefusedChange: TypeAlias = tuple[str, str]
"""uid of a live object, and the hash of the desired object that Kueue refused to make of it."""

_LETS_IN = ("nodeTaints", "tolerations")
"""What decides beside the labels which pods a flavor lets in."""

_RECREATED = "it cannot be changed, it is created again"


class _Planner:
    """Plans one reconciliation; its methods collect actions and problems."""

    def __init__(
        self,
        desired: Sequence[DesiredObject],
        live: Iterable[LiveObject],
        *,
        refused: Collection[RefusedChange],
        holders: Callable[[str], Sequence[str]],
        unusable: Collection[Identity],
        owner: ConfigOwner,
        draining: Collection[Identity],
    ) -> None:
        self.unusable = unusable
        self.owner = owner
        self.draining = draining
        self.desired: Mapping[Identity, DesiredObject] = {item.identity: item for item in desired}
        self.live_objects: Mapping[Identity, LiveObject] = {item.identity: item for item in live}
        self.refused = refused
        self.holders = holders
        self.actions: list[Action] = []
        self.problems: list[SyncProblem] = []
        self.listing: dict[str, list[LiveObject]] = defaultdict(list)
        for item in self.live_objects.values():
            if item.kind == CLUSTER_QUEUE:
                for flavor in flavors_of(item.normal_spec):
                    self.listing[flavor].append(item)
        self.held: set[Identity] = set()
        self.replaced = self._replaced()

    def is_refused(self, item: DesiredObject, live: LiveObject) -> bool:
        return (live.uid, item.digest) in self.refused

    def _replaced(self) -> dict[Identity, LiveObject]:
        """Flavors and topologies that have to be deleted before they can be created again."""
        found: dict[Identity, LiveObject] = {}
        for identity, item in self.desired.items():
            live = self.live_objects.get(identity)
            if live is None or item.kind not in (RESOURCE_FLAVOR, TOPOLOGY):
                continue
            if live.deleting or (live.is_owned and self.is_refused(item, live)):
                found[identity] = live
        self.held = {identity for identity, live in found.items() if self._is_held(live)}
        found = {identity: live for identity, live in found.items() if identity not in self.held}
        gone = {live.name for live in found.values() if live.kind == TOPOLOGY}
        for identity in self.desired:
            live = self.live_objects.get(identity)
            if live is not None and live.is_owned and live.normal_spec.get("topologyName") in gone:
                found[identity] = live
        return found

    def _is_held(self, live: LiveObject) -> bool:
        """Whether something that Kaiwo does not change uses a flavor or topology that has to be replaced.

        It is not begun then: our queues would be on hold until somebody else acts.
        """
        if live.kind == RESOURCE_FLAVOR:
            holders = self._holders_of_flavor(live)
        else:
            flavors = sorted(self._flavors_of_topology(live.name), key=lambda flavor: flavor.name)
            holders = [text for flavor in flavors for text in self._holders_of_topology(flavor)]
        for text in holders:
            in_use = "FlavorInUse" if live.kind == RESOURCE_FLAVOR else "TopologyInUse"
            self._report(live, in_use, f"{live.kind.kind} {live.name} cannot be replaced while {text}")
        return bool(holders)

    def _holders_of_topology(self, flavor: LiveObject) -> list[str]:
        """Why a flavor that uses a topology cannot be deleted, with the next step."""
        if not flavor.is_owned:
            return [f"ResourceFlavor {flavor.name} uses it; the flavor is not Kaiwo's, delete it"]
        uses = f"ResourceFlavor {flavor.name} uses it and"
        return [f"{uses} {text}" for text in self._holders_of_flavor(flavor)]

    def _holders_of_flavor(self, live: LiveObject) -> list[str]:
        """The queues that keep listing a flavor whatever Kaiwo does, with the next step."""
        queues = sorted(self.listing[live.name], key=lambda queue: queue.name)
        listed = live.identity in self.desired
        stays = "its nodes are away, or its entry cannot be used"
        if live.identity not in self.unusable:
            stays = "the flavor is not listed any more, remove it from the queue"
        reasons: Mapping[str, Callable[[LiveObject], bool]] = {
            "the queue is not Kaiwo's, remove the flavor from it": lambda queue: (
                queue.identity not in self.desired and not queue.is_owned
            ),
            "the queue is draining, list it again or delete its workloads": self._drains,
            "its entry cannot be used, correct it": lambda queue: queue.identity in self.unusable,
            stays: lambda queue: (
                not listed and queue.identity in self.desired and self._keeps(queue, live.name)
            ),
        }
        found = []
        for next_step, applies in reasons.items():
            names = [queue.name for queue in queues if applies(queue)]
            if names:
                found.append(f"ClusterQueue {', '.join(names)} lists it; {next_step}")
        return found

    def _flavors_of_topology(self, name: str) -> list[LiveObject]:
        return [
            item
            for item in self.live_objects.values()
            if item.kind == RESOURCE_FLAVOR and item.normal_spec.get("topologyName") == name
        ]

    def _drains(self, live: LiveObject) -> bool:
        """Whether a queue is not listed and stays because workloads use it."""
        return live.identity in self.draining

    def _report(self, about: LiveObject, reason: str, text: str, *, failed: bool = False) -> None:
        severity: Severity = "FAILED" if failed else "PENDING"
        self.problems.append(SyncProblem(about.kind, about.name, reason, text, severity))

    def run(self) -> SyncPlan:
        # The garbage collector would delete objects of earlier versions together with their owner.
        self.actions.extend(
            MigrateObject(live)
            for live in self.live_objects.values()
            if live.referenced and not live.deleting
        )
        order = {kind: at for at, kind in enumerate(SYNCED)}
        for item in sorted(self.desired.values(), key=lambda item: order[item.kind]):
            self._one(item)
        listed = {*self.desired, *self.unusable}
        unlisted = [live for identity, live in self.live_objects.items() if identity not in listed]
        for live in sorted(unlisted, key=lambda live: (-order[live.kind], live.identity)):
            self._unlisted(live)
        return SyncPlan(tuple(self.actions), tuple(self.problems))

    def _one(self, item: DesiredObject) -> None:
        live = self.live_objects.get(item.identity)
        if live is None:
            self._missing(item)
        elif item.identity in self.replaced:
            self._replace(live)
        elif item.identity in self.held:
            return
        elif live.deleting:
            self._terminating(live)
        elif self._drains(live):
            self._hold(live)
        elif self._is_for_draining(item, live):
            return
        elif item.kind == LOCAL_QUEUE and not live.is_owned:
            self._foreign_local_queue(item, live)
        elif self.is_refused(item, live):
            self._immutable(live)
        else:
            self._compare(item, self._reduced(item), live)
            self._retry(item, live)

    def _is_for_draining(self, item: DesiredObject, live: LiveObject) -> bool:
        """Whether a flavor or topology stays as it is because queues that are draining use it."""
        return (
            self.owner.is_default
            and live.is_owned
            and is_of_an_administrator(live, item, self.owner)
            and self._serves_draining(live)
        )

    def _serves_draining(self, live: LiveObject) -> bool:
        """Whether a queue that is draining lists a flavor, or one of the flavors of a topology."""
        if live.kind == TOPOLOGY:
            return any(map(self._serves_draining, self._flavors_of_topology(live.name)))
        return live.kind == RESOURCE_FLAVOR and any(self._drains(queue) for queue in self.listing[live.name])

    def _hold(self, live: LiveObject) -> None:
        held = live.normal_spec.get("stopPolicy") in HELD
        if not held or not live.is_draining:
            self.actions.append(HoldObject(live))

    def _waits_for_topology(self, item: DesiredObject) -> bool:
        topology = (TOPOLOGY.plural, "", str(item.spec.get("topologyName", "")))
        return item.kind == RESOURCE_FLAVOR and topology in self.replaced

    def _missing(self, item: DesiredObject) -> None:
        if self._waits_for_topology(item):
            text = f"ResourceFlavor {item.name} waits for its topology, which is being replaced"
            self.problems.append(
                SyncProblem(item.kind, item.name, "ResourceFlavorReplacing", text, "PENDING")
            )
            return
        self.actions.append(ApplyObject(self._reduced(item), None, owned=True, why="it is listed"))

    def _reduced(self, item: DesiredObject) -> DesiredObject:
        """A queue without the flavors that are being replaced, on hold until they are back."""
        if item.kind != CLUSTER_QUEUE:
            return item
        going = {name for plural, _, name in self.replaced if plural == RESOURCE_FLAVOR.plural}
        going |= {flavor.name for flavor in self.desired.values() if self._waits_for_topology(flavor)}
        if not going & flavors_of(item.spec):
            return item
        groups = []
        for group in lenient_maps(item.spec.get("resourceGroups")):
            left = [f for f in lenient_maps(group.get("flavors")) if f.get("name") not in going]
            if left:
                groups.append({**group, "flavors": left})
        spec: Object = {**item.spec, "resourceGroups": groups, "stopPolicy": "Hold"}
        return replace(item, spec=spec)

    def _retry(self, item: DesiredObject, live: LiveObject) -> None:
        """Have Kueue try the workloads of a queue again whose flavors let in other pods than before.

        Kueue does so when the queue changes, and not when one of its flavors does.
        """
        changed = frozenset(filter(self._lets_in_others, flavors_of(item.spec)))
        if item.kind == CLUSTER_QUEUE and changed and item.spec.get("stopPolicy") in (None, "None"):
            held = replace(item, spec={**item.spec, "stopPolicy": "Hold"})
            self.actions.append(RetryWorkloads(held, live, changed))

    def _lets_in_others(self, flavor: str) -> bool:
        """Whether other taints or tolerations of a flavor are listed than were written last."""
        identity = (RESOURCE_FLAVOR.plural, "", flavor)
        item, live = self.desired.get(identity), self.live_objects.get(identity)
        if item is None or live is None or live.applied == item.digest:
            return False
        return any((item.spec.get(part) or []) != (live.normal_spec.get(part) or []) for part in _LETS_IN)

    def _replace(self, live: LiveObject) -> None:
        if live.kind == RESOURCE_FLAVOR:
            users = [queue.name for queue in self.listing[live.name]]
        else:
            users = [item.name for item in self._flavors_of_topology(live.name)]
        if not users and not live.deleting:
            self.actions.append(DeleteObject(live, _RECREATED, recreated=True))
        self._touch(live)
        kind = live.kind.kind
        text = f"{kind} {live.name} is being replaced"
        if users:
            text += f"; still listed by {', '.join(sorted(users))}"
        self._report(live, f"{kind}Replacing", text)

    def _touch(self, live: LiveObject) -> None:
        if live.kind == RESOURCE_FLAVOR and live.deleting and not self.listing[live.name]:
            self.actions.append(TouchObject(live))

    def _terminating(self, live: LiveObject) -> None:
        self._touch(live)
        kind = live.kind.kind
        text = f"{kind} {live.name} is being deleted"
        if live.kind == CLUSTER_QUEUE:
            names = self.holders(live.name)
            if names:
                text += f", which waits for the workloads it has admitted: {', '.join(names[:5])}"
                text += f" and {len(names) - 5} more" if len(names) > 5 else ""  # noqa: PLR2004  one line
        elif live.kind == RESOURCE_FLAVOR and self.listing[live.name]:
            users = sorted(queue.name for queue in self.listing[live.name])
            text += f", which waits for ClusterQueue {', '.join(users)} to drop it"
        if live.identity in self.desired:
            text += "; it is created again then"
        self._report(live, f"{kind}Terminating", text)

    def _foreign_local_queue(self, item: DesiredObject, live: LiveObject) -> None:
        points_to = live.normal_spec.get("clusterQueue")
        if points_to != item.spec["clusterQueue"]:
            text = (
                f"LocalQueue {live.namespace}/{live.name} was not created by Kaiwo and points to "
                f"ClusterQueue {points_to}; it is used as it is. Delete it and Kaiwo creates one"
            )
            self._report(live, "LocalQueueConflict", text, failed=True)

    def _immutable(self, live: LiveObject) -> None:
        kind = live.kind.kind
        if live.kind == CLUSTER_QUEUE:
            # Deleted, it would end with its last workload only, admit nobody until then, and stay deleted.
            text = (
                f"ClusterQueue {live.name}: Kueue does not let a field change that is listed with another "
                "value, such as concurrentAdmissionPolicy; the queue stays as it is. Undo the change, or "
                "list a queue of another name"
            )
            self._report(live, "Immutable", text, failed=True)
            return
        if live.is_owned:
            self.actions.append(DeleteObject(live, _RECREATED, recreated=True))
            self._report(live, f"{kind}Replacing", f"{kind} {live.name} is being replaced")
            return
        text = (
            f"{kind} {live.name} was not created by Kaiwo, and Kueue does not let it change; delete it "
            "and Kaiwo creates it as listed"
        )
        self._report(live, "Immutable", text, failed=True)

    def _compare(self, whole: DesiredObject, item: DesiredObject, live: LiveObject) -> None:
        marked = live.is_owned or live.managed
        labelled = contains(dict(live.labels), dict(item.labels))
        if (
            marked
            and labelled
            and live.applied == item.digest
            and not deviations(item.kind, live.normal_spec, item.normal_spec, owned=live.is_owned)
            and self._is_labelled(live)
        ):
            return
        if not marked:
            why = "it existed before, it is managed from now on"
        elif live.is_draining:
            why = "it is listed again"
        elif not self._is_labelled(live):
            why = "another KaiwoQueueConfig lists it"
        elif live.applied != item.digest:
            why = "what is listed changed"
        else:
            why = "it was changed by somebody else"
        self.actions.append(
            ApplyObject(item, live, owned=live.is_owned, why=why, if_unchanged=item is not whole)
        )

    def _is_labelled(self, live: LiveObject) -> bool:
        """Whether the labels of an object that Kaiwo created show which KaiwoQueueConfig lists it."""
        if not live.is_owned:
            return True
        return (
            live.owner == self.owner.uid
            and live.is_default == (self.owner.is_default and live.kind == CLUSTER_QUEUE)
            and not live.is_draining
        )

    def _unlisted(self, live: LiveObject) -> None:
        if live.is_owned:
            if live.deleting:
                self._terminating(live)
            elif self._drains(live):
                self._hold(live)
            elif not self._in_use(live):
                self.actions.append(DeleteObject(live, "it is not listed any more"))
        elif live.managed and not live.deleting:
            self.actions.append(ReleaseObject(live))

    def _in_use(self, live: LiveObject) -> bool:
        """Whether a queue needs a flavor or topology; deleted now, a flavor could not be created again.

        A queue that drops it is written first, and the event of that write causes the next reconciliation.
        """
        if live.kind == TOPOLOGY:
            return self._serves_draining(live)
        users = self.listing[live.name] if live.kind == RESOURCE_FLAVOR else []
        keeping = sorted(queue.name for queue in users if self._keeps(queue, live.name))
        if keeping:
            text = (
                f"ResourceFlavor {live.name} is not listed any more and stays while ClusterQueue "
                f"{', '.join(keeping)} lists it; remove it from the queue"
            )
            self._report(live, "FlavorInUse", text)
        return bool(users)

    def _keeps(self, queue: LiveObject, flavor: str) -> bool:
        """Whether a queue that is not draining still lists a flavor after this reconciliation."""
        if self._drains(queue):
            return False
        item = self.desired.get(queue.identity)
        if item is not None:
            return flavor in flavors_of(item.spec)
        return not queue.is_owned or queue.identity in self.unusable


def plan(
    desired: Sequence[DesiredObject],
    live: Iterable[LiveObject],
    *,
    refused: Collection[RefusedChange] = (),
    holders: Callable[[str], Sequence[str]] = lambda _: (),
    unusable: Collection[Identity] = (),
    owner: ConfigOwner,
    draining: Collection[Identity] = (),
) -> SyncPlan:
    """Plan one reconciliation.

    Args:
        desired: objects that are described, each identity once.
        live: all objects of these kinds, whoever created them.
        refused: changes that Kueue refused because a field is immutable.
        holders: returns the names of the workloads that a ClusterQueue has admitted.
        unusable: objects that are described wrongly; live ones stay as they are, so that a typing error
            deletes no queue in use.
        owner: the KaiwoQueueConfig.
        draining: queues that are not listed and stay because workloads use them.
    """
    planner = _Planner(
        desired, live, refused=refused, holders=holders, unusable=unusable, owner=owner, draining=draining
    )
    return planner.run()
