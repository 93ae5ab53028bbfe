"""Workloads in real queues: admitted, waiting, evicted, refused."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.api.crds import KAIWO_JOB
from kaiwo.engine.resource import JOB, NAMESPACE
from kaiwo.testing.fault_proxy import FaultProxy
from kaiwo_kueue.kinds import LOCAL_QUEUE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from kaiwo.engine.credentials import Connection
    from kaiwo.engine.resource import Object
    from kaiwo.testing.operator import OperatorProcess

    Start = Callable[..., Awaitable[OperatorProcess]]

pytestmark = [pytest.mark.cluster, pytest.mark.matrix, pytest.mark.usefixtures("pristine")]

FOREVER = {"kaiwo-sandbox/forever": "true"}
FLAVORS = [{"name": "f"}]


def cpu(amount: str) -> Object:
    """Resources of a job that requests CPU only."""
    wanted = {"cpu": amount, "memory": "1Gi"}
    return {"requests": wanted, "limits": wanted}


async def test_a_job_waits_for_quota_and_starts_when_another_ends(
    operator: Start, admin: Any, lab: Any, quota: Callable[..., Object], condition: Callable[..., Object]
) -> None:
    """The whole way: LocalQueue on demand, namespace labelled, Kueue's own words, admission."""
    await admin.configure(clusterQueues=[{"name": "kaiwo", "spec": quota()}], resourceFlavors=FLAVORS)
    await operator()
    await admin.status("READY")
    await lab.submit("first", resources=cpu("3"), pods={"kaiwo-sandbox/hold": "true"})
    first = await lab.reaches("first", "STARTING")
    assert condition(first, "Admitted")["message"] == "The workload is admitted"
    await lab.submit("second", resources=cpu("2"))
    second = await lab.reaches("second", "PENDING", reason="Pending")
    assert "insufficient unused quota for cpu in flavor f" in second["message"]
    assert condition(second, "Admitted")["status"] == "False"

    queue = await admin.client.get(LOCAL_QUEUE, lab.namespace, "kaiwo")
    assert queue["spec"]["clusterQueue"] == "kaiwo"
    labels = (await admin.client.get(NAMESPACE, None, lab.namespace))["metadata"]["labels"]
    assert labels["kueue-managed"] == "true"
    job = await admin.client.get(JOB, lab.namespace, "second")
    assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "kaiwo"
    assert job["spec"]["suspend"] is True

    await admin.client.delete(KAIWO_JOB, lab.namespace, "first")
    # Kubernetes' garbage collector takes up to 30 s to learn of a kind whose CRD is new.
    await lab.reaches("second", "COMPLETE", timeout=90)


async def test_jobs_submitted_together_to_a_new_namespace_all_start(
    operator: Start, admin: Any, lab: Any, quota: Callable[..., Object]
) -> None:
    """The LocalQueue created for the first of them requeues those that are being reconciled just then."""
    await admin.configure(clusterQueues=[{"name": "kaiwo", "spec": quota(cpu="32")}], resourceFlavors=FLAVORS)
    await operator()
    await admin.status("READY")
    names = [f"job-{number}" for number in range(24)]
    await asyncio.gather(*(lab.submit(name, resources=cpu("1")) for name in names))
    for name in names:
        await lab.reaches(name, "COMPLETE")


