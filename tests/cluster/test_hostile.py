"""Objects that a user may create and that are too deep or too large harm nobody else."""

from __future__ import annotations

import asyncio
import operator
import os
import time
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
import msgspec
import pytest

from kaiwo.api.crds import KAIWO_JOB
from kaiwo.engine.errors import Invalid
from kaiwo.engine.resource import JOB, LEASE
from kaiwo.engine.timestamps import parse_time
from kaiwo.engine.transport import HttpRequest
from kaiwo.testing.operator import OperatorProcess, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    Start = Callable[..., Awaitable[OperatorProcess]]

pytestmark = [
    pytest.mark.cluster,
    # Objects of a megabyte are what these tests are about.
    pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning"),
]

LEVELS = 1_200
NESTED = b'{"spec":' * LEVELS + b"{}" + b"}" * LEVELS


async def create(lab: Any, name: str, **spec: Any) -> None:
    """Create a KaiwoJob; neither it nor the answer is decoded."""
    path, body = KAIWO_JOB.path(lab.namespace), msgspec.json.encode(lab.job(name, **spec))
    await lab.client._transport.send(
        HttpRequest("create", "kaiwojobs.kaiwo.silogen.ai", "POST", path, body=body)
    )


async def create_nested(lab: Any, name: str) -> None:
    """Create a KaiwoJob whose embedded Job is nested more deeply than a decoder goes."""
    await create(lab, name, job=msgspec.Raw(NESTED))


@pytest.mark.parametrize("first", [True, False], ids=["while it starts", "while it runs"])
async def test_an_object_that_is_nested_too_deeply_harms_only_itself(
    operator: Start, lab: Any, *, first: bool
) -> None:
    """It gets the status ERROR, whose Event names the field, and the job beside it completes."""
    if first:
        await create_nested(lab, "deep")
    process = await operator()
    if not first:
        await create_nested(lab, "deep")
    await lab.submit("good")
    await lab.reaches("good", "COMPLETE")
    assert "spec.job is nested more than 100 levels deep" in await read_error(lab, "deep")
    await asyncio.to_thread(process.wait_log, "passed over")


async def read_error(lab: Any, name: str) -> str:
    """Wait for the Event of the status ERROR; its message. The object itself is too deep for a client."""
    for _ in range(100):
        for type_, reason, message in await lab.events(name):
            if (type_, reason) == ("Warning", "WorkloadError"):
                return str(message)
        await asyncio.sleep(0.1)
    raise AssertionError(f"no Event reports the status ERROR of {name}")


def embedded(**pod: Any) -> Any:
    """An embedded Job with that pod spec."""
    return {"spec": {"template": {"spec": pod}}}


def downloading(buckets: int, files: int) -> Any:
    """Storage into which files of buckets are downloaded, listed one by one."""
    listed = [{"path": f"p{number}", "targetPath": f"t{number}"} for number in range(files)]
    found = [{"name": f"b{number}", "files": listed} for number in range(buckets)]
    source = {"endpointUrl": "https://s3.example", "buckets": found}
    return {"storageEnabled": True, "data": {"storageSize": "1Gi", "download": {"s3": [source]}}}


SECRETS = [{"name": f"v{number}", "secretName": "s", "mountPath": f"/m{number}"} for number in range(1000)]
TOO_LARGE: dict[str, dict[str, Any]] = {
    "tolerations": {"job": embedded(tolerations=[{"key": f"k{number}"} for number in range(16_000)])},
    "mounts": {"secretVolumes": SECRETS, "job": embedded(containers=[{"name": "c"}] * 3000)},
    "maps": {"job": embedded(nothing=[{"": 0}] * 55_000)},
    "lists": {"job": embedded(nothing=[[]] * 60_000)},
}
"""Specs that the API server takes: 180 to 440 KB, so that a hundred do not occupy it for minutes."""

ATTACK = {"tolerations": 15, "mounts": 15, "maps": 5, "lists": 5}

LARGEST = {
    **TOO_LARGE,
    "files": {"storage": downloading(3, 10_000)},
    "containers": {"job": embedded(containers=[{"name": "c"}] * 100_000)},
    "most-maps": {"job": embedded(nothing=[{"": 0}] * 170_000)},
}
"""Also some of 1.2 to 1.4 MB, the largest that the API server takes."""

