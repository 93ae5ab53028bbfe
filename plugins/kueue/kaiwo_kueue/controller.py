"""The controller that keeps Kueue's objects as the KaiwoQueueConfig describes them.

One key stands for all objects, because they refer to each other and are few. A reconciliation that changes
nothing writes nothing. It runs after changes of the KaiwoQueueConfig, Kueue's objects, nodes, namespaces,
workloads that name a queue, and KaiwoConfig.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pydantic import ValidationError

from kaiwo.plugin.kit.api_errors import AlreadyExists, ChangedBack, Conflict, NotFound
from kaiwo.plugin.kit.cache import Projection
from kaiwo.plugin.kit.controllers import ConditionReporter, Controller, Key, Watch
from kaiwo.plugin.kit.fields import explain
from kaiwo.plugin.kit.json_access import lenient_map
from kaiwo.plugin.kit.kinds import NAMESPACE
from kaiwo_kueue.admission import is_over
from kaiwo_kueue.capacity_check import gpus_outside_queues
from kaiwo_kueue.capacity_gauges import CapacityGauges
from kaiwo_kueue.default_topology import default_topology, levels_of
from kaiwo_kueue.defaults import computed_lists, default_config, is_default, updated_spec
from kaiwo_kueue.demand import Demand
from kaiwo_kueue.desired import ClusterState, desired
from kaiwo_kueue.draining import draining_condition, draining_queues
from kaiwo_kueue.existing_queues import EXISTING_MANAGED, existing_condition, existing_queues, unannounced
from kaiwo_kueue.inactive_queues import QUEUES_ACTIVE, activity_changed, inactive_condition, inactive_queues
from kaiwo_kueue.kinds import (
    CLUSTER_QUEUE,
    DRAINING_LABEL,
    FIELD_MANAGER,
    LOCAL_QUEUE,
    NAMESPACE_LABEL,
    QUEUE_CONFIG,
    RESOURCE_FLAVOR,
    SINGLETON,
    SYNCED,
    TOPOLOGY,
    WORKLOAD,
)
from kaiwo_kueue.kueue_api import KueueApi
from kaiwo_kueue.label_check import missing_labels
from kaiwo_kueue.models import QueueConfigSpec
from kaiwo_kueue.objects import ConfigOwner, SyncProblem, live_object
from kaiwo_kueue.pool_reader import PoolReader
from kaiwo_kueue.projections import NAMESPACE_PROJECTION, QUEUE_CONFIG_PROJECTION, WORKLOAD_PROJECTION
from kaiwo_kueue.queue_events import queue_events
from kaiwo_kueue.queue_use import QueueUse, conditions_of
from kaiwo_kueue.settings import KueueSettings
from kaiwo_kueue.status import (
    OUTSIDE,
    OWN,
    QUOTA,
    READY,
    not_the_singleton,
    pool_conditions,
    status,
)
from kaiwo_kueue.sync import plan
from kaiwo_kueue.sync_actions import ApplyObject
from kaiwo_kueue.sync_executor import RELEASE_SECONDS, SyncExecutor

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kaiwo.plugin.controllers import ControllerHost
    from kaiwo.plugin.kit.cache import CachedObject, CacheEvent
    from kaiwo.plugin.kit.kinds import Object, Resource
    from kaiwo_kueue.default_topology import DefaultTopology
    from kaiwo_kueue.objects import Identity, LiveObject
    from kaiwo_kueue.queue_use import Holders
_log = logging.getLogger(__name__)

KEY = Key("", SINGLETON)

_UNSERVED_RETRY = 30.0  # seconds, where KaiwoQueueConfig itself is not served
_FAILED_RETRY = 10.0  # seconds until writes that failed are tried again; doubled each time
_LONGEST_RETRY = 300.0
_STALE_RETRY = 1.0  # seconds, should the event that ends a conflict never come
_HOLDER_DELAY = 0.5  # seconds in which changes of workloads that hold queues are reconciled together


def build(host: ControllerHost) -> None:
    """Add the plugin's controller to the host's manager."""
    host.manager.add(QueueConfigController(host).controller)


class QueueConfigController:
    """Keeps Kueue's objects as the KaiwoQueueConfig describes them.

    Attributes:
        controller: what the manager runs.
    """

    def __init__(self, host: ControllerHost) -> None:
        """Follow what the objects depend on.

        Args:
            host: the operator around it.
        """
        self._host = host
        self._pools = PoolReader(host)
        self._demand = Demand(host)
        self._executor = SyncExecutor(host.manager)
        self._kueue = KueueApi(host.manager)
        self._reporter = ConditionReporter(
            host.manager.event_recorder, bad_when_true=(OUTSIDE, EXISTING_MANAGED)
        )
        host.manager.conditions.add(QUEUE_CONFIG, SINGLETON)
        self._gauges = CapacityGauges(host.manager.metrics.registry)
        self._outside: dict[str, int] = {}
        self._draining: dict[Identity, Holders] = {}
        self._draining_names: frozenset[str] = frozenset()
        self._listed: frozenset[str] = frozenset()
        self._existing: list[LiveObject] = []
        self._computed: Object | None = None
        self._topology: DefaultTopology | None = None
        self._retry_after = 0.0
        watches = [
            Watch(QUEUE_CONFIG, lambda event: (Key("", event.latest.name),), QUEUE_CONFIG_PROJECTION),
            Watch(NAMESPACE, self._keys_of_namespace, NAMESPACE_PROJECTION),
            # To name and count the workloads that hold a queue.
            Watch(
                WORKLOAD, self._keys_of_workload, WORKLOAD_PROJECTION, host.namespaces,
                delay=lambda _: _HOLDER_DELAY,
            ),
        ]  # fmt: skip
        watches += [
            Watch(kind, _keys_of_object, Projection(), host.namespaces if kind.namespaced else ())
            for kind in SYNCED
        ]
        self.controller = Controller("kueue", watches, self.reconcile, workers=1, initial=lambda: [KEY])
        self._pools.on_change(self._requeue)
        self._demand.on_change(self._requeue)
        host.on_config_change(self._requeue)
        host.manager.on_served_change(lambda kind: self._requeue() if kind in SYNCED else None)
        host.manager.client.failing_writes.on_change(lambda ended: self._requeue() if ended else None)

    def _requeue(self) -> None:
        self.controller.enqueue(KEY)

    def _keys_of_namespace(self, event: CacheEvent) -> Iterable[Key]:
        if event.old is None or event.new is None or event.old.labels != event.new.labels:
            return (KEY,)
        return (KEY,) if event.old.deleted != event.new.deleted else ()

    def _keys_of_workload(self, event: CacheEvent) -> Iterable[Key]:
        """A workload that ends may be the last one that holds a queue which is to be deleted."""
        # One that came by a LocalQueue of another name changes the count in the status of its ClusterQueue.
        if event.latest.part("spec", "queueName") in self._draining_names:
            return (KEY,)
        if event.new is not None and not is_over(conditions_of(event.new)):
            return ()
        queues = self._host.manager.cache.list(CLUSTER_QUEUE)
        return (KEY,) if any(queue.deleted is not None for queue in queues) else ()

    async def reconcile(self, key: Key) -> float | None:
        """Reconcile one KaiwoQueueConfig; the one that counts stands for all objects."""
        entry = self._host.manager.cache.get(QUEUE_CONFIG, None, key.name)
        if key.name != SINGLETON:
            if entry is not None:
                before = conditions_of(entry)
                await self._write(
                    entry, not_the_singleton(before, entry.generation, datetime.now(UTC), SINGLETON)
                )
            return None
        self._executor.begin()
        missing = await self._kueue.missing()
        self._pools.limit = self._kueue.flavor_limit
        if wait := self._pools.label_wait():
            return wait  # the events of the labels come here before
        if entry is None or entry.deleted is not None:
            return await self._create() if entry is None else None
        written = lenient_map(entry.part("spec"))
        in_force = self._in_force(written, ours=is_default(entry))
        try:
            spec = QueueConfigSpec.read(in_force)
        except ValidationError as error:
            text = "; ".join(str(problem) for problem in explain(error, ("spec",)))
            return await self._report(
                entry, [SyncProblem(CLUSTER_QUEUE, SINGLETON, "InvalidSpec", text)], missing
            )
        patch = {key: value for key, value in in_force.items() if written.get(key) != value}
        if patch and is_default(entry):
            await self._update_default(entry, patch)
            return None
        self._computed = computed_lists(written, in_force, self._pools.pools)
        return await self._sync(entry, spec, missing)

    async def _create(self) -> float | None:
        config, pools = self._host.config(), self._pools.pools
        obj = default_config(
            pools, config.default_cluster_queue_name, config.default_cluster_queue_cohort_name
        )
        manager = self._host.manager
        try:
            live = await manager.client.create(QUEUE_CONFIG, obj, field_manager=FIELD_MANAGER)
        except NotFound:
            _log.warning(
                "KaiwoQueueConfig is not served: install the CRDs (kaiwo manifests crds | kubectl apply -f -)"
            )
            return _UNSERVED_RETRY
        except AlreadyExists:
            return _STALE_RETRY
        manager.cache.assume(QUEUE_CONFIG, live)
        _log.info("created KaiwoQueueConfig %s from %d node pools", SINGLETON, len(pools))
        return None

    def _in_force(self, spec: Object, *, ours: bool) -> Object:
        """The spec with what the operator computes from the nodes."""
        config = self._host.config()
        return updated_spec(
            spec,
            self._pools.pools,
            config.default_cluster_queue_name,
            config.default_cluster_queue_cohort_name,
            dynamically=config.dynamically_update_default_cluster_queue,
            ours=ours,
        )

    async def _update_default(self, entry: CachedObject, patch: Object) -> None:
        """Write the lists of a KaiwoQueueConfig that nobody else wrote; the event comes back here."""
        manager = self._host.manager
        live = await manager.client.merge_patch(
            QUEUE_CONFIG, None, SINGLETON, {"spec": patch},
            uid=entry.uid, resource_version=entry.resource_version, field_manager=FIELD_MANAGER,
        )  # fmt: skip
        manager.cache.assume(QUEUE_CONFIG, live)
        _log.info("KaiwoQueueConfig %s follows the nodes: %s", SINGLETON, ", ".join(patch))

    async def _sync(
        self, entry: CachedObject, spec: QueueConfigSpec, missing: Sequence[Resource]
    ) -> float | None:
        cache = self._host.manager.cache
        live = [live_object(item) for kind in SYNCED if kind not in missing for item in cache.list(kind)]
        self._executor.forget_all_but({item.uid for item in live})
        config = self._host.config()
        owner = ConfigOwner(entry.uid, is_default=is_default(entry))
        demand = self._demand.pairs(config.default_cluster_queue_name)
        self._topology = self._default_topology(spec, live)
        state = ClusterState(
            pools=self._pools.pools,
            nodes=self._pools.nodes,
            gpu_keys=[key for vendor in self._host.vendors for key in vendor.resource_keys],
            namespaces={item.name for item in cache.list(NAMESPACE) if item.deleted is None},
            demand=demand,
            kept={(item.namespace, item.name) for item in live if item.kind == LOCAL_QUEUE and item.is_owned},
            existing_flavors={
                item.name: lenient_map(item.normal_spec.get("nodeLabels"))
                for item in live
                if item.kind == RESOURCE_FLAVOR
            },
            gpu_taint=config.default_gpu_taint_key if config.add_taints_to_gpu_nodes else "",
            flavor_limit=self._kueue.flavor_limit,
            topology=self._topology,
        )
        desired_objects = desired(spec, state)
        watched = self._host.namespaces
        desired_now = [
            item
            for item in desired_objects.objects
            if item.kind not in missing and (not watched or not item.namespace or item.namespace in watched)
        ]
        problems = list(desired_objects.problems)
        if not self._host.nodes_labelled:
            flavors = [item for item in desired_objects.objects if item.kind == RESOURCE_FLAVOR]
            problems += missing_labels(flavors, self._pools.nodes)
        problems += await self._label_namespaces(demand)
        use = QueueUse(cache)
        draining = draining_queues(desired_now, live, use.of, owner=owner, unusable=desired_objects.unusable)
        planned = plan(
            desired_now,
            live,
            refused=self._executor.refused,
            holders=use.admitted,
            unusable=desired_objects.unusable,
            owner=owner,
            draining=draining,
        )
        problems += planned.problems
        self._existing = existing_queues(desired_now, live, owner)
        waiting = unannounced(self._existing, conditions_of(entry))
        later = {item.identity for item in waiting}
        problems += [
            SyncProblem(
                CLUSTER_QUEUE, item.name, "ExistedBefore",
                f"ClusterQueue {item.name} existed before; it is changed next", "PENDING",
            )
            for item in waiting
        ]  # fmt: skip
        actions = [
            action
            for action in planned.actions
            if not (isinstance(action, ApplyObject) and action.desired.identity in later)
        ]
        problems += await self._executor.run(actions, owner)
        self._draining = draining
        self._draining_names = frozenset(name for _, _, name in draining)
        self._listed = frozenset(item.name for item in desired_now if item.kind == CLUSTER_QUEUE)
        self._announce(live, owner)
        self._outside = gpus_outside_queues(desired_objects.objects, live, self._pools.nodes)
        wait = await self._report(entry, problems, missing)
        return wait if not later else min(_STALE_RETRY, _STALE_RETRY if wait is None else wait)

    def _default_topology(self, spec: QueueConfigSpec, live: Sequence[LiveObject]) -> DefaultTopology | None:
        """The Topology that KaiwoConfig names, from the nodes as they are."""
        name = self._host.config().default_topology_name
        now = next((item.normal_spec for item in live if (item.kind, item.name) == (TOPOLOGY, name)), {})
        return default_topology(name, self._pools.nodes, levels_of(now), listed=name in spec.topology_names)

    async def _label_namespaces(self, demand: Iterable[tuple[str, str]]) -> list[SyncProblem]:
        settings = self._host.settings()
        if isinstance(settings, KueueSettings) and not settings.label_namespaces:
            return []
        cache = self._host.manager.cache
        todo = []
        for name in sorted({namespace for namespace, _ in demand}):
            entry = cache.get(NAMESPACE, None, name)
            if entry is not None and entry.deleted is None and NAMESPACE_LABEL not in entry.labels:
                todo.append(entry)
        return await self._executor.label(todo, {NAMESPACE_LABEL: "true"})

    def _announce(self, live: Sequence[LiveObject], owner: ConfigOwner) -> None:
        """Record the events about queues that were held, deleted or opened again."""
        if not self._executor.done:
            return
        namespaces = {item.name: item.uid for item in self._host.manager.cache.list(NAMESPACE)}
        for event in queue_events(self._executor.done, live, self._draining, owner, namespaces):
            self._host.manager.event_recorder.event(event.about, event.type, event.reason, event.message)

    async def _report(
        self, entry: CachedObject, problems: Sequence[SyncProblem], missing: Sequence[Resource]
    ) -> float | None:
        now = datetime.now(UTC)
        inactive, wait = inactive_queues(self._host.manager.cache.list(CLUSTER_QUEUE), self._listed, now)
        document = status(
            conditions_of(entry),
            problems,
            generation=entry.generation,
            now=now,
            missing=missing,
            others=[
                *pool_conditions(
                    self._pools,
                    self._outside,
                    self._topology,
                    entry.generation,
                ),
                *draining_condition(self._draining, entry.generation),
                *inactive_condition(inactive, entry.generation),
                *existing_condition(self._existing, entry.generation),
            ],
        )
        document["computed"] = self._computed
        self._gauges.show(self._outside, problems)
        await self._write(entry, document)
        if self._executor.again:
            return 0.0
        if self._executor.failed:
            self._retry_after = min(max(2 * self._retry_after, _FAILED_RETRY), _LONGEST_RETRY)
            return self._retry_after
        self._retry_after = 0.0
        if self._executor.unreleased:
            return RELEASE_SECONDS
        return wait

    async def _write(self, entry: CachedObject, document: Object) -> None:
        try:
            written = await self._host.manager.writer.patch_status(entry, document, own_conditions=OWN)
        except (Conflict, ChangedBack) as error:
            wait = error.retry_after if isinstance(error, ChangedBack) else _STALE_RETRY
            self.controller.enqueue(Key("", entry.name), wait)
            return
        if written.changed and document.get("status") != entry.part("status", "status"):
            _log.info("KaiwoQueueConfig %s: %s", entry.name, document.get("status"))
        self._reporter.report(
            entry, _reported(conditions_of(entry)), _reported(document["conditions"]),
            failed=document.get("status") != "PENDING",
        )  # fmt: skip


def _reported(conditions: Iterable[Object]) -> list[Object]:
    """The conditions that are reported; those of single kinds repeat Ready."""
    reported = (READY, QUOTA, OUTSIDE, QUEUES_ACTIVE, EXISTING_MANAGED)
    return [item for item in conditions if item.get("type") in reported]


def _keys_of_object(event: CacheEvent) -> Iterable[Key]:
    """An object of Kueue matters unless only its status changed, but for whether a queue is active."""
    old, new = event.old, event.new
    if old is None or new is None or old.deleted != new.deleted:
        return (KEY,)
    if not new.generation or old.generation != new.generation:
        return (KEY,)
    if DRAINING_LABEL in new.labels:
        return (KEY,)  # its status counts the workloads that hold it
    if activity_changed(event):
        return (KEY,)
    return (KEY,) if (old.labels, old.owners) != (new.labels, new.owners) else ()
