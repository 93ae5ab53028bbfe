"""A KaiwoService on Ray with the real KubeRay and AppWrapper; Ray's own words are written by the test."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.engine.resource import POD
from kaiwo.testing.operator import event_reasons
from kaiwo_ray_service.kinds import APP_WRAPPER, RAY_SERVICE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kaiwo.testing.operator import OperatorProcess

    Start = Callable[..., Awaitable[OperatorProcess]]

pytestmark = [pytest.mark.cluster, pytest.mark.matrix]

PLUGINS = "ray_service,gpu_amd,gpu_nvidia"
KIND = "KaiwoService"
APPS = "applications:\n- name: chat\n  import_path: app:deployment\n"


async def ray_says(user: Any, name: str, state: str) -> None:
    """Write what Ray itself would have reported of the application."""
    apps = {"chat": {"status": state, "message": "said by Ray"}}
    status = {"activeServiceStatus": {"applicationStatuses": apps}}
    await user.client.merge_patch(RAY_SERVICE, user.namespace, name, {"status": status}, subresource="status")


async def test_a_service_is_wrapped_runs_and_follows_its_applications(operator: Start, user: Any) -> None:
    """RUNNING with a worker, READY, ERROR and READY again with the application."""
    await operator(plugins=PLUGINS)
    created = await user.submit(KIND, "chat", ray=True, gpus=12, user="jane", serveConfigV2=APPS)
    status = await user.reaches(KIND, "chat", "RUNNING", "READY")
    wrapper = await user.client.get(APP_WRAPPER, user.namespace, "chat")
    assert status["childUID"] == wrapper["metadata"]["uid"]
    assert status["allocation"]["replicas"] == 2
    for pod in await user.pods(3):  # a head and two workers
        assert pod["metadata"]["labels"]["kaiwo.silogen.ai/user"] == "jane"
        assert pod["metadata"]["labels"]["kaiwo.silogen.ai/run-id"] == created["metadata"]["uid"]

    await ray_says(user, "chat", "RUNNING")
    await user.reaches(KIND, "chat", "READY")
    await ray_says(user, "chat", "UNHEALTHY")
    status = await user.reaches(KIND, "chat", "ERROR", reason="ApplicationUnhealthy")
    assert "said by Ray" in status["message"]
    await ray_says(user, "chat", "RUNNING")
    await user.reaches(KIND, "chat", "READY")


async def test_new_applications_leave_the_pods_alone(operator: Start, user: Any) -> None:
    """serveConfigV2 is patched on the RayService; the wrapper and its pods are the same."""
    await operator(plugins=PLUGINS)
    await user.submit(KIND, "chat", ray=True, serveConfigV2=APPS)
    status = await user.reaches(KIND, "chat", "RUNNING", "READY")
    changed = APPS.replace("app:deployment", "app:other")
    await user.edit(KIND, "chat", serveConfigV2=changed)
    made = await user.sees(RAY_SERVICE, "chat", lambda obj: obj["spec"].get("serveConfigV2") == changed)
    after = await user.reaches(KIND, "chat", "RUNNING", "READY", generation=2)
    assert after["childUID"] == status["childUID"]

    assert made["metadata"]["ownerReferences"][0]["uid"] == status["childUID"]


async def test_a_rayservice_deleted_by_hand_ends_the_service(operator: Start, user: Any) -> None:
    """AppWrapper gives up at once, without a retry; the reason is its own."""
    await operator(plugins=PLUGINS)
    await user.submit(KIND, "chat", ray=True, serveConfigV2=APPS)
    await user.reaches(KIND, "chat", "RUNNING", "READY")
    await user.client.delete(RAY_SERVICE, user.namespace, "chat", propagation="Background")
    status = await user.reaches(KIND, "chat", "FAILED", reason="WrapperFailed")
    assert "MissingComponent" in status["message"]


async def test_another_image_replaces_the_wrapper(operator: Start, user: Any) -> None:
    """PENDING/Replacing says that the service is down; then a new wrapper runs the new image."""
    await operator(plugins=PLUGINS)
    await user.submit(KIND, "chat", ray=True, serveConfigV2=APPS)
    before = await user.reaches(KIND, "chat", "RUNNING", "READY")
    await user.edit(KIND, "chat", image="registry.example/serve:2")
    status = await user.reaches(KIND, "chat", "PENDING", reason="Replacing", generation=2)
    assert "spec.image" in status["message"]
    assert "the service is down" in status["message"]
    await user.sees(APP_WRAPPER, "chat", lambda obj: obj["metadata"]["uid"] != before["childUID"])
    await user.reaches(KIND, "chat", "RUNNING", "READY", generation=2)
    images = {
        container["image"]
        async for pod in user.client.list(POD, user.namespace)
        for container in pod["spec"]["containers"]
        if not pod["metadata"].get("deletionTimestamp")
    }
    assert images == {"registry.example/serve:2"}
    assert "ResourceReplaced" in await event_reasons(user.client, user.namespace, "chat")


async def test_a_service_sleeps_without_anything_left(operator: Start, user: Any) -> None:
    """Zero replicas delete the wrapper and all its pods; one more brings it back."""
    await operator(plugins=PLUGINS)
    await user.submit(KIND, "chat", ray=True, serveConfigV2=APPS)
    await user.reaches(KIND, "chat", "RUNNING", "READY")
    await user.edit(KIND, "chat", replicas=0)
    await user.gone(APP_WRAPPER, "chat")
    status = await user.reaches(KIND, "chat", "PENDING", reason="ScaledToZero", generation=2)
    assert "startTime" not in status
    await user.gone(RAY_SERVICE, "chat")
    await user.edit(KIND, "chat", replicas=2)
    status = await user.reaches(KIND, "chat", "RUNNING", "READY", generation=3)
    assert status["allocation"]["replicas"] == 2


async def test_a_queue_holds_and_starts_the_wrapper(operator: Start, user: Any, make_queue: Any) -> None:
    """Kueue's own suspension through the wrapper's label, as an embedded label gives it."""
    await operator(plugins=PLUGINS)
    await make_queue("99")
    block = {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "team"}}, "spec": {}}
    await user.submit(KIND, "chat", ray=True, replicas=2, serveConfigV2=APPS, rayService=block)
    wrapper = await user.sees(
        APP_WRAPPER, "chat", lambda obj: obj.get("status", {}).get("phase") == "Running"
    )
    assert wrapper["spec"].get("suspend", False) is False
    await user.reaches(KIND, "chat", "RUNNING", "READY")
    inner = await user.client.get(RAY_SERVICE, user.namespace, "chat")
    assert "kueue.x-k8s.io/queue-name" not in inner["metadata"]["labels"]