LEASE_DEADLINE = 7.0  # seconds; without a renewal for so long the operator stops writing
STALL = 5.0  # seconds of the operator's event loop, on a machine that is busy with API servers
STALL_CPU = 0.5  # seconds of the operator's CPU until it answers a probe, however busy the machine is
NEXT_JOB = 60.0
"""Seconds, nearly all of them the API server's: any small write takes it a second or more meanwhile."""
NEXT_JOB_CPU = 2.0
"""Seconds of the operator's CPU until then, also for what it does while it waits for the API server."""


@pytest.fixture
async def everywhere(control_plane: Any, crds: None, namespace: str) -> AsyncIterator[OperatorProcess]:
    """An operator of all namespaces that leads by a Lease in the namespace of the test."""
    del crds
    process = OperatorProcess(
        kubeconfig=control_plane.kubeconfig,
        lease_name="hostile",
        env={"KAIWO_PLUGINS_DISABLED": "kueue,node_pools", "KAIWO_OPERATOR_NAMESPACE": namespace},
    ).start()
    await asyncio.to_thread(process.wait_ready)
    yield process
    await asyncio.to_thread(process.close)


async def renewals(client: Any, namespace: str, times: list[float]) -> None:
    """Note when the Lease is renewed, by this machine's clock."""
    lease = await client.get(LEASE, namespace, "hostile")
    version = lease["metadata"]["resourceVersion"]
    async with aclosing(client.watch(LEASE, namespace, resource_version=version)) as changes:
        async for _, raw in changes:
            spec = msgspec.json.decode(raw).get("spec") or {}
            if (at := parse_time(spec.get("renewTime"))) is not None:
                times.append(at.timestamp())


async def require_next_job(process: OperatorProcess, lab: Any, name: str) -> None:
    """Submit a job, and require that it gets its Job without waiting for the operator's work on others."""
    before, began = cpu_seconds(process), time.monotonic()
    await lab.submit(name)
    await until(lab.client, JOB, lab.namespace, name, lambda found: found is not None)
    assert cpu_seconds(process) - before < NEXT_JOB_CPU
    assert time.monotonic() - began < NEXT_JOB


def cpu_seconds(process: OperatorProcess) -> float:
    """CPU that a process has used, of all its threads."""
    user, system = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


async def reasons(lab: Any) -> dict[str, str]:
    """The reasons that jobs have in their statuses, by name; what is too large is not decoded."""
    found: dict[str, str] = {}
    async for page in lab.client.pages(KAIWO_JOB, lab.namespace):
        for raw in page.items:
            job = _STATUS.decode(raw)
            if job.status.reason:
                found[job.metadata.name] = job.status.reason
    return found


async def refusals(lab: Any, names: list[str]) -> list[str]:
    """Wait until every one of these jobs has a status; their reasons."""
    async with asyncio.timeout(250):
        while len(found := await reasons(lab)) < len(names):
            await asyncio.sleep(1)
    return [found[name] for name in names]


class _Name(msgspec.Struct):
    name: str


class _Reason(msgspec.Struct):
    reason: str = ""


class _Reported(msgspec.Struct):
    metadata: _Name
    status: _Reason = msgspec.field(default_factory=_Reason)


_STATUS = msgspec.json.Decoder(_Reported)


async def stalls(process: OperatorProcess, stalled: list[tuple[float, float]]) -> None:
    """Note how long the operator takes to answer a probe, which its event loop does between all else.

    In seconds, and in seconds of its CPU: what the loop does until it answers cannot have taken more.
    """
    url = f"{process.url}/healthz"
    async with aiohttp.ClientSession() as session:
        while True:
            before, began = cpu_seconds(process), time.monotonic()
            async with session.get(url) as answer:
                await answer.read()
            stalled.append((time.monotonic() - began, cpu_seconds(process) - before))
            await asyncio.sleep(0.02)


@asynccontextmanager
async def observed(process: OperatorProcess, lab: Any) -> AsyncIterator[list[float]]:
    """Check that the operator leads without a break and answers meanwhile; times of its Lease's renewals."""
    renewed, stalled = list[float](), list[tuple[float, float]]()
    tasks = [
        asyncio.create_task(renewals(lab.client, lab.namespace, renewed)),
        asyncio.create_task(stalls(process, stalled)),
    ]
    yield renewed
    assert not any(task.done() for task in tasks)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    lease = await lab.client.get(LEASE, lab.namespace, "hostile")
    assert lease["spec"].get("leaseTransitions", 0) == 0
    assert "does not lead any more" not in process.log
    assert max(map(operator.sub, renewed[1:], renewed), default=0.0) < LEASE_DEADLINE
    assert max(seconds for seconds, _ in stalled) < STALL
    assert max(cpu for _, cpu in stalled) < STALL_CPU