async def test_a_preempted_job_says_why_and_runs_again(
    operator: Start, admin: Any, lab: Any, quota: Callable[..., Object], condition: Callable[..., Object]
) -> None:
    """Eviction and re-admission by priority, with Kueue's reason and the preemptor's name on the workload."""
    await admin.configure(
        clusterQueues=[{"name": "kaiwo", "spec": quota(preemption={"withinClusterQueue": "LowerPriority"})}],
        resourceFlavors=FLAVORS,
        workloadPriorityClasses=[
            {"metadata": {"name": "low"}, "value": 1},
            {"metadata": {"name": "high"}, "value": 100, "description": "first"},
        ],
    )
    process = await operator()
    await admin.status("READY")
    await lab.submit("victim", resources=cpu("3"), priorityClass="low", pods=FOREVER)
    before = await lab.reaches("victim", "RUNNING")
    await lab.submit(
        "urgent", resources=cpu("3"), priorityClass="high", pods={"kaiwo-sandbox/run-time": "3s"}
    )
    evicted = await lab.reaches("victim", "PENDING", reason="Preempted")
    assert "Preempted to accommodate a workload" in evicted["message"]
    assert evicted["message"].startswith(f"preempted by Job {lab.namespace}/urgent: ")
    assert condition(evicted, "Admitted")["status"] == "False"
    await lab.reaches("urgent", "COMPLETE")
    metrics = await asyncio.to_thread(process.metrics)
    assert metrics['kaiwo_preemptions_total{kind="KaiwoJob",queue="kaiwo"}'] == 1
    again = await lab.reaches("victim", "RUNNING")
    assert again["startTime"] >= before["startTime"]
    assert condition(again, "Admitted")["status"] == "True"


async def test_a_job_that_is_admitted_with_fewer_pods_runs_with_them(
    operator: Start, admin: Any, lab: Any, quota: Callable[..., Object], condition: Callable[..., Object]
) -> None:
    """Kueue lets nobody change the parallelism of such a Job while it runs, and other changes are applied."""
    await admin.configure(clusterQueues=[{"name": "kaiwo", "spec": quota()}], resourceFlavors=FLAVORS)
    await operator()
    await admin.status("READY")
    partial = {"annotations": {"kueue.x-k8s.io/job-min-parallelism": "2"}}
    spec = {"parallelism": 6, "completions": 6}
    await lab.submit("part", resources=cpu("1"), job={"metadata": partial, "spec": spec}, pods=FOREVER)
    await lab.reaches("part", "RUNNING")
    assert (await admin.client.get(JOB, lab.namespace, "part"))["spec"]["parallelism"] == 4

    await admin.client.merge_patch(KAIWO_JOB, lab.namespace, "part", {"spec": {"duration": "1h"}})

    def applied(obj: Object | None) -> bool:
        found = condition((obj or {}).get("status", {}), "SpecApplied")
        return found.get("observedGeneration") == 2

    changed = await admin.sees(KAIWO_JOB, "part", applied, lab.namespace)
    assert condition(changed["status"], "SpecApplied")["status"] == "True"
    assert (await admin.client.get(JOB, lab.namespace, "part"))["spec"]["parallelism"] == 4


async def test_a_queue_that_cannot_be_used_is_named_and_heals(
    operator: Start, admin: Any, lab: Any, quota: Callable[..., Object]
) -> None:
    """Unknown queue, wrong namespace, resource without quota: each says so and starts when it may."""
    queues = [
        {"name": "kaiwo", "spec": quota()},
        {"name": "closed", "spec": quota(), "namespaces": ["default"]},
    ]
    await admin.configure(clusterQueues=queues, resourceFlavors=FLAVORS)
    await operator()
    await admin.status("READY")
    await lab.submit("lost", clusterQueue="late", resources=cpu("1"))
    await lab.submit("outside", clusterQueue="closed", resources=cpu("1"))
    disk = cpu("1")
    disk["requests"] = {**disk["requests"], "ephemeral-storage": "1Gi"}
    await lab.submit("disk", resources=disk)
    refused = await lab.reaches("lost", "ERROR", reason="ClusterQueueNotFound")
    assert "late" in refused["message"]
    outside = await lab.reaches("outside", "ERROR", reason="WrongQueueNamespace")
    assert lab.namespace in outside["message"]
    without = await lab.reaches("disk", "PENDING", reason="NoQuota")
    for word in ("kaiwo", "ephemeral-storage", "cpu, memory"):
        assert word in without["message"]
    assert {job["metadata"]["name"] for job in await lab.jobs()} == {"disk"}

    queues[1]["namespaces"] = ["default", lab.namespace]
    covered = quota()
    group = covered["resourceGroups"][0]
    group["coveredResources"].append("ephemeral-storage")
    group["flavors"][0]["resources"].append({"name": "ephemeral-storage", "nominalQuota": "10Gi"})
    queues[0]["spec"] = covered
    await admin.configure(clusterQueues=[*queues, {"name": "late", "spec": quota()}], resourceFlavors=FLAVORS)
    for name in ("lost", "outside", "disk"):
        await lab.reaches(name, "COMPLETE")


