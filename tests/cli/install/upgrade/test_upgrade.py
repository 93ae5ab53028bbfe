"""An upgrade from the version before this one, with workloads in every state, and the way back."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from kaiwo.api.crds import KAIWO_JOB, KAIWO_SERVICE, WORKLOADS
from kaiwo.engine.resource import (
    CONFIG_MAP,
    DEPLOYMENT,
    EVENT,
    JOB,
    NODE,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    SERVICE,
)
from kaiwo.testing.operator import until
from kaiwo_kueue.kinds import CLUSTER_QUEUE, LOCAL_QUEUE, QUEUE_CONFIG, RESOURCE_FLAVOR, WORKLOAD
from kaiwo_ray_job.kinds import RAY_CLUSTER, RAY_JOB
from kaiwo_ray_service.kinds import APP_WRAPPER, RAY_SERVICE

if TYPE_CHECKING:
    from kaiwo.api.plugin_fields import WorkloadKind
    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Object
    from kaiwo.testing.fault_proxy import FaultProxy

pytestmark = pytest.mark.cluster

PLUGINS = (
    "batch_job,deployment,gpu_amd,gpu_nvidia,kueue,node_pools,ray_job,ray_service,storage_s3_gcs_azure_git_hf"
)
# Without KaiwoConfig: a version may add fields with defaults, and its status lists the plugins.
KINDS = (
    *(KAIWO_JOB, KAIWO_SERVICE, QUEUE_CONFIG),
    *(JOB, DEPLOYMENT, RAY_JOB, RAY_SERVICE, RAY_CLUSTER, APP_WRAPPER),
    *(POD, SERVICE, CONFIG_MAP, PERSISTENT_VOLUME_CLAIM, WORKLOAD),
    *(CLUSTER_QUEUE, LOCAL_QUEUE, RESOURCE_FLAVOR, NODE),
)
SETTLED_SECONDS = 4.0
REST_SECONDS = 8.0
FOREVER = {"kaiwo-sandbox/forever": "true"}
HOLD = {"kaiwo-sandbox/hold": "true"}
FAILS = {"kaiwo-sandbox/exit-code": "3"}
RAY_RUNS = {"kaiwo-sandbox/ray-job-status": "RUNNING"}
APPS = "applications:\n- name: chat\n  import_path: app:deployment\n"
GIT = {"repository": "https://git.example.com/r.git", "targetPath": "src"}
DOWNLOAD = {"storageEnabled": True, "data": {"storageSize": "1Gi", "download": {"git": [GIT]}}}
RAY = {"ray": True, "entrypoint": "python main.py"}
TEMPLATE = {
    "spec": {
        "template": {
            "spec": {
                "restartPolicy": "Never",
                "containers": [{"name": "own", "image": "registry.example/own:1"}],
            }
        }
    }
}


class Case(NamedTuple):
    """A workload and the state in which an upgrade meets it."""

    kind: WorkloadKind
    state: tuple[str, str]
    spec: Object
    pods: dict[str, str]


CASES: dict[str, Case] = {
    "complete": Case("KaiwoJob", ("COMPLETE", "Completed"), {}, {}),
    "failed": Case("KaiwoJob", ("FAILED", "ExitCode"), {}, FAILS),
    "running": Case("KaiwoJob", ("RUNNING", "Running"), {"gpus": 1}, FOREVER),
    "starting": Case("KaiwoJob", ("STARTING", ""), {}, HOLD),
    "template": Case("KaiwoJob", ("RUNNING", "Running"), {"job": TEMPLATE}, FOREVER),
    "queued": Case("KaiwoJob", ("PENDING", ""), {"clusterQueue": "held"}, {}),
    "unknown-queue": Case("KaiwoJob", ("", ""), {"clusterQueue": "nowhere"}, {}),
    "downloading": Case("KaiwoJob", ("PENDING", "Downloading"), {"storage": DOWNLOAD}, FOREVER),
    "download-starting": Case("KaiwoJob", ("PENDING", ""), {"storage": DOWNLOAD}, HOLD),
    "download-failed": Case("KaiwoJob", ("FAILED", "DownloadUnavailable"), {"storage": DOWNLOAD}, FAILS),
    "downloaded": Case("KaiwoJob", ("COMPLETE", "Completed"), {"storage": DOWNLOAD}, {}),
    "ray-running": Case("KaiwoJob", ("RUNNING", "Running"), RAY, RAY_RUNS),
    "ray-complete": Case("KaiwoJob", ("COMPLETE", ""), RAY, {}),
    "web": Case("KaiwoService", ("READY", "Ready"), {"gpus": 1}, {}),
    "web-starting": Case("KaiwoService", ("STARTING", ""), {}, HOLD),
    "chat": Case("KaiwoService", ("READY", "Ready"), {"ray": True, "serveConfigV2": APPS}, {}),
    "idle": Case("KaiwoService", ("", ""), {"replicas": 0}, {}),
}
"""Empty words of a state: any."""


REWORDED = ("queued",)
"""Workloads about which the two versions have different messages: each version writes its own, once."""


def queues() -> Object:
    """A KaiwoQueueConfig with an open queue and one that admits nothing."""
    amounts = {"cpu": "500", "memory": "4Ti", "ephemeral-storage": "4Ti"}
    amounts |= {"amd.com/gpu": "16", "nvidia.com/gpu": "16"}
    resources = [{"name": name, "nominalQuota": amount} for name, amount in amounts.items()]
    group = {"coveredResources": list(amounts), "flavors": [{"name": "any", "resources": resources}]}
    spec = {"resourceGroups": [group], "namespaceSelector": {}}
    return {
        "apiVersion": QUEUE_CONFIG.api_version,
        "kind": QUEUE_CONFIG.kind,
        "metadata": {"name": "kaiwo"},
        "spec": {
            "resourceFlavors": [{"name": "any"}],
            "clusterQueues": [
                {"name": "kaiwo", "spec": spec},
                {"name": "held", "spec": {**spec, "stopPolicy": "Hold"}},
            ],
        },
    }


async def submit(admin: Client, team: str, name: str, case: Case) -> None:
    """Create the workload of a case."""
    kind = WORKLOADS[case.kind]
    image = {} if "job" in case.spec else {"image": "registry.example/train:1"}
    await admin.create(
        kind,
        {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": {"name": name, "namespace": team, "annotations": case.pods},
            "spec": {**image, **case.spec},
        },
    )


async def reaches(admin: Client, team: str, name: str, case: Case) -> None:
    """Wait until the workload of a case is in its state."""
    status, reason = case.state

    def there(obj: Object | None) -> bool:
        live = (obj or {}).get("status") or {}
        words = live.get("status", ""), live.get("reason", "")
        return all(words) and words[0] == (status or words[0]) and words[1] == (reason or words[1])

    await until(admin, WORKLOADS[case.kind], team, name, there, timeout=120.0)


async def scheduled(admin: Client, team: str) -> None:
    """Wait until all pods have nodes, and delete what the scheduler said of them before.

    The earlier version goes on to report that a volume was not bound yet, and this one does not.
    """
    while True:
        pods = [pod async for pod in admin.list(POD, team)]
        if all(pod["spec"].get("nodeName") for pod in pods):
            break
        await asyncio.sleep(1)
    async for event in admin.list(EVENT, team):
        if event.get("reason") == "FailedScheduling":
            await admin.delete(EVENT, team, event["metadata"]["name"])

    def over(obj: Object | None) -> bool:
        return ((obj or {}).get("status") or {}).get("reason") not in (None, "FailedScheduling")

    await until(admin, KAIWO_JOB, team, "download-starting", over, timeout=120.0)


async def settled(recorded: Any, admin: Client, team: str) -> dict[str, Object]:
    """Wait until nothing changes any more; what there is then."""
    before = await recorded(admin, KINDS, team)
    for _ in range(30):
        await asyncio.sleep(SETTLED_SECONDS)
        now = await recorded(admin, KINDS, team)
        if now == before:
            return before
        before = now
    raise AssertionError("objects of the installation keep changing")


def differences(before: dict[str, Object], after: dict[str, Object]) -> dict[str, Any]:
    """What is no longer as it was."""
    missing = dict.fromkeys(before.keys() - after.keys(), "gone")
    added = dict.fromkeys(after.keys() - before.keys(), "new")
    changed = {
        f"{name} {key}": (before[name].get(key), after[name].get(key))
        for name in before.keys() & after.keys()
        for key in before[name].keys() | after[name].keys()
        if _compared(name, key, before[name]) != _compared(name, key, after[name])
    }
    return {**missing, **added, **changed}


def _compared(name: str, key: str, recorded: Object) -> object:
    """A part of what was recorded, without what a message in other words changes."""
    if not name.endswith(tuple(f" {workload}" for workload in REWORDED)):
        return recorded.get(key)
    status: Object = recorded.get("status") or {}
    conditions = [{**condition, "message": ""} for condition in status.get("conditions") or ()]
    kept: Object = {
        **recorded, "resourceVersion": "", "status": {**status, "message": "", "conditions": conditions},
    }  # fmt: skip
    return kept.get(key)


def written(proxy: FaultProxy) -> list[str]:
    """Writes of an operator but for its Lease, Events, and the list of plugins in KaiwoConfig's status.

    The one in which it writes a message in its own words is left out, too.
    """
    paths = [
        f"{record.method} {record.path} {record.code}"
        for record in proxy.writes()
        if not record.path.endswith("/kaiwoconfigs/kaiwo/status")
    ]
    for workload in REWORDED:
        own = [path for path in paths if path.endswith(f"/{workload}/status 200")]
        paths = [path for path in paths if path not in own[:1]] + own[1:]
    return paths


async def test_an_upgrade_and_the_way_back_leave_workloads_alone(
    earlier: Any, present: Any, installation: Any, admin: Client, team: str, recorded: Any
) -> None:
    """Workloads of all backends in all states keep status, children, pods and managers in both directions.

    The operators of both versions run at the same time for a while, as in the rollout of a Deployment. The
    new one writes nothing while the other one leads, and nothing at rest when it leads itself. New workloads
    run with each version.
    """
    await installation.apply(earlier, "--plugins", PLUGINS)
    await admin.create(QUEUE_CONFIG, queues(), field_manager="admin")
    async with installation.operating(earlier) as (old, _):
        for name, case in CASES.items():
            await submit(admin, team, name, case)
        for name, case in CASES.items():
            await reaches(admin, team, name, case)
        await scheduled(admin, team)
        before = await settled(recorded, admin, team)

        await installation.apply(present, "--from-cluster", "--plugins", PLUGINS)
        async with installation.operating(present, stands_by=True) as (new, requests):
            assert written(requests) == [], "the operator that stands by writes"
            await asyncio.to_thread(old.stop)
            await asyncio.to_thread(new.wait_ready)
            await asyncio.sleep(REST_SECONDS)
            assert written(requests) == []
            assert differences(before, await recorded(admin, KINDS, team)) == {}
            assert [record for record in requests.records if record.code in (401, 403)] == []
            await submit(admin, team, "later", CASES["complete"])
            await reaches(admin, team, "later", CASES["complete"])
            before = await settled(recorded, admin, team)

    # The CRDs stay those of the later version, as docs/upgrade.md says.
    await installation.apply(earlier, "rbac", "operator", "scheduler", "--plugins", PLUGINS)
    async with installation.operating(earlier) as (_, requests):
        await asyncio.sleep(REST_SECONDS)
        assert differences(before, await recorded(admin, KINDS, team)) == {}
        assert written(requests) == []
        await submit(admin, team, "last", CASES["complete"])
        await reaches(admin, team, "last", CASES["complete"])
