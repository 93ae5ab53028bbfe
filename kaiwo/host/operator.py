"""Assembles the operator from settings: plugins, engine, controllers, probes."""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import platform
import socket
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from uuid import uuid4

import prometheus_client

from kaiwo.api.config_names import SINGLETON
from kaiwo.api.crds import KAIWO_CONFIG, WORKLOADS
from kaiwo.api.installation import SYSTEM_NAMESPACE
from kaiwo.engine import credentials
from kaiwo.engine.client import Client
from kaiwo.engine.controller import SPARE_WORKERS, Watch
from kaiwo.engine.leader_election import LeaderElector
from kaiwo.engine.lease_thread import LeaseThread
from kaiwo.engine.manager import Manager
from kaiwo.engine.metrics import Metrics
from kaiwo.engine.resource import NODE, PRIORITY_CLASS, STORAGE_CLASS
from kaiwo.host.api_discovery import ServedKinds
from kaiwo.host.backend_imports import import_backends
from kaiwo.host.cluster_facts import (
    NODE_PROJECTION,
    PRIORITY_CLASS_PROJECTION,
    STORAGE_CLASS_PROJECTION,
    ClusterFacts,
)
from kaiwo.host.config_facts import ConfigFactsReader
from kaiwo.host.config_history import ConfigHistory
from kaiwo.host.crd_check import CrdCheck
from kaiwo.host.ending.beneficiaries import Beneficiaries
from kaiwo.host.ending.endings import Endings
from kaiwo.host.ending.preemption import Preemption
from kaiwo.host.ending.quota_reliefs import QuotaReliefs
from kaiwo.host.kaiwoconfig import ConfigController, LiveConfig
from kaiwo.host.lifecycles import Lifecycles
from kaiwo.host.metrics.gpu_time_record import GpuTimeRecord
from kaiwo.host.metrics.process import describe_process
from kaiwo.host.metrics.workloads import WorkloadMetrics
from kaiwo.host.monitoring.access import EndpointFiles
from kaiwo.host.monitoring.feed import SampleFeed
from kaiwo.host.monitoring.service import Monitoring
from kaiwo.host.plugin_controllers import build_controllers
from kaiwo.host.plugin_coroutines import PluginCoroutines
from kaiwo.host.plugin_timeout import TimeLimit, guarded_registry
from kaiwo.host.server import ProbeServer
from kaiwo.host.sharding import Sharding
from kaiwo.host.transitions import Listeners
from kaiwo.host.workload.adoption import adoption_controllers
from kaiwo.host.workload.reconciler import WorkloadReconciler
from kaiwo.host.workload.snapshot import SnapshotReader
from kaiwo.plugin.controllers import ControllerHost
from kaiwo.workload.labels import MANAGER

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pydantic import BaseModel

    from kaiwo.admission.reviewers import Reviewer
    from kaiwo.api.conditions import Condition
    from kaiwo.engine.resource import Object
    from kaiwo.host.admission import Webhooks
    from kaiwo.host.settings import Settings
    from kaiwo.plugin.controllers import ExtraController
    from kaiwo.plugin.declaration import Declaration
    from kaiwo.plugin.lifecycle import Transition
    from kaiwo.plugin.registry import Plugins
    from kaiwo.workload.model import Registry

_log = logging.getLogger(__name__)

APPLIED = "kaiwo.silogen.ai/applied"

_OTHER_REQUESTS = 16
"""Requests under way at once beside those of workloads: lists, Events, queues, plugins."""


