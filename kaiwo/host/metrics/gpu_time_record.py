"""Keeps GPU time in a ConfigMap in the operator's namespace, so that the next process continues it."""

from __future__ import annotations

import asyncio
import json
import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from kaiwo.api.crds import WORKLOADS as KINDS
from kaiwo.api.kaiwoconfig import GPU_TIME
from kaiwo.engine.errors import EngineError, NotFound
from kaiwo.engine.resource import CONFIG_MAP
from kaiwo.engine.timestamps import format_time, parse_time
from kaiwo.host.metrics.figures import figures_of
from kaiwo.workload.gpu_hours import gpu_hours
from kaiwo.workload.json_access import lenient_map

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaiwo.engine.manager import Manager
    from kaiwo.engine.resource import Object
    from kaiwo.host.metrics.gpu_time import GpuTime

_log = logging.getLogger(__name__)

INTERVAL: Final = 300.0
"""Seconds between two records, while GPUs are held."""

_POLL: Final = 5.0
_KEY: Final = "gpu-time.json"
_HOUR: Final = 3600.0


class GpuTimeRecord:
    """Starts, records and ends the counting of GPU time in the process that leads."""

    def __init__(
        self,
        manager: Manager,
        gpu_time: GpuTime,
        namespace: str,
        field_manager: str,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        interval: float = INTERVAL,
        poll: float = _POLL,
    ) -> None:
        """Prepare; nothing is read yet.

        Args:
            manager: reads and writes, and knows whether this process leads.
            gpu_time: what is recorded.
            namespace: of the ConfigMap, the operator's own.
            field_manager: of all that the operator writes.
            now: the time, UTC.
            interval: seconds between two records.
            poll: seconds between two checks whether this process leads.
        """
        self._manager = manager
        self._gpu_time = gpu_time
        self._namespace = namespace
        self._field_manager = field_manager
        self._now = now
        self._interval = interval
        self._poll = poll
        self._recorded: datetime | None = None
        self._text = ""
        self._problem = ""

    async def run(self) -> None:
        """Follow the leadership of this process until cancelled."""
        while True:
            try:
                await self.step()
                self._problem = ""
            except EngineError as error:
                if str(error) != self._problem:
                    self._problem = str(error)
                    _log.warning("ConfigMap %s/%s: %s", self._namespace, GPU_TIME, error)
            await asyncio.sleep(self._poll)

    async def step(self) -> None:
        """Begin, record or stop, whichever is due.

        Raises:
            EngineError: the ConfigMap cannot be read or written.
        """
        counting = self._gpu_time.counting
        if not self._manager.leading:
            if counting:
                self._gpu_time.stop()
        elif not counting:
            if all(self._manager.cache.synced(kind) for kind in KINDS.values()):
                await self._begin()
        elif self._recorded is None or (self._now() - self._recorded).total_seconds() >= self._interval:
            await self._record()

    async def _begin(self) -> None:
        try:
            found = await self._manager.client.get(CONFIG_MAP, self._namespace, GPU_TIME)
        except NotFound:
            found = {}
        kept = _kept(found)
        self._gpu_time.begin(kept.get("seconds"))
        self._text = self._written()
        recorded, now = parse_time(kept.get("time")), self._now()
        if recorded is not None and recorded < now:
            self._add_missed(recorded, now)
        self._recorded = now

    def _add_missed(self, start: datetime, end: datetime) -> None:
        """Add the time in which no process counted, from the workloads that still exist."""
        for kind in KINDS.values():
            for entry in self._manager.cache.list(kind):
                missed = gpu_hours(entry.readable(), start, end, end).reserved
                if missed:
                    figures = figures_of(entry)
                    self._gpu_time.add_reserved(figures.queue, figures.user, missed * _HOUR)

    async def _record(self) -> None:
        """Write the time so far; nothing where it has not changed."""
        now, text = self._now(), self._written()
        if text != self._text:
            body: Object = {
                "apiVersion": CONFIG_MAP.api_version,
                "kind": CONFIG_MAP.kind,
                "metadata": {"name": GPU_TIME, "namespace": self._namespace},
                "data": {_KEY: f'{{"time":"{format_time(now)}","seconds":{text}}}'},
            }
            await self._manager.client.apply(CONFIG_MAP, body, field_manager=self._field_manager, force=True)
            self._text = text
        self._recorded = now

    def _written(self) -> str:
        """The time so far as it is recorded."""
        return json.dumps(self._gpu_time.record(), separators=(",", ":"), ensure_ascii=False)


def _kept(found: Object) -> Object:
    """What the ConfigMap holds, nothing where somebody made it unreadable."""
    try:
        return lenient_map(json.loads(lenient_map(found.get("data")).get(_KEY) or "{}"))
    except (TypeError, ValueError, RecursionError):
        return {}
