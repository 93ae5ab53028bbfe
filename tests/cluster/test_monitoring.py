"""Monitoring of GPUs, from a fake exporter to the status and the end of a workload."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from kaiwo.api.crds import KAIWO_CONFIG, KAIWO_JOB
from kaiwo.engine.resource import JOB, POD
from kaiwo.testing.exporter import Exporter, lines, server_tls
from kaiwo.testing.operator import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Object
    from kaiwo.testing.operator import OperatorProcess

    Start = Callable[..., Awaitable[OperatorProcess]]

pytestmark = pytest.mark.cluster

UNDERUSE = "ResourceUnderutilization"


@pytest.fixture
async def exporter(client: Client) -> AsyncIterator[Exporter]:
    """A fake exporter. The KaiwoConfig is the whole cluster's, so none is left behind."""
    async with Exporter() as made:
        yield made
    for config in [config async for config in client.list(KAIWO_CONFIG)]:
        await client.delete(KAIWO_CONFIG, None, config["metadata"]["name"])


async def configure(client: Client, namespace: str, **monitoring: Any) -> None:
    """Set the configuration of monitoring."""
    config = {
        "apiVersion": KAIWO_CONFIG.api_version,
        "kind": "KaiwoConfig",
        "metadata": {"name": "kaiwo"},
        "spec": {"resourceMonitoring": {"targetNamespaces": [namespace], **monitoring}},
    }
    await client.apply(KAIWO_CONFIG, config, field_manager="test")


async def use(lab: Any, exporter: Exporter, percent: float, *names: str) -> None:
    """Let the exporter say that the GPUs of all pods of some jobs are used like this."""
    pods = [pod async for pod in lab.client.list(POD, lab.namespace)]
    exporter.body = lines(
        {
            (lab.namespace, pod["metadata"]["name"]): [percent] * 2
            for pod in pods
            if pod["metadata"]["labels"]["kaiwo.silogen.ai/name"] in names
        }
    )


def says(condition: Any, status: str) -> Callable[[Object | None], bool]:
    """Whether the condition has a status."""
    return lambda obj: condition((obj or {}).get("status", {}), UNDERUSE).get("status") == status


