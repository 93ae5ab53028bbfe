"""The engine put together: cache, reflectors, controllers, lease, recorder."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from kaiwo.engine.apply import Writer
from kaiwo.engine.cache import Cache
from kaiwo.engine.client import Client
from kaiwo.engine.controller import Controller, Watch
from kaiwo.engine.events import Recorder
from kaiwo.engine.lease import Lease
from kaiwo.engine.telemetry import Health, Metrics


class Engine:
    """Everything one operator process runs on one event loop.

    Controllers are made with access to `engine.cache`, `engine.writer`, `engine.recorder` and then added.
    """

    cache: Cache
    writer: Writer
    recorder: Recorder
    metrics: Metrics
    health: Health
    lease: Lease | None

    def __init__(self, client: Client, *, field_manager: str, applied_annotation: str, component: str,
                 lease: Lease | None = None, metrics: Metrics | None = None) -> None: ...
    def add(self, controller: Controller) -> None:
        """Before run()."""
    def watch(self, watch: Watch) -> None:
        """Keep a kind in the cache although no controller is woken by it."""
    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop` is set; then finish what is being reconciled, release the lease, and return."""
