"""What one tenant's requests wait for holds up no other tenant."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.api.crds import KAIWO_SERVICE
from kaiwo.host.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from kaiwo.testing.fault_proxy import FaultProxy
    from kaiwo.testing.operator import OperatorProcess

    Start = Callable[..., Awaitable[OperatorProcess]]

pytestmark = pytest.mark.cluster

WORKERS = Settings().workers
"""Workloads of one kind and namespace that are reconciled at once, by default."""


def service(lab: Any, name: str) -> dict[str, Any]:
    """A KaiwoService of one Deployment."""
    job: dict[str, Any] = lab.job(name)
    return job | {"apiVersion": KAIWO_SERVICE.api_version, "kind": KAIWO_SERVICE.kind}


async def test_requests_of_one_namespace_that_hang_hold_up_no_other_one(
    operator: Start, lab: Any, neighbour: Any, proxy: FaultProxy, tmp_path: Path
) -> None:
    """With as many as are worked on at once waiting for an answer, a neighbour's job runs and completes."""
    where = f"/namespaces/{lab.namespace}/"
    jobs = proxy.hang(method="POST", path=f"{where}jobs$", times=None)
    services = proxy.hang(method="PATCH", path=f"{where}deployments/", times=None)
    await operator(
        kubeconfig=proxy.write_kubeconfig(tmp_path / "kubeconfig"),
        args=("--watch-namespace", neighbour.namespace),
    )
    for number in range(WORKERS):
        await lab.submit(f"held-{number:02}")
        await lab.client.create(KAIWO_SERVICE, service(lab, f"held-{number:02}"))
    async with asyncio.timeout(20):  # a request that hangs is given up after thirty seconds
        while jobs.struck + services.struck < 2 * WORKERS:
            await asyncio.sleep(0.05)
        await neighbour.submit("mine")
        await neighbour.reaches("mine", "COMPLETE")
