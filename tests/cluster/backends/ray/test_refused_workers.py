"""A quota that has room for the head of a Ray cluster and not for its workers, with the real KubeRay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.api.crds import WORKLOADS
from kaiwo.engine.resource import Resource

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kaiwo.testing.operator import OperatorProcess

    Start = Callable[..., Awaitable[OperatorProcess]]

pytestmark = [pytest.mark.cluster, pytest.mark.matrix]

QUOTA = Resource("", "v1", "ResourceQuota", "resourcequotas")
PLUGINS = "ray_job,ray_service,gpu_amd,gpu_nvidia"
APPS = "applications:\n- name: chat\n  import_path: app:deployment\n"
# The simulated Ray Serve would serve from the head alone.
DEPLOYING = {"annotations": {"kaiwo-sandbox/ray-app-status": "DEPLOYING"}}
SPECS: dict[str, dict[str, Any]] = {
    "KaiwoJob": {"entrypoint": "python main.py"},
    "KaiwoService": {"serveConfigV2": APPS, "metadata": DEPLOYING},
}

WELL = {"KaiwoJob": ("STARTING", "RUNNING", "COMPLETE"), "KaiwoService": ("RUNNING",)}


@pytest.mark.parametrize("kind", SPECS)
async def test_workers_that_a_quota_forbids_are_reported(operator: Start, user: Any, kind: str) -> None:
    """STARTING/FailedCreate in the quota's words beside a head that runs; without the quota all is well."""
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "gpus", "namespace": user.namespace},
        "spec": {"hard": {"requests.amd.com/gpu": "0"}},
    }
    await user.client.create(QUOTA, quota)
    await user.sees(QUOTA, "gpus", lambda found: found.get("status", {}).get("hard"))
    await operator(plugins=PLUGINS)
    await user.submit(kind, "big", ray=True, gpus=8, **SPECS[kind])
    status = await user.reaches(kind, "big", "STARTING", reason="FailedCreate")
    assert "exceeded quota: gpus" in status["message"]
    await user.client.delete(QUOTA, user.namespace, "gpus")
    # Until Ray reports its job, which it never does here, a job is being started.
    await user.sees(WORKLOADS[kind], "big", lambda found: found["status"]["reason"] != "FailedCreate")
    await user.reaches(kind, "big", *WELL[kind])
