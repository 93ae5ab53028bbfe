"""Hands the samples of scrapes to controllers of plugins, so that no endpoint is read twice.

Whoever names the endpoint of resource monitoring, or none, gets what the monitor reads. For another endpoint
there is a loop here, with the same reader.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kaiwo.engine.leader_election import boottime
from kaiwo.host.monitoring.access import EndpointFiles
from kaiwo.host.monitoring.endpoint import Endpoint, EndpointError
from kaiwo.workload.monitoring.history import longest_gap
from kaiwo.workload.monitoring.scrape import Scrape

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaiwo.engine.manager import Manager
    from kaiwo.plugin.vendors import GpuVendor
    from kaiwo.workload.monitoring.samples import Samples

    Listener = Callable[[Scrape], None]

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Source:
    """An endpoint that somebody follows."""

    url: str
    interval: float
    listeners: list[Listener]
    leads: bool = False


class SampleFeed:
    """The samples of each scrape, for those who follow them.

    A scrape takes place only while this process leads.
    """

    def __init__(
        self,
        manager: Manager,
        vendors: tuple[GpuVendor, ...],
        *,
        monitored: tuple[str, float] | None,
        files: Callable[[str], EndpointFiles] = lambda _: EndpointFiles(),
        unled: Callable[[], float | None],
        clock: Callable[[], float] = boottime,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Nobody follows yet.

        Args:
            manager: says whether this process leads.
            vendors: of the loaded plugins; they name the metrics.
            monitored: endpoint and interval of resource monitoring, None where it is off.
            files: token and CA certificates for an endpoint.
            unled: seconds during which no process led before this one did, None if that is not known.
            clock: seconds of a clock that is never set.
            now: the time.
        """
        self._manager = manager
        self._utilizations = [vendor.utilization for vendor in vendors if vendor.utilization is not None]
        self._monitored = _Source(*monitored, []) if monitored is not None else None
        self._files = files
        self._unled = unled
        self._clock, self._now = clock, now
        self._others: dict[str, _Source] = {}

    def follow(self, listener: Listener, url: str = "", interval: float = 30.0) -> float:
        """Call a listener with each scrape of an endpoint.

        Args:
            listener: called on the event loop; it returns quickly.
            url: the endpoint; empty for that of resource monitoring.
            interval: seconds between two scrapes, where nobody reads the endpoint yet.

        Returns:
            Seconds between two scrapes; 0 where there is no endpoint, so that none takes place.
        """
        if self._monitored is not None and url in ("", self._monitored.url):
            self._monitored.listeners.append(listener)
            return self._monitored.interval
        if not url:
            return 0.0
        source = self._others.setdefault(url, _Source(url, interval, []))
        source.listeners.append(listener)
        return source.interval

    def monitored(self, samples: Samples | None) -> None:
        """Take what the monitor has read; None where its scrape failed."""
        if self._monitored is not None:
            self._publish(self._monitored, samples)

    async def run(self) -> None:
        """Read the endpoints that nobody else reads, for as long as the process runs."""
        async with asyncio.TaskGroup() as group:
            for source in self._others.values():
                group.create_task(self._read(source), name="GPU samples")

    async def _read(self, source: _Source) -> None:
        endpoint = Endpoint(
            source.url, self._utilizations, source.interval, self._now, self._files(source.url)
        )
        _log.info("reading GPU utilization from %s", endpoint.shown)
        failed = False
        try:
            while True:
                began = self._clock()
                if self._manager.leading:
                    samples: Samples | None = None
                    try:
                        samples = await endpoint.read()
                    except EndpointError as error:
                        if not failed:
                            _log.warning("GPU utilization cannot be read: %s", error)
                    except Exception:  # noqa: BLE001  a defect must not end it for good
                        _log.exception("a scrape of %s failed", endpoint.shown)
                    failed = samples is None
                    self._publish(source, samples)
                else:
                    source.leads = False
                await asyncio.sleep(max(1.0, source.interval - (self._clock() - began)))
        finally:
            await endpoint.close()

    def _publish(self, source: _Source, samples: Samples | None) -> None:
        interrupted = False
        if not source.leads:
            source.leads = True
            gap, longest = self._unled(), longest_gap(source.interval)
            interrupted = gap is None or not -longest <= gap <= longest
        scrape = Scrape(samples, self._clock(), self._now(), interrupted)
        for listener in source.listeners:
            try:
                listener(scrape)
            except Exception:  # noqa: BLE001  a plugin's code may raise anything
                _log.exception("a listener of GPU samples failed")

    def not_leading(self) -> None:
        """Take note that the monitor did not scrape, because this process does not lead."""
        if self._monitored is not None:
            self._monitored.leads = False
