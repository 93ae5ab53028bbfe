"""Download Jobs that Kueue takes, although Kaiwo queues none."""

from __future__ import annotations

import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from kaiwo.engine.resource import JOB
from kaiwo_kueue.kinds import LOCAL_QUEUE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from kaiwo.engine.resource import Object
    from kaiwo.testing.operator import OperatorProcess

    Start = Callable[..., Awaitable[OperatorProcess]]

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("pristine")]

PLUGINS = "batch_job,gpu_amd,gpu_nvidia,kueue,node_pools,storage_s3_gcs_azure_git_hf"
FLAVORS = [{"name": "f"}]


async def test_a_download_in_a_default_queue_waits_with_the_words_of_kueue(
    operator: Start, admin: Any, lab: Any, quota: Callable[..., Object]
) -> None:
    """Kueue labels Jobs without a queue in a namespace with the LocalQueue ``default``."""
    queues = [{"name": "kaiwo", "spec": quota()}, {"name": "small", "spec": quota(cpu="0")}]
    await admin.configure(clusterQueues=queues, resourceFlavors=FLAVORS)
    await operator(plugins=PLUGINS)
    await admin.status("READY")
    metadata = {"name": "default", "namespace": lab.namespace}
    local = {"apiVersion": LOCAL_QUEUE.api_version, "kind": "LocalQueue", "metadata": metadata}
    await admin.client.create(LOCAL_QUEUE, {**local, "spec": {"clusterQueue": "small"}})
    await lab.submit("train", storage=lab.cloning())
    waits = await lab.reaches("train", "PENDING", reason="NoQuota")
    assert waits["message"].startswith("download Job train-download: queue small ")


@contextmanager
def everything_queued(control_plane: Any) -> Iterator[None]:
    """Kueue runs with ``manageJobsWithoutQueueName`` while this lasts."""
    file = control_plane.directory / "kueue.yaml"
    before = file.read_text()
    file.write_text(yaml.safe_dump({**yaml.safe_load(before), "manageJobsWithoutQueueName": True}))
    restart_kueue(control_plane)
    try:
        yield
    finally:
        file.write_text(before)
        restart_kueue(control_plane)


def restart_kueue(control_plane: Any) -> None:
    """Let Kueue read its configuration again, and wait until it is ready."""
    from kaiwo_sandbox import process
    from kaiwo_sandbox.addons import probes

    kueue = control_plane.program("kueue")
    command, variables = (
        Path(f"/proc/{kueue.pid}/{file}").read_text().split("\0")[:-1] for file in ("cmdline", "environ")
    )
    kueue.kill()
    environment = dict(variable.split("=", 1) for variable in variables)
    process.start("kueue", command, directory=control_plane.directory, environment=environment)
    health = yaml.safe_load((control_plane.directory / "kueue.yaml").read_text())["health"]
    port = int(health["healthProbeBindAddress"].rpartition(":")[2])
    end = time.monotonic() + 60
    while not probes.is_ready(port, "/readyz"):
        assert time.monotonic() < end, process.log_tail(control_plane.directory, "kueue")
        time.sleep(0.2)


@pytest.mark.matrix
async def test_a_download_takes_the_workloads_queue_where_kueue_starts_nothing_without_one(
    operator: Start, admin: Any, lab: Any, control_plane: Any
) -> None:
    """manageJobsWithoutQueueName: Kueue suspends each download Job, and nobody has to label it."""
    with everything_queued(control_plane):
        await operator(plugins=PLUGINS)
        await admin.status("READY")
        await lab.submit("train", storage=lab.cloning())
        await lab.reaches("train", "COMPLETE")
        download = await admin.client.get(JOB, lab.namespace, "train-download")
    assert download["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "kaiwo"
    resumed = [item for item in download["status"]["conditions"] if item["type"] == "Suspended"]
    assert [item["reason"] for item in resumed] == ["JobResumed"]
