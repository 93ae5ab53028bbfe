"""A Prometheus server of its own, and what it recorded."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, Final

import aiohttp

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

INTERVAL: Final = 5
"""Seconds between two scrapes."""

RATE_INTERVAL: Final = "30s"
"""What Grafana puts in for ``$__rate_interval``: at least four scrapes."""

_CONFIG: Final = """\
global:
  scrape_interval: {interval}s
scrape_configs:
  - job_name: kaiwo
    static_configs:
      - targets: ["{target}"]
"""


class Prometheus:
    """A running server.

    Attributes:
        url: of its API.
    """

    def __init__(self, url: str) -> None:
        """Name it."""
        self.url = url

    async def series(self, query: str, begin: float, end: float) -> list[dict[str, Any]]:
        """What a query gives over a time.

        Args:
            query: in PromQL, with Grafana's ``$__rate_interval``.
            begin: seconds since the epoch.
            end: seconds since the epoch.

        Returns:
            Objects with ``metric`` (labels) and ``values`` (pairs of time and text).

        Raises:
            RuntimeError: the server rejects the query.
        """
        expression = query.replace("$__rate_interval", RATE_INTERVAL)
        params = {"query": expression, "start": str(begin), "end": str(end), "step": str(INTERVAL)}
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"{self.url}/api/v1/query_range", params=params) as answer,
        ):
            document = await answer.json()
        if document["status"] != "success":
            raise RuntimeError(f"{expression}: {document['error']}")
        found: list[dict[str, Any]] = document["data"]["result"]
        return found


@contextlib.asynccontextmanager
async def prometheus(target: str, port: int, directory: Path) -> AsyncIterator[Prometheus]:
    """Run a server that scrapes one target.

    Args:
        target: host and port with ``/metrics``.
        port: of 127.0.0.1 to listen on.
        directory: for its configuration and data.

    Raises:
        FileNotFoundError: no ``prometheus`` is installed.
    """
    config = directory / "prometheus.yaml"
    config.write_text(_CONFIG.format(interval=INTERVAL, target=target), encoding="utf-8")
    process = await asyncio.create_subprocess_exec(
        "prometheus", f"--config.file={config}", f"--storage.tsdb.path={directory / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield Prometheus(f"http://127.0.0.1:{port}")
    finally:
        process.terminate()
        await process.wait()
