"""``python -m docs.picture [--minutes N]`` draws ``docs/images/dashboard.png`` from a real run.

Operator, Kueue and Prometheus are real; nodes, pods and the exporter of GPU metrics are simulated.
It needs Debian's package prometheus, and ``pip install --group picture``.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from docs.picture import load
from docs.picture.panels import Recording, draw
from docs.picture.prometheus import prometheus
from kaiwo.api.crds import render_crds
from kaiwo.engine.client import Client
from kaiwo.engine.credentials import load as credentials
from kaiwo.install.monitoring.dashboard import dashboard
from kaiwo.plugin.loader import load as load_plugins
from kaiwo.testing.exporter import Exporter
from kaiwo.testing.operator import OperatorProcess
from kaiwo_sandbox.nodes import amd_node
from kaiwo_sandbox.ports import free_ports
from kaiwo_sandbox.sandbox import Sandbox

if TYPE_CHECKING:
    from collections.abc import Sequence

FILE: Final = Path(__file__).parents[1] / "images" / "dashboard.png"
ROWS: Final = ("Workloads", "GPUs", "Monitoring of GPUs", "Reading and writing", "Reconciliation")
_PLUGINS: Final = "batch_job,kueue,node_pools,gpu_amd"
_NODES: Final = 2
_SEED: Final = 1


async def _record(sandbox: Sandbox, minutes: float, directory: Path) -> Sequence[str]:
    """Run the load, and draw it."""
    async with Exporter() as exporter, Client(credentials(sandbox.kubeconfig)) as client:
        environment = {
            "KAIWO_METRICS_GPU_LABELS": "user",
            "RESOURCE_MONITORING_ENABLED": "true",
            "RESOURCE_MONITORING_METRICS_ENDPOINT": exporter.url,
            "RESOURCE_MONITORING_POLLING_INTERVAL": "10s",
        }
        operator = OperatorProcess(kubeconfig=sandbox.kubeconfig, plugins=_PLUGINS, env=environment)
        with operator:
            await asyncio.to_thread(operator.wait_ready)
            [port] = free_ports(1)
            target = operator.url.removeprefix("http://")
            async with prometheus(target, port, directory) as server:
                exporting = asyncio.create_task(load.export(client, exporter))
                begin = time.time()
                count = await load.submit(client, _SEED, time.monotonic() + minutes * 60)
                exporting.cancel()
                sys.stdout.write(f"{count} jobs in {minutes:g} min\n")
                recording = Recording(server, begin, time.time())
                return await draw(json.loads(dashboard()), recording, ROWS, FILE)


def main() -> int:
    """Draw the picture; names the panels without data."""
    parser = argparse.ArgumentParser(prog="python -m docs.picture", description="Draws the dashboard.")
    parser.add_argument("--minutes", type=float, default=10.0, help="length of the run (default: 10)")
    options = parser.parse_args()
    nodes = [amd_node(f"amd-{number}") for number in range(_NODES)]
    sandbox = Sandbox.up("picture", nodes=nodes, addons=("kueue",), owned=True)
    try:
        plugins = load_plugins()
        crds = render_crds(plugins.fields(), plugins.settings_models(), kinds=plugins.kinds())
        sandbox.create_crds(crds)
        FILE.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory() as directory:
            empty = asyncio.run(_record(sandbox, options.minutes, Path(directory)))
    finally:
        sandbox.down()
    sys.stdout.write(f"{FILE}: written\n")
    for title in empty:
        sys.stdout.write(f"no data: {title}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
