"""``kaiwo why`` on a real control plane with the real Kueue: each cause has its verdict within seconds."""

from __future__ import annotations

import asyncio
import copy
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.api.crds import KAIWO_JOB
from kaiwo.client.why import why
from kaiwo.engine.client import Client
from kaiwo.engine.errors import NotFound
from kaiwo.plugin.loader import load

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kaiwo.client.why import Verdict
    from kaiwo.engine.credentials import Connection
    from kaiwo.engine.resource import Object
    from kaiwo.testing.operator import OperatorProcess

    Start = Callable[..., Awaitable[OperatorProcess]]

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("pristine")]

PLUGINS = "batch_job,gpu_amd,gpu_nvidia,kueue,node_pools,storage_s3_gcs_azure_git_hf"
FOREVER = {"kaiwo-sandbox/forever": "true"}
HOLD = {"kaiwo-sandbox/hold": "true"}
NODES = {"spec": {"template": {"spec": {"nodeSelector": {"no": "such"}, "containers": [{"name": "it"}]}}}}
GIT = {"repository": "https://git.example.com/r.git", "targetPath": "src"}
DATA = {"storageEnabled": True, "data": {"storageSize": "1Gi", "download": {"git": [GIT]}}}
SECRET = {"name": "creds", "secretName": "creds", "mountPath": "/creds"}
_TIMEOUT = 60.0


