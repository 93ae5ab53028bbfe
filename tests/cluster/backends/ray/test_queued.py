"""Every backend in a real queue: waiting with Kueue's words, admitted, running."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.api.crds import WORKLOADS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kaiwo.testing.operator import OperatorProcess

    Start = Callable[..., Awaitable[OperatorProcess]]

pytestmark = [pytest.mark.cluster, pytest.mark.matrix]

PLUGINS = "batch_job,deployment,ray_job,ray_service,kueue,node_pools,gpu_amd,gpu_nvidia"
FOREVER = {"annotations": {"kaiwo-sandbox/forever": "true"}}


@pytest.mark.parametrize(
    "form",
    [
        ("KaiwoService", {}, ("READY",)),
        ("KaiwoService", {"ray": True, "serveConfigV2": "applications: []"}, ("RUNNING", "READY")),
        ("KaiwoJob", {"ray": True, "entrypoint": "python main.py"}, ("STARTING", "RUNNING")),
    ],
    ids=["deployment", "ray_service", "ray_job"],
)
async def test_a_workload_waits_for_its_queue_and_then_runs(
    operator: Start, user: Any, make_queue: Any, form: tuple[Any, dict[str, Any], tuple[str, ...]]
) -> None:
    """PENDING with the quota that lacks; nothing runs before; with more quota it is admitted and runs."""
    kind, spec, words = form
    await make_queue("0")
    await operator(plugins=PLUGINS, env={"KAIWO_PLUGINS_DISABLED": ""})
    await user.submit(kind, "queued", clusterQueue="team", metadata=FOREVER, **spec)
    waits = await user.sees(
        WORKLOADS[kind], "queued",
        lambda obj: obj.get("status", {}).get("status") == "PENDING"
        and "insufficient" in obj["status"].get("message", ""),
    )  # fmt: skip
    assert "startTime" not in waits["status"]
    await make_queue("99")
    status = await user.reaches(kind, "queued", *words)
    admitted = next(item for item in status["conditions"] if item["type"] == "Admitted")
    assert admitted["status"] == "True"
