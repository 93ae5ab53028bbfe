"""Reads KaiwoConfig, creates it when there is none, and writes its status."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from kaiwo.api.conditions import Condition, merge_conditions
from kaiwo.api.config_names import SINGLETON
from kaiwo.api.crds import KAIWO_CONFIG
from kaiwo.api.errors import InvalidConfig
from kaiwo.api.kaiwoconfig import HISTORY
from kaiwo.api.resolved_config import ResolvedConfig
from kaiwo.engine.cached_object import Projection
from kaiwo.engine.condition_report import ConditionReporter
from kaiwo.engine.controller import Controller, Watch
from kaiwo.engine.errors import ChangedBack, EngineError, NotFound
from kaiwo.engine.workqueue import Key
from kaiwo.engine.writer import Written
from kaiwo.host.config_history import SPEC
from kaiwo.host.config_warnings import WARNINGS, warning_conditions
from kaiwo.host.crd_check import crds_condition
from kaiwo.host.metrics.definitions import CONFIG_RECREATED
from kaiwo.host.rights_condition import RIGHTS, rights_condition
from kaiwo.host.sharding import SHARDS_SERVED
from kaiwo.plugin.settings import read_settings
from kaiwo.workload.json_access import lenient_maps

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from datetime import datetime

    from pydantic import BaseModel

    from kaiwo.engine.cached_object import CachedObject
    from kaiwo.engine.manager import Manager
    from kaiwo.engine.resource import Object
    from kaiwo.engine.store import Cache, CacheEvent
    from kaiwo.host.config_history import ConfigHistory
    from kaiwo.host.config_warnings import ConfigFacts
    from kaiwo.host.crd_check import CrdReport
    from kaiwo.plugin.registry import Plugins

_log = logging.getLogger(__name__)

KEY = Key("", SINGLETON)

_CRD_CHECK = 600.0  # seconds between comparisons of the installed CRDs, which change with an upgrade
_UNSERVED_RETRY = 30.0  # seconds, while the CRD itself is missing
_HISTORY_RETRY = 60.0  # seconds until a ConfigMap that could not be read or written is tried again
_FACTS_DELAY = 1.0  # seconds in which changes of what the values refer to are reconciled together
GPU_NODES_TAINTED = "GpuNodesTainted"
QUEUE_PLUGIN = "queuePlugin"
RECREATED = "Recreated"
WEBHOOKS_SERVED = "WebhooksServed"
RESOURCE_MONITORED = "ResourceMonitored"
HISTORY_KEPT = "HistoryKept"
_OF_INSTALLATION = (RIGHTS, RECREATED, HISTORY_KEPT, WEBHOOKS_SERVED, RESOURCE_MONITORED, SHARDS_SERVED)
"""Conditions that tell of the rights, the namespace, the webhooks and the metrics of one installation."""

_OF_CONFIG = ("Ready", "CRDsCurrent", GPU_NODES_TAINTED, *WARNINGS)


class LiveConfig:
    """The configuration in force.

    It follows the cache at once, on leaders and followers, and keeps the last valid values when the object
    becomes invalid or is deleted. Where it is invalid from the start, the kept spec of `recover` is in force;
    without one the defaults are, and they end no workload early.

    Attributes:
        current: the values in force.
        basis: where they come from: the object, a spec that was kept of it, or the defaults.
        settings: validated settings of each loaded plugin that has any, by its name.
        default_cluster_queue_name: of a KaiwoConfig that the operator creates.
        problem: why the current object is not in force, empty when it is.
        missing_queue: the plugin of the queue system that was in force and is not loaded, empty for none.
    """

    def __init__(
        self,
        cache: Cache,
        models: Mapping[str, type[BaseModel]],
        default_cluster_queue_name: str,
        *,
        has_queue: bool = False,
    ) -> None:
        """Subscribe to the cache; the documented defaults hold until a KaiwoConfig exists.

        Args:
            cache: holds KaiwoConfigs; the caller watches them.
            models: plugin name to the model of its section ``spec.plugins.<name>``.
            default_cluster_queue_name: process setting, for the defaults.
            has_queue: whether a queue system is loaded.
        """
        self._has_queue = has_queue
        self._models = dict(models)
        self._listeners: list[Callable[[], None]] = []
        self._settings_listeners: list[Callable[[], None]] = []
        self.default_cluster_queue_name = default_cluster_queue_name
        defaults = {"spec": {"defaultClusterQueueName": default_cluster_queue_name}}
        self.current = ResolvedConfig.from_object(defaults)
        self.settings, _ = read_settings(self._models, {})
        self.problem = ""
        self.basis: Literal["object", "kept", "defaults"] = "defaults"
        self.missing_queue = ""
        cache.subscribe(KAIWO_CONFIG, self._seen)

    def on_change(self, listener: Callable[[], None]) -> None:
        """Register a callback for changes of the values in force."""
        self._listeners.append(listener)

    def on_settings_change(self, listener: Callable[[], None]) -> None:
        """Register a callback for changes of the settings of plugins."""
        self._settings_listeners.append(listener)

    def _seen(self, event: CacheEvent) -> None:
        if event.latest.name != SINGLETON or event.new is None:
            return
        missing = "" if self._has_queue else str(event.new.part("status", QUEUE_PLUGIN) or "")
        changed, self.missing_queue = missing != self.missing_queue, missing
        try:
            resolved, settings = self.read(event.new.full())
        except InvalidConfig as error:
            self.problem = str(error)  # the condition Ready is logged
            if self.basis == "defaults":
                self.current = _ending_nobody(self.current)
            return
        self.problem = ""
        self._take(resolved, settings, "object", changed=changed)

    def recover(self, spec: Object) -> bool:
        """Put a spec that was in force before the start into force, while none of the object was.

        Returns:
            Whether it is in force; not where this process cannot use it.
        """
        if not self.problem or self.basis != "defaults":
            return False
        try:
            resolved, settings = self.read({"spec": spec})
        except InvalidConfig:
            return False
        self._take(resolved, settings, "kept")
        return True

    def _take(
        self,
        resolved: ResolvedConfig,
        settings: dict[str, BaseModel],
        basis: Literal["object", "kept"],
        *,
        changed: bool = False,
    ) -> None:
        listeners = list(self._settings_listeners) if settings != self.settings else []
        if resolved != self.current or settings != self.settings:
            changed = True
            _log.info("KaiwoConfig %s generation %d is in force", SINGLETON, resolved.generation)
        self.current, self.settings, self.basis = resolved, settings, basis
        if changed:
            listeners += self._listeners
        for listener in listeners:
            try:
                listener()
            except Exception:  # noqa: BLE001  that of a plugin may raise anything, and others wait for theirs
                _log.exception("a listener for changes of KaiwoConfig failed")

    @property
    def fallback(self) -> str:
        """What is in force in place of an invalid object, as a sentence."""
        match self.basis:
            case "object":
                return "The last valid values stay in force"
            case "kept":
                return f"The last valid values, kept in ConfigMap {HISTORY}, are in force"
            case "defaults":
                return "No valid values are known: the defaults are in force, and end no workload early"

    def health(self) -> tuple[bool, str]:
        """Whether the values in force are those of an administrator, for /readyz.

        An operator that does not know them is not ready, so that a rollout waits and the one before goes on.
        """
        if not self.problem:
            return True, "in force"
        return self.basis != "defaults", f"{self.problem}. {self.fallback}"

    def read(self, obj: Object) -> tuple[ResolvedConfig, dict[str, BaseModel]]:
        """Resolve an object with its plugins' settings.

        Raises:
            InvalidConfig: a value cannot be used; the fields are named.
        """
        resolved = ResolvedConfig.from_object(obj)
        settings, problems = read_settings(self._models, resolved.plugins)
        if problems:
            raise InvalidConfig(problems)
        return resolved, settings


class ConfigController:
    """Creates the KaiwoConfig when there is none, and writes the status of every KaiwoConfig."""

    def __init__(
        self,
        manager: Manager,
        live: LiveConfig,
        plugins: Plugins,
        *,
        now: Callable[[], datetime],
        crd_report: Callable[[], Awaitable[CrdReport]],
        history: ConfigHistory,
        facts: Callable[[str], ConfigFacts],
        webhooks: Callable[[int], Condition | None] = lambda _: None,
        monitoring: Callable[[int], Condition | None] = lambda _: None,
        sharding: Callable[[int], Condition | None] = lambda _: None,
        one_of_several: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare; `controller` is what the manager runs.

        Args:
            manager: reads and writes.
            live: the values in force.
            plugins: whose states are reported.
            now: the time, UTC.
            crd_report: compares the installed CRDs with those that the loaded plugins need.
            history: keeps the last specs.
            facts: reads what the values refer to, for a name of the default queue.
            webhooks: the condition of the webhooks for a generation, None where none are served.
            monitoring: likewise of resource monitoring.
            sharding: likewise of namespaces that no operator serves.
            one_of_several: the namespace of an installation that may have others beside it in the cluster,
                which share the KaiwoConfig. It is in the types of the conditions that differ among them:
                two operators must not write one condition back and forth. Empty for the only installation.
            clock: monotonic seconds.
        """
        prefix = f"{one_of_several}/" if one_of_several else ""
        self._types = {type_: prefix + type_ for type_ in _OF_INSTALLATION}
        self._own_conditions = (*_OF_CONFIG, *self._types.values())
        self._others = {WEBHOOKS_SERVED: webhooks, RESOURCE_MONITORED: monitoring, SHARDS_SERVED: sharding}
        self._manager = manager
        self._live = live
        self._plugins = plugins
        self._now = now
        self._read_crds = crd_report
        self._reporter = ConditionReporter(manager.event_recorder, errors=("Ready", self._types[RIGHTS]))
        self._history = history
        self._facts = facts
        self._was_there = False
        self._clock = clock
        self._crds: CrdReport | None = None
        self._crds_due = 0.0
        self._recreated = CONFIG_RECREATED.gauge(manager.metrics.registry)
        watch = Watch(KAIWO_CONFIG, self._keys, Projection(owned_fields=(SPEC,)))
        self.controller = Controller(
            "kaiwoconfig", [watch], self.reconcile, workers=1, initial=self._begin, kind=KAIWO_CONFIG.kind
        )
        manager.on_unreadable_change(lambda _: self.controller.enqueue(KEY))
        manager.client.failing_writes.on_change(lambda _: self.controller.enqueue(KEY))

    def _begin(self) -> tuple[Key, ...]:
        self._history.begin()
        return (KEY,)

    def _keys(self, event: CacheEvent) -> tuple[Key, ...]:
        self._crds = None
        return (Key("", event.latest.name),)

    def on_facts_change(self) -> None:
        """Reconcile soon, because something that the values refer to may have changed."""
        self.controller.enqueue(KEY, _FACTS_DELAY)

    def on_queue_change(self, event: CacheEvent) -> None:
        """Reconcile soon, unless only the status of an object of the queue system changed."""
        if event.old is None or event.new is None or event.old.generation != event.new.generation:
            self.on_facts_change()

    async def reconcile(self, key: Key) -> float | None:
        """Reconcile one KaiwoConfig."""
        entry = self._manager.cache.get(KAIWO_CONFIG, None, key.name)
        if key.name != SINGLETON:
            if entry is not None:
                return await self._write(entry, {"conditions": self._not_the_singleton(entry)}) or None
            return None
        problem = await self._read_history()
        if entry is None:
            return await self._create()
        self._recover(entry)
        self._was_there = True
        problem = problem or await self._keep(entry)
        wait = await self._write(entry, await self._status(entry, problem))
        return wait or (_HISTORY_RETRY if problem else _CRD_CHECK)

    async def recover(self) -> None:
        """Look for kept values of a KaiwoConfig that is invalid from the start. No controller runs yet."""
        entry = self._manager.cache.get(KAIWO_CONFIG, None, SINGLETON)
        if entry is None or not self._live.problem:
            return
        if problem := await self._read_history():
            _log.warning("%s", problem)
        self._recover(entry)

    def _recover(self, entry: CachedObject) -> None:
        if (spec := self._history.latest_of(entry)) is not None and self._live.recover(spec):
            _log.warning("KaiwoConfig %s is invalid. %s", SINGLETON, self._live.fallback)

    async def _read_history(self) -> str:
        """Read the last specs; why that failed, empty when it did not."""
        try:
            await self._history.read()
        except EngineError as error:
            return f"ConfigMap {self._history.namespace}/{HISTORY} cannot be read: {error.stable_message}"
        return ""

    async def _keep(self, entry: CachedObject) -> str:
        """Keep the spec if it is in force; why that failed, empty when it did not."""
        if self._live.problem:
            return ""
        try:
            await self._history.keep(entry, self._now())
        except EngineError as error:
            return f"ConfigMap {self._history.namespace}/{HISTORY} cannot be written: {error.stable_message}"
        return ""

    async def _create(self) -> float | None:
        spec = {"defaultClusterQueueName": self._live.default_cluster_queue_name}
        wanted: Object = {
            "apiVersion": KAIWO_CONFIG.api_version,
            "kind": KAIWO_CONFIG.kind,
            "metadata": {"name": SINGLETON},
            "spec": spec,
        }
        try:
            made = await self._manager.writer.create_once(KAIWO_CONFIG, wanted)
        except NotFound:
            _log.warning(
                "KaiwoConfig is not served: install the CRDs (kaiwo manifests crds | kubectl apply -f -)"
            )
            return _UNSERVED_RETRY
        _log.info("created KaiwoConfig %s with defaults", SINGLETON)
        if isinstance(made, Written) and (self._was_there or self._history.latest is not None):
            text = f"KaiwoConfig {SINGLETON} was deleted and is created again with defaults"
            if self._history.latest is not None:
                text += f"; bring the earlier values back with: {self._history.command}"
            self._manager.event_recorder.event(made.live, "Warning", "ConfigRecreated", text)
            _log.warning("%s", text)
        return None

    def _not_the_singleton(self, entry: CachedObject) -> list[Object]:
        message = f"only the KaiwoConfig named {SINGLETON} is used; move the values there and delete this one"
        condition = Condition("Ready", "False", "NotTheSingleton", message, entry.generation)
        return merge_conditions(_conditions(entry), [condition], self._now(), drop=self._own_conditions[1:])

    async def _status(self, entry: CachedObject, history_problem: str) -> Object:
        report, clock = self._crds, self._clock()
        if report is None or clock >= self._crds_due:
            report = self._crds = await self._read_crds()
            self._crds_due = clock + _CRD_CHECK
        config = self._live.current
        facts = self._facts(config.default_cluster_queue_name)
        conditions = [
            self._ready(entry),
            crds_condition(report, entry.generation),
            *self._taint_ignored(entry),
            *self._rights(entry),
            *self._recreated_condition(entry),
            *warning_conditions(config, facts, entry.generation),
        ]
        for type_, read in self._others.items():
            if (other := read(entry.generation)) is not None:
                conditions.append(replace(other, type=self._types[type_]))
        if history_problem:
            conditions.append(
                Condition(
                    self._types[HISTORY_KEPT], "False", "ConfigMapFailed", history_problem, entry.generation
                )
            )
        drop = [name for name in self._own_conditions if name not in {item.type for item in conditions}]
        # Kept while the plugin is missing: it says that workloads were queued.
        queue = {QUEUE_PLUGIN: name} if (name := self._plugins.queue_plugin) else {}
        return {
            "conditions": merge_conditions(_conditions(entry), conditions, self._now(), drop),
            **queue,
            "plugins": [
                {
                    "name": s.name,
                    "distribution": s.distribution,
                    "version": s.version,
                    "state": s.state,
                    "message": s.message,
                }
                for s in self._plugins.states
            ],
            "observedGeneration": entry.generation,
        }

    def _ready(self, entry: CachedObject) -> Condition:
        if self._live.problem:
            message = f"{self._live.problem}. {self._live.fallback}"
            return Condition("Ready", "False", "InvalidValues", message, entry.generation)
        warnings = "; ".join(str(warning) for warning in self._live.current.warnings)
        return Condition("Ready", "True", "InForce", warnings, entry.generation)

    def _recreated_condition(self, entry: CachedObject) -> list[Condition]:
        """The condition for values that were lost with an earlier KaiwoConfig."""
        recreated = self._history.is_recreated(entry)
        self._recreated.set(recreated)
        if not recreated:
            return []
        message = (
            f"an earlier KaiwoConfig {SINGLETON} with other values was deleted, the defaults are in force; "
            f"bring the values back with: {self._history.command}. To keep the defaults, apply them"
        )
        return [Condition(self._types[RECREATED], "True", "CreatedWithDefaults", message, entry.generation)]

    def _taint_ignored(self, entry: CachedObject) -> list[Condition]:
        """The condition for a requested taint of GPU nodes that no plugin writes."""
        if self._plugins.labels_nodes or not self._live.current.add_taints_to_gpu_nodes:
            return []
        message = (
            "nodes.addTaintsToGpuNodes has no effect: no loaded plugin taints nodes; add node_pools to the "
            "operator's plugins, or set the field to false"
        )
        return [Condition(GPU_NODES_TAINTED, "False", "NodePoolsNotLoaded", message, entry.generation)]

    def _rights(self, entry: CachedObject) -> list[Condition]:
        manager = self._manager
        missing = rights_condition(
            manager.unreadable,
            manager.client.failing_writes.messages,
            self._plugins.backends,
            entry.generation,
            self._types[RIGHTS],
        )
        return [missing] if missing is not None else []

    async def _write(self, entry: CachedObject, status: Object) -> float:
        """Write a status; seconds until it may be written, 0 when it is as it should be."""
        try:
            await self._manager.writer.patch_status(entry, status, own_conditions=self._own_conditions)
        except ChangedBack as error:
            return error.retry_after
        self._reporter.report(entry, _conditions(entry), status["conditions"])
        return 0.0


def _ending_nobody(config: ResolvedConfig) -> ResolvedConfig:
    """Values that end no workload early, for an operator that does not know what its administrator set."""
    idle = config.gpu_preemption.model_copy(update={"default_policy": "Report"})
    return replace(config, preemption="Report", terminate_underutilized=False, gpu_preemption=idle)


def _conditions(entry: CachedObject) -> list[Object]:
    return lenient_maps(entry.part("status", "conditions"))
