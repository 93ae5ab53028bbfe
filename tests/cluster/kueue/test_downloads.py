"""Download Jobs that Kueue takes, although Kaiwo queues none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.api.crds import KAIWO_JOB
from kaiwo.client.why import why
from kaiwo.engine.resource import JOB
from kaiwo.plugin.loader import load
from kaiwo_kueue.kinds import LOCAL_QUEUE, WORKLOAD

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

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


async def test_a_download_that_kueue_holds_without_a_queue_names_the_setting(
    operator: Start, admin: Any, lab: Any, quota: Callable[..., Object]
) -> None:
    """As with manageJobsWithoutQueueName: the Job is suspended, and its Workload names no queue."""
    await admin.configure(clusterQueues=[{"name": "kaiwo", "spec": quota()}], resourceFlavors=FLAVORS)
    await operator(plugins=PLUGINS)
    await admin.status("READY")
    await lab.submit("train", storage=lab.cloning(), pods={"kaiwo-sandbox/forever": "true"})
    await lab.reaches("train", "PENDING", reason="Downloading")
    job = await admin.client.get(JOB, lab.namespace, "train-download")
    await admin.client.merge_patch(JOB, lab.namespace, "train-download", {"spec": {"suspend": True}})
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train-download", "controller": True}
    metadata = {
        "name": "job-train-download",
        "namespace": lab.namespace,
        "labels": {"kueue.x-k8s.io/job-uid": job["metadata"]["uid"]},
        "ownerReferences": [{**owner, "uid": job["metadata"]["uid"]}],
    }
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    spec = {"podSets": [{"name": "main", "count": 1, "template": template}]}
    made = {"apiVersion": WORKLOAD.api_version, "kind": "Workload", "metadata": metadata, "spec": spec}
    await admin.client.create(WORKLOAD, made)
    text = "Kueue holds Job train-download: it names no queue, and manageJobsWithoutQueueName is true"
    held = await lab.says("train", text)
    assert (held["status"], held["reason"]) == ("PENDING", "Suspended")
    verdict = await why(admin.client, load, await admin.client.get(KAIWO_JOB, lab.namespace, "train"))
    assert verdict.code == "Suspended"
    assert verdict.message.startswith(text)
