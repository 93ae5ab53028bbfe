"""A KaiwoService on Ray without an AppWrapper, as an administrator may choose."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.api.crds import KAIWO_CONFIG, WORKLOADS
from kaiwo.engine.errors import NotFound
from kaiwo.host.workload import reconciler
from kaiwo_ray_service.kinds import APP_WRAPPER, RAY_SERVICE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from kaiwo.engine.client import Client
    from kaiwo.testing.operator import OperatorProcess

    Start = Callable[..., Awaitable[OperatorProcess]]

pytestmark = [pytest.mark.cluster, pytest.mark.matrix]

PLUGINS = "ray_service,gpu_amd,gpu_nvidia"
KIND = "KaiwoService"
APPS = "applications:\n- name: chat\n  import_path: app:deployment\n"


@pytest.fixture
async def configure(client: Client) -> AsyncIterator[Callable[[str], Awaitable[None]]]:
    """A function that sets whether RayServices are wrapped, until the end of the test."""

    async def apply(**spec: Any) -> None:
        config = {
            "apiVersion": KAIWO_CONFIG.api_version,
            "kind": "KaiwoConfig",
            "metadata": {"name": "kaiwo"},
            "spec": spec,
        }
        await client.apply(KAIWO_CONFIG, config, field_manager="administrator", force=True)

    async def wrap(when: str) -> None:
        await apply(plugins={"ray_service": {"wrap": when}})

    yield wrap
    await apply()


@pytest.fixture
async def bare(configure: Callable[[str], Awaitable[None]]) -> None:
    """A configuration that wraps nothing."""
    await configure("never")


async def test_a_bare_service_runs_changes_in_place_and_sleeps(
    operator: Start, user: Any, bare: None
) -> None:
    """No wrapper at all; a new image and new applications are applied; zero replicas delete it."""
    del bare
    process = await operator(plugins=PLUGINS)
    await user.submit(KIND, "chat", ray=True, gpus=2, serveConfigV2=APPS)
    status = await user.reaches(KIND, "chat", "RUNNING", "READY")
    made = await user.client.get(RAY_SERVICE, user.namespace, "chat")
    assert status["childUID"] == made["metadata"]["uid"]
    assert made["metadata"]["ownerReferences"][0]["kind"] == "KaiwoService"
    with pytest.raises(NotFound):
        await user.client.get(APP_WRAPPER, user.namespace, "chat")

    await user.edit(KIND, "chat", image="registry.example/serve:2", serveConfigV2="applications: []\n")
    changed = await user.sees(
        RAY_SERVICE, "chat", lambda obj: obj["spec"]["serveConfigV2"] == "applications: []\n"
    )
    groups = changed["spec"]["rayClusterConfig"]["workerGroupSpecs"]
    assert groups[0]["template"]["spec"]["containers"][0]["image"] == "registry.example/serve:2"
    assert changed["metadata"]["uid"] == made["metadata"]["uid"]
    await user.reaches(KIND, "chat", "RUNNING", "READY", generation=2)
    process.require_not_logged("the API server stores another form of", reconciler)

    await user.edit(KIND, "chat", replicas=0)
    await user.gone(RAY_SERVICE, "chat")
    await user.reaches(KIND, "chat", "PENDING", reason="ScaledToZero", generation=3)


async def test_a_wrapper_that_no_status_names_is_found_after_another_form_was_chosen(
    operator: Start, user: Any, configure: Callable[[str], Awaitable[None]]
) -> None:
    """The operator stopped between the POST of the AppWrapper and the status; no second child is made."""
    process = await operator(plugins=PLUGINS)
    await user.submit(KIND, "chat", ray=True, gpus=2, serveConfigV2=APPS)
    status = await user.reaches(KIND, "chat", "STARTING", "RUNNING", "READY")
    first = await user.client.get(APP_WRAPPER, user.namespace, "chat")
    await asyncio.to_thread(process.close)
    nothing = {"status": dict.fromkeys(status)}
    left = await user.client.merge_patch(
        WORKLOADS[KIND], user.namespace, "chat", nothing, subresource="status"
    )
    assert "childUID" not in left.get("status", {})
    await configure("never")

    await asyncio.to_thread(process.start().wait_ready)
    status = await user.reaches(KIND, "chat", "STARTING", "RUNNING", "READY")
    assert status["childUID"] == first["metadata"]["uid"]
    assert status["allocation"]["backend"] == "ray_service"
    services = [obj async for obj in user.client.list(RAY_SERVICE, user.namespace)]
    owners = [reference["kind"] for obj in services for reference in obj["metadata"]["ownerReferences"]]
    assert owners in ([], ["AppWrapper"])