class Operator:
    """One operator process; create and run it once.

    Attributes:
        plugins: those that it works with, and the states of the others.
    """

    def __init__(self, settings: Settings, plugins: Plugins) -> None:
        """Assemble; nothing is sent yet.

        Args:
            settings: process settings.
            plugins: loaded plugins.

        Raises:
            CredentialsError: there is no usable way to reach an API server.
            ControllerNotBuilt: a plugin's controller cannot be built.
        """
        self._settings = settings
        self.plugins = plugins
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]  # the package has no types; the series are noise
        self._limit = TimeLimit(settings.plugin_time_limit)
        registry = guarded_registry(plugins, self._limit)
        vendors = tuple(
            vendor.with_settings(functools.partial(self._settings_of, vendor)) for vendor in registry.vendors
        )
        self._registry = replace(registry, vendors=vendors)
        connection = credentials.load(settings.kubeconfig, settings.context)
        self._metrics = Metrics(host=urlsplit(connection.server).netloc)
        describe_process(self._metrics.registry)
        identity = f"{socket.gethostname()}_{os.getpid()}_{uuid4().hex[:8]}"
        self._client = Client(
            connection,
            user_agent=f"kaiwo-operator/{version('kaiwo')}",
            # One for each worker: one that is kept free for other namespaces waits for no namespace.
            concurrency=len(WORKLOADS) * (settings.workers + SPARE_WORKERS) + _OTHER_REQUESTS,
            metrics=self._metrics,
        )
        self._namespace = settings.namespace or connection.namespace
        self._sharding = Sharding(settings)
        self._lease = self._lease_thread(self._namespace, identity) if settings.leader_election else None
        self._manager = Manager(
            self._client,
            field_manager=MANAGER,
            applied_annotation=APPLIED,
            component="kaiwo",
            instance=identity,
            leader_elector=self._lease,
            metrics=self._metrics,
        )
        self._workloads: list[WorkloadReconciler] = []
        self._wire()

    def _lease_thread(self, namespace: str, identity: str) -> LeaseThread:
        """The Lease with a connection of its own: the operator's may be busy or full."""
        settings = self._settings
        client = Client(
            credentials.load(settings.kubeconfig, settings.context),
            user_agent=f"kaiwo-operator/{version('kaiwo')}",
            metrics=self._metrics,
        )
        elector = LeaderElector(
            client, namespace, self._sharding.lease, identity, annotations=self._sharding.annotations
        )
        return LeaseThread(elector, client)

    def _wire(self) -> None:
        manager, settings, plugins = self._manager, self._settings, self.plugins
        self._sharding.attach(manager, self._namespace)
        if self._registry.vendors:  # only vendors have the right to read nodes
            manager.watch(Watch(NODE, projection=NODE_PROJECTION))
        manager.watch(Watch(PRIORITY_CLASS, projection=PRIORITY_CLASS_PROJECTION))
        manager.watch(Watch(STORAGE_CLASS, projection=STORAGE_CLASS_PROJECTION))
        manager.watch(Watch(KAIWO_CONFIG))
        self._config = LiveConfig(
            manager.cache, plugins.settings_models(), settings.default_cluster_queue_name,
            has_queue=bool(plugins.queue_plugin),
        )  # fmt: skip
        cluster = ClusterFacts(manager.cache, self._registry.vendors, lambda: self._config.current)
        self._served = ServedKinds(self._client, _needed(self._registry))
        manager.on_served_change(lambda _: self._served.ask())
        coroutines = PluginCoroutines(self._limit)
        self._listeners = Listeners(plugins.listeners, self._settings_of, coroutines)
        self._lifecycles = Lifecycles(plugins.lifecycles, self._settings_of, coroutines)
        self._config.on_settings_change(self._lifecycles.settings_changed)
        manager.conditions.add(KAIWO_CONFIG, SINGLETON)
        for declared in self._registry.namespace_defaults:
            manager.watch(Watch(declared.kind, namespaces=settings.watch_namespace))
        self._monitoring = Monitoring.of(settings, manager, self._registry.vendors)
        beneficiaries = Beneficiaries(manager.cache)
        reader = SnapshotReader(
            manager.cache, cluster, self._config, self._registry,
            served=self._served, settings_of=self._plugin_settings,
            uses=self._monitoring.uses if self._monitoring else None, beneficiaries=beneficiaries,
        )  # fmt: skip
        facts = ConfigFactsReader(
            manager.cache, cluster, plugins, self._registry,
            served=self._served, settings=self._plugin_settings,
            monitored=settings.resource_monitoring_enabled,
        )  # fmt: skip
        config = ConfigController(
            manager, self._config, plugins,
            now=lambda: datetime.now(UTC), crd_report=CrdCheck(self._client, plugins).report,
            history=ConfigHistory(self._client, self._namespace, MANAGER), facts=facts.read,
            webhooks=lambda generation: self._webhooks.condition(generation) if self._webhooks else None,
            monitoring=self._monitored, sharding=self._sharding.condition,
            one_of_several=self._namespace if settings.watch_namespace else "",
        )  # fmt: skip
        manager.health.check("config", self._config.health)
        # Plugins start with settings: first comes what they are.
        manager.before_controllers(KAIWO_CONFIG, config.recover)
        manager.before_controllers(KAIWO_CONFIG, self._lifecycles.start)
        if self._sharding.whole:
            manager.add(config.controller)
        self._sharding.on_change(config.on_facts_change)
        self._webhooks = self._serve_webhooks(reader, config.on_facts_change) if settings.webhooks else None
        cluster.on_change(config.on_facts_change)
        self._add_workloads(reader, cluster)
        for workloads in self._workloads:
            if workloads.kind == "KaiwoJob":
                beneficiaries.follow(workloads.controller.enqueue)
        self._statistics = WorkloadMetrics(
            self._metrics.registry, manager.cache, plugins,
            leading=lambda: manager.leading and self._sharding.whole, gpu_labels=settings.metrics_gpu_labels,
        )  # fmt: skip
        self._add_endings(reader, cluster, config)
        for controller in adoption_controllers(
            manager, self._registry,
            namespaces=settings.watch_namespace, excluded={SYSTEM_NAMESPACE, settings.namespace},
        ):  # fmt: skip
            manager.add(self._sharding.limit(controller))
        if self._sharding.whole:
            build_controllers(plugins, self._host_of)
        for queue_kind in facts.queue_kinds:
            manager.cache.subscribe(queue_kind, config.on_queue_change)

    def _add_workloads(self, reader: SnapshotReader, cluster: ClusterFacts) -> None:
        """The controllers of KaiwoJobs and KaiwoServices."""
        manager, settings = self._manager, self._settings
        for kind in WORKLOADS:
            workloads = WorkloadReconciler(
                kind, manager, reader, self._registry,
                on_transition=self._transition, planning=self._limit.planning, workers=settings.workers,
                namespaces=settings.watch_namespace,
            )  # fmt: skip
            manager.add(self._sharding.limit(workloads.controller))
            self._workloads.append(workloads)
            for source in (cluster, self._config, self._served):
                source.on_change(workloads.requeue_waiting)
        self._follow_settings(cluster)

    def _add_endings(self, reader: SnapshotReader, cluster: ClusterFacts, config: ConfigController) -> None:
        """What ends workloads before they end by themselves: monitoring and preemption."""
        manager = self._manager
        self._endings = Endings(manager, self._transition)
        settings = self._settings
        monitored = (
            (settings.resource_monitoring_metrics_endpoint, settings.resource_monitoring_polling_interval)
            if self._monitoring is not None
            else None
        )
        self._feed = SampleFeed(
            manager, self._registry.vendors, monitored=monitored, unled=self._unled,
            files=functools.partial(EndpointFiles.of, settings),
        )  # fmt: skip
        if self._monitoring is not None:
            self._monitoring.connect(
                config=lambda: self._config.current, pod_owners=reader.pod_owners, endings=self._endings,
                requeue={one.kind: one.controller.enqueue for one in self._workloads},
                unled=self._unled, on_change=config.on_facts_change, feed=self._feed,
                serves=self._sharding.serves,
            )  # fmt: skip
        self._quota = QuotaReliefs(manager, self._registry.queue, self._served)
        self._preemption = Preemption(
            manager, self._quota, self._endings,
            cluster=cluster, owners=reader.pod_owners, config=lambda: self._config.current,
        )  # fmt: skip
        for changing in (cluster, self._config):
            changing.on_change(self._preemption.changed)

    def _unled(self) -> float | None:
        """Seconds during which no process led before this one did, None if that is not known."""
        return self._lease.unled if self._lease is not None else None

    def _host_of(self, extra: ExtraController) -> ControllerHost:
        """What the controller of a plugin gets."""
        return ControllerHost(
            self._manager, self._registry.vendors,
            config=lambda: self._config.current,
            settings=functools.partial(self._settings_of, extra),
            on_config_change=self._config.on_change,
            namespaces=self._settings.watch_namespace,
            nodes_labelled=self.plugins.labels_nodes,
            endings=self._endings,
            gpu_samples=self._feed,
            quota=self._quota,
        )  # fmt: skip

    def _serve_webhooks(self, reader: SnapshotReader, on_change: Callable[[], None]) -> Webhooks:
        """The webhooks, imported only where they are served."""
        from kaiwo.host.admission import Webhooks, all_reviewers

        def made(namespace: Callable[[], str]) -> Mapping[str, Reviewer]:
            return all_reviewers(
                self._settings, self.plugins, self._registry, self._namespace,
                facts=lambda: reader.facts_for_new(namespace(), datetime.now(UTC)),
                default_queue=lambda: self._config.current.default_cluster_queue_name,
                excluded=(SYSTEM_NAMESPACE, self._namespace),
            )  # fmt: skip

        return Webhooks(
            self._settings, self._manager, self._namespace,
            limit=self._limit, reviewers=made, on_change=on_change,
        )  # fmt: skip

    def _monitored(self, generation: int) -> Condition | None:
        return self._monitoring.condition(generation) if self._monitoring is not None else None

    def _follow_settings(self, cluster: ClusterFacts) -> None:
        """Read nodes and reconcile live workloads again after changes of settings that these depend on."""
        if any(vendor.settings for vendor in self.plugins.vendors):
            self._config.on_settings_change(cluster.read_nodes)
        if any(item.settings for item in (*self._registry.backends, *self._registry.diagnosis)):
            for workloads in self._workloads:
                self._config.on_settings_change(workloads.requeue_all)

    def _plugin_settings(self) -> Mapping[str, BaseModel]:
        return self._config.settings

    def _settings_of(self, declaration: Declaration) -> BaseModel | None:
        return self._config.settings.get(declaration.plugin)

    def _transition(self, transition: Transition) -> None:
        self._statistics.transition(transition)
        self._listeners.notify(transition)

    async def run(self, stop: asyncio.Event) -> None:
        """Run until `stop` is set; then end cleanly and give the Lease up.

        Raises:
            CredentialsError: there are no credentials.
            OSError: the address of probes and metrics cannot be used.
        """
        self._log_start()
        endpoint = ProbeServer(
            self._settings.metrics_address, ready=self._ready, registry=self._metrics.registry
        )
        side: list[asyncio.Task[None]] = []
        with self._limit:
            try:
                host, port = await endpoint.start()
                _log.info(
                    "serving probes and metrics on http://%s:%d", f"[{host}]" if ":" in host else host, port
                )
                side.append(asyncio.create_task(self._served.run(), name="served kinds"))
                if self._sharding.whole:
                    record = GpuTimeRecord(self._manager, self._statistics.gpu_time, self._namespace, MANAGER)
                    side.append(asyncio.create_task(record.run(), name="GPU time"))
                    side.append(asyncio.create_task(self._sharding.run(self._manager), name="shards"))
                await import_backends(self.plugins.backends)
                if self._webhooks is not None:
                    self._webhooks.start()
                self._listeners.start()
                if self._monitoring is not None:
                    side.append(asyncio.create_task(self._monitoring.run(), name="monitoring"))
                side.append(asyncio.create_task(self._feed.run(), name="GPU samples"))
                if self._sharding.whole:
                    self._preemption.start()
                await self._manager.run(stop)
                await self._lifecycles.stop()
            finally:
                for task in side:
                    task.cancel()
                await asyncio.gather(*side, return_exceptions=True)
                if self._monitoring is not None:
                    await self._monitoring.close()
                if self._webhooks is not None:
                    await self._webhooks.close()
                await self._lifecycles.close()
                await self._preemption.close()
                for workloads in self._workloads:
                    await workloads.close()
                await self._listeners.close()
                await endpoint.close()
                await self._client.close()
                if self._lease is not None:
                    await self._lease.close()
        _log.info("operator stopped")

    def _log_start(self) -> None:
        _log.info(
            "kaiwo operator %s, Python %s, API server %s, plugins: %s",
            version("kaiwo"), platform.python_version(), self._client.connection.server,
            ", ".join(plugin.name for plugin in self.plugins.loaded) or "none",
        )  # fmt: skip
        for state in self.plugins.states:
            if state.state == "broken":
                origin = f" of {state.distribution}" if state.distribution else ""
                _log.error("plugin %s%s is broken: %s", state.name, origin, state.message)
            if state.state == "not-allowed":
                _log.warning(
                    "plugin %s of %s is not imported: %s", state.name, state.distribution, state.message
                )

    def _ready(self) -> tuple[bool, Object]:
        ready, checks = self._manager.health.ready()
        detail: dict[str, Any] = {
            "ready": ready,
            "leading": self._manager.leading,
            "checks": checks,
            "plugins": [
                {
                    "name": s.name,
                    "distribution": s.distribution,
                    "state": s.state,
                    "reason": s.reason,
                    "message": s.message,
                }
                for s in self.plugins.states
            ],
        }
        return ready, detail


def _needed(registry: Registry) -> set[Any]:
    kinds = {
        resource
        for backend in registry.backends
        if backend.built
        for resource in (backend.child, *backend.requires)
    }
    return kinds | set(registry.queue.reads if registry.queue is not None else ())
