"""Names that are taken: by somebody else, and by the previous run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.api.crds import KAIWO_JOB
from kaiwo.engine.resource import JOB
from kaiwo.testing.operator import until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kaiwo.engine.resource import Object
    from kaiwo.testing.operator import OperatorProcess

    Start = Callable[..., Awaitable[OperatorProcess]]

pytestmark = pytest.mark.cluster


def batch_job(name: str, namespace: str, **metadata: Any) -> Object:
    """A Job of somebody else that never ends."""
    pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "registry.example/other:1"}]}
    annotations = {"kaiwo-sandbox/forever": "true"}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace, **metadata},
        "spec": {"template": {"metadata": {"annotations": annotations}, "spec": pod}},
    }


async def test_a_job_of_somebody_else_is_named_and_not_touched(operator: Start, lab: Any) -> None:
    """The workload waits with the reason; it starts by itself when the name is free."""
    theirs = await lab.client.create(JOB, batch_job("mine", lab.namespace))
    await operator()
    await lab.submit("mine")
    status = await lab.reaches("mine", "ERROR", "PENDING", reason="NameConflict")
    assert "mine" in status["message"]
    live = await lab.client.get(JOB, lab.namespace, "mine")
    assert live["metadata"]["uid"] == theirs["metadata"]["uid"]
    assert live["metadata"].get("labels") == theirs["metadata"].get("labels")

    await lab.client.delete(JOB, lab.namespace, "mine", propagation="Background")
    await lab.reaches("mine", "COMPLETE")


async def test_a_run_waits_for_the_end_of_the_previous_run_of_its_name(operator: Start, lab: Any) -> None:
    """Delete and submit again at once: the old Job's last moments are waited for, not shared."""
    await operator()
    await lab.submit("rerun", pods={"kaiwo-sandbox/forever": "true"})
    await lab.reaches("rerun", "RUNNING")
    await lab.client.merge_patch(
        JOB, lab.namespace, "rerun", {"metadata": {"finalizers": ["example.com/slow"]}}
    )
    [old] = await lab.jobs()
    await lab.client.delete(KAIWO_JOB, lab.namespace, "rerun", propagation="Background")
    await until(lab.client, KAIWO_JOB, lab.namespace, "rerun", lambda obj: obj is None)
    await lab.submit("rerun")

    await lab.reaches("rerun", "PENDING", reason="PreviousRunDeleting")
    await until(
        lab.client, JOB, lab.namespace, "rerun",
        lambda obj: bool(obj and obj["metadata"].get("deletionTimestamp")),
    )  # fmt: skip
    await lab.client.merge_patch(JOB, lab.namespace, "rerun", {"metadata": {"finalizers": None}})
    await lab.reaches("rerun", "COMPLETE")
    [new] = await lab.jobs()
    assert new["metadata"]["uid"] != old["metadata"]["uid"]
