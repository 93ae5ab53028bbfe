"""The operator's webhooks as a user meets them: refusals, outages, and what they leave alone."""

from __future__ import annotations

import asyncio
import socket
import time
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.api.crds import KAIWO_CONFIG, KAIWO_JOB
from kaiwo.engine.errors import ApiError, Invalid, NotFound
from kaiwo.engine.resource import JOB
from kaiwo.testing.operator import until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from kaiwo.engine.resource import Object
    from kaiwo.testing.fault_proxy import FaultProxy
    from kaiwo.testing.operator import OperatorProcess

    Start = Callable[..., Awaitable[OperatorProcess]]

pytestmark = pytest.mark.cluster

PLUGINS = "batch_job,gpu_amd"

BAD: dict[str, Any] = {"job": {"spec": {"template": []}}}
"""A spec that the CRD accepts and no operator can use."""


@pytest.fixture
async def serve(hooks: Any, operator: Start) -> Callable[..., Awaitable[OperatorProcess]]:
    """A function that starts an operator with webhooks and waits until it serves them."""

    async def start(**more: Any) -> OperatorProcess:
        started: OperatorProcess = await hooks.operator(operator, more.pop("env", {}), **more)
        return started

    return start


def job(namespace: str, name: str, *, user: str = "", **spec: Any) -> Object:
    """A KaiwoJob."""
    return {
        "apiVersion": KAIWO_JOB.api_version,
        "kind": "KaiwoJob",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"image": "registry.example/train:1", **({"user": user} if user else {}), **spec},
    }


def gpu_job(namespace: str, name: str, *, gpus: int = 1, init: bool = False) -> Object:
    """A plain Job."""
    container: Object = {"name": "main", "image": "registry.example/train:1"}
    asking = {**container, "name": "asking", "resources": {"limits": {"amd.com/gpu": str(gpus)}}}
    pod: Object = {"restartPolicy": "Never", "containers": [container]}
    if gpus:
        pod.update({"initContainers": [asking]} if init else {"containers": [asking]})
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"template": {"spec": pod}},
    }


def reviews(process: OperatorProcess) -> float:
    """How many requests reached the operator."""
    return sum(n for key, n in process.metrics().items() if key.startswith("kaiwo_webhook_reviews_total"))


async def test_a_bad_workload_is_refused_with_the_operators_words(
    hooks: Any, serve: Start, account: FaultProxy, tmp_path: Path
) -> None:
    """The field, the value and what is expected; under the rendered rights, of which none is missing."""
    hooks.register(fail=True)
    process = await serve(kubeconfig=account.write_kubeconfig(tmp_path / "kubeconfig"))
    with pytest.raises(ApiError, match=r"denied the request: spec\.job\.spec\.template: ") as refused:
        await hooks.client.create(KAIWO_JOB, job(hooks.workloads, "bad", **BAD, gpus=1))
    assert "workloads.kaiwo.silogen.ai" in str(refused.value)
    with pytest.raises(NotFound):
        await hooks.client.get(KAIWO_JOB, hooks.workloads, "bad")
    await hooks.client.create(KAIWO_JOB, job(hooks.workloads, "good"))
    await until(hooks.client, JOB, hooks.workloads, "good", lambda found: found is not None)
    metrics = await asyncio.to_thread(process.metrics)
    counted = {key: n for key, n in metrics.items() if key.startswith("kaiwo_webhook_reviews_total")}
    assert counted['kaiwo_webhook_reviews_total{path="/validate/workloads",result="refused"}'] == 1
    assert counted['kaiwo_webhook_reviews_total{path="/validate/workloads",result="allowed"}'] >= 1
    assert metrics["kaiwo_webhook_certificate_expiry_timestamp_seconds"] > time.time()

    def served(config: Object | None) -> bool:
        # An installation beside another one has conditions of its own.
        conditions = (config or {}).get("status", {}).get("conditions", [])
        own = {"WebhooksServed", f"{hooks.namespace}/WebhooksServed"}
        return any(c["type"] in own and c["reason"] == "Served" for c in conditions)

    await until(hooks.client, KAIWO_CONFIG, None, "kaiwo", served)
    assert (await asyncio.to_thread(process.readyz))[1]["checks"]["webhooks"] == "ok"
    assert await asyncio.to_thread(process.stop) == 0
    assert [record for record in account.records if record.code in (401, 403)] == []


