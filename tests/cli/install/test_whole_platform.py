"""The installed operator with all backends, Kueue, KubeRay and AppWrapper."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.api.crds import KAIWO_JOB, KAIWO_SERVICE
from kaiwo.engine.resource import Resource
from kaiwo.testing.operator import until
from kaiwo_ray_service.kinds import RAY_SERVICE

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.cluster, pytest.mark.matrix]

QUEUE_CONFIG = Resource(
    "kaiwo.silogen.ai", "v1alpha1", "KaiwoQueueConfig", "kaiwoqueueconfigs", namespaced=False
)
APPS = "applications:\n- name: chat\n  import_path: app:deployment\n"


@pytest.fixture(scope="session")
def control_plane(platform: Any) -> Any:
    """The session's sandbox with Kueue, KubeRay and AppWrapper in place of the bare one."""
    return platform


async def test_all_back_ends_run_queued_with_the_rights_of_the_installation(
    site: Any, tmp_path: Path
) -> None:
    """A Job, a Ray job, a Deployment and a Ray service go through a queue; no request is forbidden.

    Queues, flavors and node labels are made by the operator itself, from the nodes it finds.
    """
    admin, team = site.admin, site.team
    async with site.operating(tmp_path) as requests:
        await until(
            admin, QUEUE_CONFIG, None, "kaiwo",
            lambda obj: ((obj or {}).get("status") or {}).get("status") == "READY", timeout=60.0,
        )  # fmt: skip
        # The first one brings the team its place in the queue.
        await admin.create(KAIWO_JOB, site.workload("KaiwoJob", "train", gpus=1))
        await site.reaches(KAIWO_JOB, "train", "COMPLETE")
        ray_job = site.workload("KaiwoJob", "ray-train", gpus=1, ray=True, entrypoint="python main.py")
        await admin.create(KAIWO_JOB, ray_job)
        await admin.create(KAIWO_SERVICE, site.workload("KaiwoService", "serve", gpus=1))
        chat = site.workload("KaiwoService", "chat", gpus=1, ray=True, serveConfigV2=APPS)
        await admin.create(KAIWO_SERVICE, chat)
        await site.reaches(KAIWO_JOB, "ray-train", "COMPLETE")
        for name in ("serve", "chat"):
            await site.reaches(KAIWO_SERVICE, name, "READY")
        changed = APPS.replace("app:deployment", "app:other")
        await admin.merge_patch(KAIWO_SERVICE, team, "chat", {"spec": {"serveConfigV2": changed}})
        await until(
            admin, RAY_SERVICE, team, "chat",
            lambda obj: (obj or {})["spec"].get("serveConfigV2") == changed,
        )  # fmt: skip
        await admin.merge_patch(KAIWO_SERVICE, team, "chat", {"spec": {"replicas": 0}})
        await until(admin, RAY_SERVICE, team, "chat", lambda obj: obj is None, timeout=60.0)
    assert [request for request in requests if request[2] in (401, 403)] == []
    written = {
        part for method, path, _ in requests if method in ("POST", "PATCH") for part in path.split("/")
    }
    assert {"localqueues", "jobs", "rayjobs", "deployments", "appwrappers", "rayservices"} <= written
