"""Serves probes and metrics: /healthz, /readyz, /metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

if TYPE_CHECKING:
    from collections.abc import Callable

    from prometheus_client import CollectorRegistry

    from kaiwo.engine.resource import Object


class ProbeServer:
    """Serves one address until closed.

    /healthz answers 200 as long as the event loop runs. /readyz answers 200 while all checks succeed, on a
    leader and on a follower alike, else 503: caches are synced, the Lease is held or can be read, and writes
    succeed. Its body lists every check, and the plugins with their states (a broken plugin does not make the
    process unready).
    """

    def __init__(
        self,
        address: tuple[str, int],
        *,
        ready: Callable[[], tuple[bool, Object]],
        registry: CollectorRegistry,
    ) -> None:
        self._host, self._port = address
        self._ready = ready
        self._registry = registry
        self._runner: web.AppRunner | None = None

    async def start(self) -> tuple[str, int]:
        """Start serving.

        Returns:
            the address, with the port that was chosen where 0 was given.

        Raises:
            OSError: the address cannot be used.
        """
        app = web.Application()
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", self._metrics)
        runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=1.0)
        await runner.setup()
        self._runner = runner
        await web.TCPSite(runner, self._host, self._port).start()
        host, port = runner.addresses[0][:2]
        return str(host), int(port)

    async def close(self) -> None:
        """Stop serving."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _healthz(self, request: web.Request) -> web.Response:
        del request
        return web.Response(text="ok\n")

    async def _readyz(self, request: web.Request) -> web.Response:
        del request
        ready, detail = self._ready()
        return web.json_response(detail, status=200 if ready else 503)

    async def _metrics(self, request: web.Request) -> web.Response:
        del request
        return web.Response(
            body=generate_latest(self._registry), headers={"Content-Type": CONTENT_TYPE_LATEST}
        )