class Questions:
    """Asks why, again and again until the verdict is the expected one."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace

    async def once(self, name: str) -> Verdict:
        """The verdict now."""
        return await why(self._client, load, await self._client.get(KAIWO_JOB, self._namespace, name))

    async def until(self, name: str, code: str, text: str) -> Verdict:
        """The first verdict of a code with a text in its message or its evidence."""
        end = time.monotonic() + _TIMEOUT
        found: Verdict | None = None
        while time.monotonic() < end:
            found = await self.once(name)
            if found.code == code and text in " ".join((found.message, *found.evidence)):
                return found
            await asyncio.sleep(0.3)
        raise AssertionError(f"expected {code} with {text!r}, got {found}")


@pytest.fixture
def ask(client: Client, namespace: str) -> Questions:
    """Asks why in the namespace of the test."""
    return Questions(client, namespace)


def kinds(verdict: Verdict) -> list[str]:
    """The kinds of the chain."""
    return [link.kind for link in verdict.chain]


async def test_what_befalls_jobs_has_a_verdict_each(
    operator: Start, admin: Any, lab: Any, ask: Questions
) -> None:
    """Image, nodes, exit code, missing Secret, unknown queue, failing download, beside each other."""
    await operator(plugins=PLUGINS)
    await admin.status("READY")
    await lab.submit("image", gpus=1, pods={"kaiwo-sandbox/image-pull-error": "manifest unknown"})
    await lab.submit("nodes", job=NODES)
    await lab.submit("crash", pods={"kaiwo-sandbox/exit-code": "137"})
    await lab.submit("secret", secretVolumes=[SECRET], pods=HOLD)
    await lab.submit("queue", clusterQueue="nosuch")
    await lab.submit("download", storage=DATA, pods={"kaiwo-sandbox/exit-code": "6"})
    image = await ask.until("image", "ImagePullBackOff", "cannot be pulled; it does not exist there")
    assert kinds(image)[:5] == ["KaiwoJob", "Job", "Workload", "LocalQueue", "ClusterQueue"]
    assert {"ResourceFlavor", "Cohort", "Pod"} <= set(kinds(image))
    assert image.command == f"kaiwo submit -f FILE --replace -n {lab.namespace}"
    await ask.until("nodes", "Unschedulable", "node affinity/selector")
    crash = await ask.until("crash", "ExitCode", "exited with code 137 (SIGKILL, not for its memory limit")
    assert crash.command == f"kaiwo logs job/crash -n {lab.namespace}"
    await ask.until("secret", "FailedMount", f"Secret creds does not exist in namespace {lab.namespace}")
    await ask.until("queue", "ClusterQueueNotFound", "nosuch")
    download = await ask.until("download", "Downloading", "try 1 of 4 failed")
    assert download.state == "waits"
    assert download.command == f"kaiwo logs job/download --download -n {lab.namespace}"


async def test_a_full_quota_names_its_holder_and_who_is_ahead(
    operator: Start, admin: Any, lab: Any, ask: Questions, quota: Callable[..., Object]
) -> None:
    """The first in the queue and those behind it alike, whom Kueue tells nothing."""
    await admin.configure(
        clusterQueues=[{"name": "kaiwo", "spec": quota(queueingStrategy="StrictFIFO")}],
        resourceFlavors=[{"name": "f", "nodeLabels": {"kubernetes.io/os": "linux"}}],
    )
    await operator(plugins=PLUGINS)
    await admin.status("READY")
    most = {"requests": {"cpu": "3"}, "limits": {"cpu": "3"}}
    await lab.submit("holder", resources=most, pods=FOREVER)
    await lab.reaches("holder", "RUNNING")
    await lab.submit("first", resources=most)
    head = await ask.until("first", "Pending", f"KaiwoJob {lab.namespace}/holder holds 3 cpu")
    assert head.state == "waits"
    await lab.submit("second", resources=most)
    behind = await ask.until("second", "Queued", f"KaiwoJob {lab.namespace}/first is ahead")
    assert "waits at place 2 of queue kaiwo, behind" in behind.message
    assert f"KaiwoJob {lab.namespace}/holder holds 3 cpu" in behind.evidence


async def test_without_an_operator_the_verdict_says_so(ask: Questions, lab: Any, crds: None) -> None:
    """Nothing else can be known of a workload that nobody has observed."""
    assert crds is None
    await lab.submit("alone")
    found = await ask.once("alone")
    assert (found.code, found.command) == ("OperatorAbsent", "kaiwo doctor")


async def test_missing_rights_are_named_and_the_rest_is_shown(
    operator: Start, admin: Any, lab: Any, connection: Connection
) -> None:
    """One sentence for each kind, and the verdict that the workload alone allows."""
    await operator(plugins=PLUGINS)
    await admin.status("READY")
    await lab.submit("image", pods={"kaiwo-sandbox/image-pull-error": "manifest unknown"})
    await lab.reaches("image", "STARTING", reason="ImagePullBackOff")
    workload = await lab.client.get(KAIWO_JOB, lab.namespace, "image")
    nobody = copy.copy(connection)
    nobody.impersonation = (("Impersonate-User", "nobody"),)
    async with Client(nobody) as client:
        found = await why(client, load, workload)
    assert found.code == "ImagePullBackOff"
    assert "cannot be pulled" in found.message
    unread = "\n".join(found.unread)
    for kind in (
        "pods",
        "jobs",
        "persistentvolumeclaims",
        "workloads",
        "localqueues",
        "clusterqueues",
        "leases",
    ):
        assert f'cannot list resource "{kind}"' in unread or f'cannot get resource "{kind}"' in unread


async def test_the_command_answers_quickly_in_all_its_forms(
    operator: Start, admin: Any, lab: Any, control_plane: Any
) -> None:
    """A page and JSON; a name that is not there is exit code 3."""
    await operator(plugins=PLUGINS)
    await admin.status("READY")
    await lab.submit("done")
    await lab.reaches("done", "COMPLETE")
    program = str(Path(sys.executable).with_name("kaiwo"))
    environment = {**os.environ, "KUBECONFIG": str(control_plane.kubeconfig)}

    def kaiwo(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [program, "-n", lab.namespace, "why", *arguments],
            env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip

    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    page = await asyncio.to_thread(kaiwo, "done")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert page.returncode == 0, page.stderr
    assert page.stdout.startswith(f"job/done in namespace {lab.namespace}: COMPLETE\n\n✔ Completed: ")
    assert after.ru_utime - before.ru_utime < 2.0  # five times the target: this machine may be busy
    data = json.loads((await asyncio.to_thread(kaiwo, "job/done", "-o", "json")).stdout)
    assert (data["code"], data["state"], data["chain"][0]["kind"]) == ("Completed", "ok", "KaiwoJob")
    absent = await asyncio.to_thread(kaiwo, "nosuch")
    assert (absent.returncode, absent.stdout) == (3, "")


async def test_a_deleted_workload_is_no_crash(ask: Questions, lab: Any, crds: None) -> None:
    """Between finding it and reading about it, a workload may be gone."""
    assert crds is None
    created = await lab.submit("gone")
    await lab.client.delete(KAIWO_JOB, lab.namespace, "gone")
    with pytest.raises(NotFound):
        await ask.once("gone")
    assert (await why(lab.client, load, created)).chain