async def test_jobs_that_are_too_large_hold_up_nobody_else(
    everywhere: OperatorProcess, lab: Any, neighbour: Any
) -> None:
    """Each gets a status; meanwhile the Lease is renewed and another tenant's job starts."""
    names = [f"{kind}-{number}" for kind, count in ATTACK.items() for number in range(count)]
    at_once = asyncio.Semaphore(8)

    async def attack(name: str) -> None:
        async with at_once:
            await create(lab, name, **TOO_LARGE[name.partition("-")[0]])

    async with observed(everywhere, lab) as renewed:
        await asyncio.gather(*(attack(name) for name in names))
        await require_next_job(everywhere, neighbour, "mine")
        assert await refusals(lab, names) == ["SpecTooLarge"] * len(names)
    assert len(renewed) >= 3, "it was over before the Lease had to be renewed"
    assert await lab.jobs() == []


async def test_jobs_that_are_just_not_too_large_leave_others_their_turn(
    everywhere: OperatorProcess, lab: Any, neighbour: Any
) -> None:
    """Forty plans of a tenth of a second each: another tenant's job waits for one or two of them."""
    large = {"job": embedded(containers=[{"name": f"c{number}", "image": "i"} for number in range(1200)])}
    names = [f"large-{number}" for number in range(40)]
    async with observed(everywhere, lab):
        await asyncio.gather(*(create(lab, name, **large) for name in names))
        await require_next_job(everywhere, neighbour, "mine")
        found = set(await refusals(lab, names))
    assert not {"SpecTooLarge", "PluginError"} & found


async def test_a_thousand_invalid_jobs_hold_up_no_other_tenant(
    everywhere: OperatorProcess, lab: Any, neighbour: Any
) -> None:
    """Another tenant's job gets its Job while they are worked on; each gets a status and no Job."""
    names = [f"invalid-{number}" for number in range(1000)]
    at_once = asyncio.Semaphore(16)

    async def attack(name: str) -> None:
        async with at_once:
            await create(lab, name, priorityClass="no-such-class")

    async with observed(everywhere, lab):
        attacks = asyncio.gather(*(attack(name) for name in names))
        while len(await reasons(lab)) < len(names) // 10:
            await asyncio.sleep(0.2)
        await require_next_job(everywhere, neighbour, "mine")
        behind = len(names) - len(await reasons(lab))
        await attacks
        found = set(await refusals(lab, names))
    assert behind > len(names) // 10, "nothing was left to be done when the other tenant's job came"
    assert len(found) == 1
    assert await lab.jobs() == []


def peak(process: OperatorProcess) -> int:
    """The most memory that a process had at once, in kB."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])


async def test_no_single_object_takes_the_memory_of_many(operator: Start, lab: Any) -> None:
    """After each of the worst objects the peak is at most half as high again as after everyday work."""
    process = await operator()
    await lab.submit("good")
    await lab.reaches("good", "COMPLETE")
    normal = peak(process)
    for name, spec in LARGEST.items():
        await create(lab, name, **spec)
        async with asyncio.timeout(60):
            while (found := await reasons(lab)).get(name) is None:
                await asyncio.sleep(0.2)
        assert found[name] == "SpecTooLarge"
    await create_nested(lab, "deep")
    await read_error(lab, "deep")
    assert peak(process) <= 1.5 * normal


async def test_lists_beyond_the_bounds_of_the_schema_are_refused_at_once(lab: Any) -> None:
    """The API server says which list is too long, and nothing reaches the operator."""
    for spec, path in (
        ({"env": [{"name": f"E{number}"} for number in range(4097)]}, "spec.env"),
        ({"secretVolumes": [{**SECRETS[0], "name": f"v{n}"} for n in range(1025)]}, "spec.secretVolumes"),
        ({"storage": downloading(1, 10_001)}, "spec.storage.data.download.s3[0].buckets[0].files"),
    ):
        with pytest.raises(Invalid) as caught:
            await create(lab, "long", **spec)
        assert path in [cause.field for cause in caught.value.causes]
