"""GPU time that one process counted is continued by the next one, from a ConfigMap in the API server."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.api.crds import WORKLOADS
from kaiwo.api.kaiwoconfig import GPU_TIME
from kaiwo.engine.resource import CONFIG_MAP
from kaiwo.engine.store import Cache
from kaiwo.engine.timestamps import format_time
from kaiwo.engine.wire import encode
from kaiwo.host.metrics.figures import figures_of
from kaiwo.host.metrics.gpu_time import GpuTime
from kaiwo.host.metrics.gpu_time_record import GpuTimeRecord
from kaiwo.testing import job

if TYPE_CHECKING:
    from kaiwo.engine.client import Client

pytestmark = pytest.mark.cluster

START = datetime(2026, 1, 1, tzinfo=UTC)


class Process:
    """What one process knows and counts; its clock is set by the test."""

    def __init__(self, client: Client, namespace: str) -> None:
        self.seconds = 0.0
        self.cache = Cache()
        self.manager: Any = SimpleNamespace(client=client, cache=self.cache, leading=True)
        for kind in WORKLOADS.values():
            self.cache.register(kind).replace([], "1")
        self.gpu_time = GpuTime("queue", lambda: self.seconds)
        self.record = GpuTimeRecord(
            self.manager, self.gpu_time, namespace, "kaiwo-test",
            now=lambda: START + timedelta(seconds=self.seconds), interval=60.0,
        )  # fmt: skip

    def holds(self, name: str, gpus: int) -> None:
        """Add a running job that holds GPUs since the start."""
        obj = job(name)
        obj["metadata"] |= {"uid": name, "resourceVersion": "2", "creationTimestamp": format_time(START)}
        allocation = {"pods": 1, "gpusPerReplica": gpus, "queue": "q"}
        obj["status"] = {"status": "RUNNING", "startTime": format_time(START), "allocation": allocation}
        store = self.cache.store(WORKLOADS["KaiwoJob"])
        assert store is not None
        entry = store.decode(encode(obj))
        store.observe("ADDED", entry)
        self.gpu_time.add(figures_of(entry))

    @property
    def reserved(self) -> float:
        """GPU-seconds so far."""
        return sum(account.seconds[0] for _, account in self.gpu_time.accounts())


async def test_the_next_process_continues_and_adds_the_time_between(client: Client, namespace: str) -> None:
    """Deleted workloads count up to the last record, existing ones also while no process ran."""
    first = Process(client, namespace)
    await first.record.step()
    first.holds("deleted-later", 2)
    first.holds("stays", 4)
    first.seconds = 100
    await first.record.step()
    assert first.reserved == 600

    second = Process(client, namespace)
    second.holds("stays", 4)
    second.seconds = 400
    await second.record.step()
    assert second.reserved == 600 + 4 * 300
    second.seconds = 410
    assert second.reserved == 600 + 4 * 310


async def test_nothing_is_written_while_nothing_is_held(client: Client, namespace: str) -> None:
    """A cluster without GPU workloads has no such writes."""
    process = Process(client, namespace)
    await process.record.step()
    process.holds("job", 1)
    for seconds in (100.0, 200.0):
        process.seconds = seconds
        await process.record.step()
    version = (await client.get(CONFIG_MAP, namespace, GPU_TIME))["metadata"]["resourceVersion"]
    idle = Process(client, namespace)
    for seconds in (200.0, 300.0, 400.0, 500.0):
        idle.seconds = seconds
        await idle.record.step()
    found = await client.get(CONFIG_MAP, namespace, GPU_TIME)
    assert found["metadata"]["resourceVersion"] == version


async def test_a_process_that_no_longer_leads_counts_nothing(client: Client, namespace: str) -> None:
    """Two processes do not count the same time."""
    process = Process(client, namespace)
    await process.record.step()
    process.manager.leading = False
    await process.record.step()
    process.holds("job", 1)
    process.seconds = 100
    assert process.reserved == 0
    assert not process.gpu_time.counting


async def test_a_record_that_somebody_made_unreadable_counts_as_none(client: Client, namespace: str) -> None:
    """The operator counts from now on."""
    body = {
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": GPU_TIME, "namespace": namespace},
        "data": {"gpu-time.json": '{"time": 7, "seconds": "no"'},
    }  # fmt: skip
    await client.create(CONFIG_MAP, body)
    process = Process(client, namespace)
    await process.record.step()
    assert process.gpu_time.counting
    assert process.reserved == 0
