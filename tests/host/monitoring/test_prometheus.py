"""A real Prometheus server between the exporter and Kaiwo."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import aiohttp
import pytest

from kaiwo.host.monitoring.endpoint import Endpoint, EndpointError
from kaiwo.plugin.vendors import Utilization
from kaiwo.testing.exporter import Exporter, lines

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from kaiwo.workload.monitoring.samples import Samples

AMD = Utilization("gpu_gfx_activity", gpu_labels=("gpu_id", "gpu_uuid"))

CONFIG = """\
global:
  scrape_interval: 1s
scrape_configs:
  - job_name: gpus
    static_configs:
      - targets: ["127.0.0.1:{port}"]
        labels: {labels}
"""
OF_THE_EXPORTER = "{namespace: gpu-operator, pod: exporter-1}"
"""Labels of a scraped pod: Prometheus renames those of the samples then."""


@pytest.fixture(scope="module")
def program() -> str:
    """Debian's Prometheus."""
    if shutil.which("prometheus") is None:
        if os.geteuid() != 0 or shutil.which("apt-get") is None:
            pytest.skip("prometheus is not installed: apt-get install prometheus")
        done = subprocess.run(
            [str(shutil.which("apt-get")), "install", "--yes", "--no-install-recommends", "prometheus"],
            capture_output=True, check=False, timeout=120,
            env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        )  # fmt: skip
        if done.returncode:
            pytest.skip("apt-get install prometheus failed")
    return "prometheus"


class Server:
    """A Prometheus server that scrapes an exporter."""

    def __init__(self, exporter: Exporter, url: str) -> None:
        self.exporter = exporter
        self.url = url
        self.endpoint = Endpoint(url, [AMD], 30.0, lambda: datetime.now(UTC))

    async def query(self, query: str) -> str:
        """What Prometheus itself answers."""
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"{self.url}/api/v1/query", params={"query": query}) as answer,
        ):
            return await answer.text()

    async def reads(self, wanted: Callable[[Samples], bool]) -> Samples:
        """Wait until it has what a test wants."""
        end = time.monotonic() + 60
        while True:
            problem = "it has other samples"
            try:
                found = await self.endpoint.read()
                if wanted(found):
                    return found
            except EndpointError as error:  # the server starts
                problem = str(error)
            assert time.monotonic() < end, problem
            await asyncio.sleep(0.2)


@pytest.fixture(params=["{}", OF_THE_EXPORTER], ids=["labels", "exported labels"])
async def server(request: pytest.FixtureRequest, program: str, tmp_path: Path) -> AsyncIterator[Server]:
    """Started with one exporter."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    async with Exporter() as exporter:
        (tmp_path / "config.yml").write_text(CONFIG.format(port=exporter.port, labels=request.param))
        process = await asyncio.create_subprocess_exec(
            program, f"--config.file={tmp_path / 'config.yml'}", f"--storage.tsdb.path={tmp_path / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
            stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        made = Server(exporter, f"http://127.0.0.1:{port}")
        try:
            yield made
        finally:
            await made.endpoint.close()
            process.kill()
            await process.wait()


async def test_samples_come_through_a_real_prometheus_and_old_ones_do_not(server: Server) -> None:
    """Also where it renames labels. A sample of three minutes ago is old, those of a lost exporter go."""
    old = f'gpu_gfx_activity{{gpu_id="9",namespace="team",pod="old"}} 1 {int((time.time() - 180) * 1000)}\n'
    server.exporter.body = lines({("team", "train"): [7, 93], ("other", "train"): [1]}) + old
    found = await server.reads(lambda samples: len(samples) > 1)
    assert sorted(gpu.use or 0 for gpu in found.of_pod("team", "train")) == [7.0, 93.0]
    assert [gpu.use for gpu in found.of_pod("other", "train")] == [1.0]
    assert (len(found), found.of_pod("team", "old")) == (2, ())
    assert '"gpu_id":"9"' in await server.query('gpu_gfx_activity{gpu_id="9"}')
    server.exporter.status = 500
    await server.reads(lambda samples: not len(samples))