async def test_a_local_queue_of_somebody_else_is_used(
    operator: Start, admin: Any, lab: Any, quota: Callable[..., Object]
) -> None:
    """A team's own LocalQueue works without an entry of its name, and is never touched."""
    await admin.configure(clusterQueues=[{"name": "kaiwo", "spec": quota()}], resourceFlavors=FLAVORS)
    await operator()
    await admin.status("READY")
    own = {
        "apiVersion": admin.client.in_use(LOCAL_QUEUE).api_version,
        "kind": "LocalQueue",
        "metadata": {"name": "team", "namespace": lab.namespace},
        "spec": {"clusterQueue": "kaiwo"},
    }
    made = await admin.client.create(LOCAL_QUEUE, own)
    await lab.submit("mine", clusterQueue="team", resources=cpu("1"))
    await lab.reaches("mine", "COMPLETE")
    kept = await admin.client.get(LOCAL_QUEUE, lab.namespace, "team")
    assert (kept["metadata"]["uid"], kept["metadata"].get("labels")) == (made["metadata"]["uid"], None)


@pytest.fixture
async def proxied(connection: Connection, tmp_path: Any) -> AsyncIterator[tuple[FaultProxy, Any]]:
    """A proxy that counts requests, and a kubeconfig that leads through it."""
    async with FaultProxy(connection) as proxy:
        yield proxy, proxy.write_kubeconfig(tmp_path / "kubeconfig")


def counted(proxy: FaultProxy, before: int) -> list[str]:
    """Writes since then, those about another job left out."""
    return [record.path for record in proxy.writes()[before:] if "warm" not in record.path]


async def test_one_status_write_per_transition_and_none_at_rest(
    operator: Start,
    admin: Any,
    lab: Any,
    quota: Callable[..., Object],
    proxied: tuple[FaultProxy, Any],
) -> None:
    """A queued job costs its Job and its transitions; a second start of the operator writes nothing."""
    await admin.configure(clusterQueues=[{"name": "kaiwo", "spec": quota()}], resourceFlavors=FLAVORS)
    proxy, kubeconfig = proxied
    first = await operator(kubeconfig=kubeconfig)
    await admin.status("READY")
    await lab.submit("warm", resources=cpu("1"))
    await lab.reaches("warm", "COMPLETE")
    before = len(proxy.writes())
    await lab.submit("counted", resources=cpu("1"), pods={"kaiwo-sandbox/run-time": "2s"})
    await lab.reaches("counted", "COMPLETE")
    end = time.monotonic() + 30
    while len(paths := counted(proxy, before)) < 5:
        assert time.monotonic() < end, paths  # the proxy may note an answer after it was given
        await asyncio.sleep(0.1)
    statuses = [path for path in paths if path.split("?")[0].endswith("kaiwojobs/counted/status")]
    assert len(statuses) == 4, paths  # PENDING, STARTING, RUNNING, COMPLETE
    assert len(paths) == 5, paths
    await asyncio.to_thread(first.close)  # the proxy runs in this loop
    calm = len(proxy.writes())
    second = await operator(kubeconfig=kubeconfig)
    await asyncio.to_thread(second.wait_log, "controller kueue starts")
    await lab.submit("after", resources=cpu("1"))
    await lab.reaches("after", "COMPLETE")
    paths = [record.path for record in proxy.writes()[calm:]]
    assert all("after" in path or path.split("?")[0].endswith("/jobs") for path in paths), paths
