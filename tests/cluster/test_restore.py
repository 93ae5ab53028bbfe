"""Restoring saved workloads in a cluster, as docs/backup.md describes it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.api.crds import KAIWO_JOB
from kaiwo.engine.resource import JOB
from kaiwo.testing.operator import until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Object
    from kaiwo.testing.operator import OperatorProcess

    Start = Callable[..., Awaitable[OperatorProcess]]

pytestmark = pytest.mark.cluster

OF_THE_OLD_CLUSTER = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields")


async def saved_and_deleted(operator: Start, client: Client, lab: Any) -> Object:
    """A completed job as it was saved; it is gone from the cluster with its Job, and no operator runs."""
    first = await operator()
    await lab.submit("train")
    await lab.reaches("train", "COMPLETE")
    await asyncio.to_thread(first.stop)
    saved = await client.get(KAIWO_JOB, lab.namespace, "train")
    await client.delete(KAIWO_JOB, lab.namespace, "train", propagation="Foreground")
    await until(client, KAIWO_JOB, lab.namespace, "train", lambda obj: obj is None)
    assert await lab.jobs() == []
    return saved


async def restore(client: Client, saved: Object) -> None:
    """Create the object again without what the old API server gave it; a status is no part of that."""
    metadata = {key: value for key, value in saved["metadata"].items() if key not in OF_THE_OLD_CLUSTER}
    await client.create(KAIWO_JOB, {**saved, "metadata": metadata})


async def test_a_finished_job_that_is_restored_with_its_status_does_not_run_again(
    operator: Start, client: Client, lab: Any
) -> None:
    """The status is written before the operator starts; results and times stay those of the first run."""
    saved = await saved_and_deleted(operator, client, lab)
    await restore(client, saved)
    await client.merge_patch(
        KAIWO_JOB, lab.namespace, "train", {"status": saved["status"]}, subresource="status"
    )
    await operator()
    await lab.submit("later")
    await lab.reaches("later", "COMPLETE")
    restored = await client.get(KAIWO_JOB, lab.namespace, "train")
    assert restored["status"]["status"] == "COMPLETE"
    assert restored["status"]["completionTime"] == saved["status"]["completionTime"]
    assert [job["metadata"]["name"] for job in await lab.jobs()] == ["later"]


async def test_a_job_that_is_restored_without_a_status_runs(
    operator: Start, client: Client, lab: Any
) -> None:
    """So what had not finished starts again from its volumes, under another uid."""
    saved = await saved_and_deleted(operator, client, lab)
    await restore(client, saved)
    await operator()
    await lab.reaches("train", "COMPLETE")
    (job,) = [obj async for obj in client.list(JOB, lab.namespace)]
    assert job["metadata"]["ownerReferences"][0]["uid"] != saved["metadata"]["uid"]
