"""Puts resource monitoring together."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from kaiwo.engine.cached_object import Projection
from kaiwo.engine.controller import Watch
from kaiwo.engine.resource import POD
from kaiwo.host.monitoring.uses import GpuUses
from kaiwo.workload.labels import RUN_ID

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kaiwo.api.conditions import Condition
    from kaiwo.api.plugin_fields import WorkloadKind
    from kaiwo.api.resolved_config import ResolvedConfig
    from kaiwo.engine.manager import Manager
    from kaiwo.engine.workqueue import Key
    from kaiwo.host.ending.endings import Endings
    from kaiwo.host.monitoring.feed import SampleFeed
    from kaiwo.host.monitoring.monitor import Monitor
    from kaiwo.host.settings import Settings
    from kaiwo.host.workload.ownership import PodOwners
    from kaiwo.plugin.vendors import GpuVendor

_log = logging.getLogger(__name__)

POD_PROJECTION: Final = Projection(
    keep=(
        ("metadata",),
        ("status",),
        ("spec", "containers", "*", "resources", "limits"),
        ("spec", "initContainers", "*", "restartPolicy"),
        ("spec", "initContainers", "*", "resources", "limits"),
    ),
    labels=(RUN_ID,),
)
"""What monitoring reads of a pod."""


class Monitoring:
    """Resource monitoring of one operator process.

    Attributes:
        uses: what is known of each workload.
    """

    def __init__(self, settings: Settings, manager: Manager, vendors: Iterable[GpuVendor]) -> None:
        """Prepare, before anything is listed.

        Args:
            settings: process settings.
            manager: of the process.
            vendors: of the loaded plugins.
        """
        self._settings = settings
        self._manager = manager
        self._vendors = tuple(vendors)
        self._monitor: Monitor | None = None
        self.uses = GpuUses(settings.resource_monitoring_polling_interval)
        manager.watch(
            Watch(POD, projection=POD_PROJECTION, namespaces=settings.watch_namespace, label_selector=RUN_ID)
        )

    @classmethod
    def of(cls, settings: Settings, manager: Manager, vendors: Iterable[GpuVendor]) -> Monitoring | None:
        """The monitoring that the settings ask for, None where it is off."""
        return cls(settings, manager, vendors) if settings.resource_monitoring_enabled else None

    def connect(
        self,
        *,
        config: Callable[[], ResolvedConfig],
        pod_owners: PodOwners,
        endings: Endings,
        requeue: Mapping[WorkloadKind, Callable[[Key], None]],
        unled: Callable[[], float | None],
        on_change: Callable[[], None],
        feed: SampleFeed,
        serves: Callable[[str], bool],
    ) -> None:
        """Make the monitor; see :class:`kaiwo.host.monitoring.monitor.Monitor` for the arguments."""
        from kaiwo.host.monitoring.access import EndpointFiles
        from kaiwo.host.monitoring.endpoint import Endpoint
        from kaiwo.host.monitoring.metrics import MonitoringMetrics
        from kaiwo.host.monitoring.monitor import Monitor

        settings, interval = self._settings, self._settings.resource_monitoring_polling_interval
        self._endpoint = Endpoint(
            settings.resource_monitoring_metrics_endpoint,
            [vendor.utilization for vendor in self._vendors if vendor.utilization is not None],
            interval,
            self.uses.now,
            EndpointFiles.of(settings, settings.resource_monitoring_metrics_endpoint),
        )
        self._monitor = Monitor(
            self._manager, self._endpoint, self.uses,
            config=config, pod_owners=pod_owners, endings=endings, requeue=requeue,
            gpu_keys=tuple(key for vendor in self._vendors for key in vendor.resource_keys),
            interval=interval, unled=unled, metrics=MonitoringMetrics(self._manager.metrics.registry),
            on_change=on_change, feed=feed, serves=serves,
        )  # fmt: skip

    def condition(self, generation: int) -> Condition | None:
        """The condition of KaiwoConfig, None before the first scrape.

        Args:
            generation: of the KaiwoConfig.
        """
        return self._monitor.condition(generation) if self._monitor is not None else None

    async def run(self) -> None:
        """Read for as long as the process runs."""
        if self._monitor is not None:
            _log.info("reading GPU utilization from %s", self._endpoint.shown)
            await self._monitor.run()

    async def close(self) -> None:
        """Close connections."""
        if self._monitor is not None:
            await self._endpoint.close()