async def test_without_an_operator_everything_but_new_gpu_jobs_is_written(hooks: Any, serve: Start) -> None:
    """An outage harms nobody who does not ask for GPUs past Kaiwo; it ends with the operator's return."""
    hooks.register(only="")
    process = await serve(env={"ENFORCE_KAIWO_ON_GPU_WORKLOADS": "true"})
    await asyncio.to_thread(process.kill)
    await hooks.client.create(KAIWO_JOB, job(hooks.workloads, "workload"))
    await hooks.client.create(JOB, gpu_job(hooks.workloads, "plain", gpus=0))
    for name, init in (("gpus", False), ("gpus-of-init", True)):
        with pytest.raises(ApiError, match=r"failed calling webhook \"gpu-jobs\.kaiwo\.silogen\.ai\""):
            await hooks.client.create(JOB, gpu_job(hooks.workloads, name, init=init))
    begun = len(process.lines)
    await asyncio.to_thread(process.start)
    await asyncio.to_thread(process.wait_log, "webhooks are served", since=begun)
    made = await hooks.client.create(JOB, gpu_job(hooks.workloads, "gpus"))
    assert made["metadata"]["labels"]["kaiwo.silogen.ai/managed"] == "true"


async def test_a_frozen_operator_delays_a_workload_by_five_seconds_at_most(hooks: Any, serve: Start) -> None:
    """The API server gives up and writes it."""
    hooks.register()
    process = await serve()
    before = reviews(process)
    await hooks.create()
    assert reviews(process) > before
    process.freeze()
    began = time.monotonic()
    await hooks.client.create(KAIWO_JOB, job(hooks.workloads, "patient"))
    took = time.monotonic() - began
    process.thaw()
    assert 4.5 < took < 9


async def test_the_namespaces_of_cluster_and_operator_are_not_reviewed(hooks: Any, serve: Start) -> None:
    """What is bad there is the controllers' to say."""
    hooks.register(fail=True)
    process = await serve()
    before = reviews(process)
    for namespace in ("kube-system", hooks.namespace, "default"):
        await hooks.client.create(KAIWO_JOB, job(namespace, "bad", **BAD), dry_run=True)
    assert reviews(process) == before
    with pytest.raises(ApiError, match="denied the request"):
        await hooks.client.create(KAIWO_JOB, job(hooks.workloads, "bad", **BAD), dry_run=True)
    assert reviews(process) == before + 1


async def test_a_dry_run_leaves_nothing(hooks: Any, serve: Start) -> None:
    """It is reviewed like any other write, and no object is there afterwards, of any kind."""
    hooks.register(only="", fail=True)
    await serve(env={"ENFORCE_KAIWO_ON_GPU_WORKLOADS": "true", "KAIWO_IDENTITY": "set"})
    tried = await hooks.client.create(
        KAIWO_JOB, job(hooks.workloads, "tried", user="somebody@example.com"), dry_run=True
    )
    assert tried["spec"]["user"] == "kaiwo-sandbox-admin"
    await hooks.client.create(JOB, gpu_job(hooks.workloads, "tried"), dry_run=True)
    with pytest.raises(Invalid):
        await hooks.client.create(
            KAIWO_JOB, {**job(hooks.workloads, "x"), "spec": {"gpus": -1}}, dry_run=True
        )
    await asyncio.sleep(2)
    for kind in (KAIWO_JOB, JOB):
        assert [obj async for obj in hooks.client.list(kind, hooks.workloads)] == []


async def test_an_address_in_use_is_said_and_taken_when_it_is_free(hooks: Any, operator: Start) -> None:
    """The operator works without webhooks meanwhile; /readyz says what is missing."""
    hooks.register()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        process = await operator(
            plugins=PLUGINS,
            env={
                "KAIWO_WEBHOOKS": "true",
                "KAIWO_WEBHOOK_ADDRESS": address,
                "KAIWO_OPERATOR_NAMESPACE": hooks.namespace,
            },
        )
        await asyncio.to_thread(process.wait_log, "webhooks: AddressUnusable")
        code, detail = await asyncio.to_thread(process.readyz)
        assert code == 503
        assert "AddressUnusable" in detail["checks"]["webhooks"]
        await hooks.client.create(KAIWO_JOB, job(hooks.workloads, "runs"))
        await until(hooks.client, JOB, hooks.workloads, "runs", lambda found: found is not None)
    await asyncio.to_thread(process.wait_log, "webhooks are served")
    assert (await asyncio.to_thread(process.readyz))[0] == 200