async def test_idle_gpus_are_reported_and_ended_and_busy_ones_are_left_alone(
    operator: Start, lab: Any, condition: Any, exporter: Exporter, client: Client
) -> None:
    """Over a restart of the operator, which neither restarts the time nor writes anything."""
    await configure(client, lab.namespace)
    settings = {
        "RESOURCE_MONITORING_ENABLED": "true",
        "RESOURCE_MONITORING_METRICS_ENDPOINT": exporter.url,
        "RESOURCE_MONITORING_POLLING_INTERVAL": "1s",
    }
    process = await operator(env=settings, leader_election=True)
    for name in ("idle", "wakes"):
        await lab.submit(name, gpus=2, pods={"kaiwo-sandbox/forever": "true"})
        await lab.reaches(name, "RUNNING")
    await use(lab, exporter, 0, "idle", "wakes")
    found = {
        name: await until(client, KAIWO_JOB, lab.namespace, name, says(condition, "True"))
        for name in ("idle", "wakes")
    }
    first: Any = found["idle"]
    assert condition(first["status"], UNDERUSE)["reason"] == "GpuUtilizationLow"
    assert first["status"]["utilization"].items() >= {"gpus": 2, "percent": 0, "mostGpusUsed": 0}.items()

    await asyncio.to_thread(process.close)
    process = await operator(env=settings, leader_election=True)
    scraped = len(exporter.requests)
    while len(exporter.requests) < scraped + 5:
        await asyncio.sleep(0.2)
    now = await client.get(KAIWO_JOB, lab.namespace, "idle")
    assert now["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]

    pods = [pod async for pod in client.list(POD, lab.namespace)]
    busy = {
        (lab.namespace, pod["metadata"]["name"]): [80.0 * (name == "wakes")] * 2
        for pod in pods
        if (name := pod["metadata"]["labels"]["kaiwo.silogen.ai/name"])
    }
    exporter.body = lines(busy)
    await until(client, KAIWO_JOB, lab.namespace, "wakes", says(condition, "False"))
    await configure(client, lab.namespace, terminateUnderutilized=True, terminateUnderutilizedAfter="4s")
    status = await lab.reaches("idle", "TERMINATED")

    assert status["reason"] == "GpuUtilizationLow"
    early = condition(status, "WorkloadTerminatedEarly")
    assert (early["status"], early["reason"]) == ("True", "GpuUtilizationLow")
    assert status["termination"]["rule"] == "Underutilized"
    assert status["utilization"]["terminationTime"]
    events = [reason for _, reason, _ in await lab.events("idle")]
    assert events.count("TerminationWarning") == 1
    assert events.count("WorkloadTerminating") == 1
    assert [job["metadata"]["name"] async for job in client.list(JOB, lab.namespace)] == ["wakes"]
    assert (await client.get(KAIWO_JOB, lab.namespace, "wakes"))["status"]["status"] == "RUNNING"


async def test_an_endpoint_that_fails_is_reported_once_and_ends_nothing(
    operator: Start, lab: Any, condition: Any, exporter: Exporter, client: Client
) -> None:
    """In a condition of the KaiwoConfig; workloads go on being reconciled."""
    exporter.status = 500
    await configure(client, lab.namespace, terminateUnderutilized=True, terminateUnderutilizedAfter="1s")
    await operator(
        env={
            "RESOURCE_MONITORING_ENABLED": "true",
            "RESOURCE_MONITORING_METRICS_ENDPOINT": exporter.url,
            "RESOURCE_MONITORING_POLLING_INTERVAL": "1s",
        }
    )
    await lab.submit("job", gpus=2, pods={"kaiwo-sandbox/forever": "true"})
    kind = "default/ResourceMonitored"  # of the namespace of the operator

    def failed(obj: Object | None) -> bool:
        return condition((obj or {}).get("status", {}), kind).get("reason") == "EndpointFailed"

    config = await until(client, KAIWO_CONFIG, None, "kaiwo", failed)
    assert config is not None
    said = condition(config["status"], kind)
    assert (said["status"], "HTTP 500" in said["message"]) == ("False", True)
    status = await lab.reaches("job", "RUNNING")
    assert condition(status, UNDERUSE) == {}

    exporter.status = 200

    def answers(obj: Object | None) -> bool:
        return condition((obj or {}).get("status", {}), kind).get("reason") == "NoSamples"

    await until(client, KAIWO_CONFIG, None, "kaiwo", answers)


async def test_a_bearer_token_is_read_from_its_file_and_shown_nowhere(
    operator: Start, condition: Any, client: Client, exporter: Exporter, tmp_path: Path
) -> None:
    """A token that is refused is reported with its file; one that replaces it is used without a restart."""
    del exporter  # this one has no TLS
    context, authorities = server_tls(tmp_path)
    token, ca = tmp_path / "token", tmp_path / "ca.crt"
    token.write_text("canary-of-the-wrong-token")
    ca.write_bytes(authorities)

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.headers.get("Authorization") != "Bearer canary-of-the-right-token":
            raise web.HTTPForbidden
        return web.Response(text="# no sample")

    def says_why(reason: str) -> Callable[[Object | None], bool]:
        kind = "default/ResourceMonitored"  # of the namespace of the operator
        return lambda obj: condition((obj or {}).get("status", {}), kind).get("reason") == reason

    async with Exporter(context) as guarded:
        guarded.answer = answer
        process = await operator(
            env={
                "RESOURCE_MONITORING_ENABLED": "true",
                "RESOURCE_MONITORING_METRICS_ENDPOINT": guarded.url,
                "RESOURCE_MONITORING_POLLING_INTERVAL": "1s",
                "RESOURCE_MONITORING_TOKEN_FILE": str(token),
                "RESOURCE_MONITORING_CA_FILE": str(ca),
            }
        )
        config = await until(client, KAIWO_CONFIG, None, "kaiwo", says_why("EndpointFailed"))
        assert f"HTTP 403: the token in {token} has no right to it" in str(config)
        assert guarded.authorization
        token.write_text("canary-of-the-right-token")
        accepted = await until(client, KAIWO_CONFIG, None, "kaiwo", says_why("SamplesRead"))
    assert "canary" not in f"{config} {accepted} {process.log} {await asyncio.to_thread(process.readyz)}"
