"""``kaiwo queue`` on real queues: places, holders, borrowing, estimates, and what a scientist may see."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from kaiwo.cli.failures import run
from kaiwo.cli.main import kaiwo
from kaiwo.client.queue import describe_queue, list_queues, waits_of
from kaiwo.engine.client import Client as ApiClient
from kaiwo.engine.credentials import load
from kaiwo.engine.resource import JOB, NAMESPACE, Resource
from kaiwo.plugin.loader import load as load_plugins
from kaiwo_kueue.kinds import CLUSTER_QUEUE, LOCAL_QUEUE, WORKLOAD

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from kaiwo.client.queue_records import QueueDetails, QueueOverview, QueueQuota
    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Object
    from kaiwo.testing.operator import OperatorProcess

    Start = Callable[..., Awaitable[OperatorProcess]]

pytestmark = [pytest.mark.cluster, pytest.mark.matrix, pytest.mark.usefixtures("pristine")]

ROLE = Resource("rbac.authorization.k8s.io", "v1", "Role", "roles")
BINDING = Resource("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings")
FOREVER = {"kaiwo-sandbox/forever": "true"}
PLUGINS = load_plugins()
_TIMEOUT = 90.0


def cpu(amount: str) -> Object:
    """Resources of a job that requests CPU only."""
    wanted = {"cpu": amount, "memory": "1Gi"}
    return {"requests": wanted, "limits": wanted}


def plain_job(namespace: str, name: str, amount: str, **labels: str) -> Object:
    """A batch Job that somebody queues without Kaiwo."""
    container = {"name": "main", "image": "registry.example/x:1", "resources": cpu(amount)}
    template = {
        "metadata": {"annotations": FOREVER},
        "spec": {"containers": [container], "restartPolicy": "Never"},
    }
    labels = {f"kueue.x-k8s.io/{key.replace('_', '-')}": value for key, value in labels.items()}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"namespace": namespace, "name": name, "labels": labels},
        "spec": {"suspend": True, "template": template},
    }


async def eventually(
    read: Callable[[], Awaitable[QueueDetails]], holds: Callable[[QueueDetails], bool]
) -> QueueDetails:
    """Read until something holds."""
    end = time.monotonic() + _TIMEOUT
    while True:
        found = await read()
        if holds(found):
            return found
        assert time.monotonic() < end, (names(found), found)
        await asyncio.sleep(0.3)


def quota_of(queue: QueueOverview, resource: str = "cpu") -> QueueQuota:
    """The quota of a resource."""
    return next(item for item in queue.quotas if item.resource == resource)


def names(found: QueueDetails) -> list[str]:
    """The pending workloads in their order."""
    return [item.workload.name for item in found.waiting]


async def test_three_jobs_and_one_quota(
    operator: Start,
    admin: Any,
    lab: Any,
    quota: Callable[..., Object],
    control_plane: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each that waits knows its place, who is ahead and why, who holds the quota, and until when."""
    await admin.configure(
        clusterQueues=[{"name": "kaiwo", "spec": quota()}],
        resourceFlavors=[{"name": "f"}],
        workloadPriorityClasses=[{"name": "urgent", "value": 100}],
    )
    await operator()
    await admin.status("READY")
    api: Client = lab.client
    await lab.submit("first", resources=cpu("3"), pods=FOREVER, duration="1h", user="ada")
    await lab.reaches("first", "RUNNING")
    await lab.submit("second", resources=cpu("2"))
    await lab.reaches("second", "PENDING", reason="Pending")
    await asyncio.sleep(1.1)  # Kueue orders by whole seconds
    await api.create(JOB, plain_job(lab.namespace, "other", "2", queue_name="kaiwo"))
    await asyncio.sleep(1.1)
    await lab.submit("third", resources=cpu("2"), priorityClass="urgent")

    def read() -> Awaitable[QueueDetails]:
        return describe_queue(api, PLUGINS, lab.namespace, "kaiwo")

    found = await eventually(
        read,
        lambda found: (
            names(found) == ["third", "second", "other"]
            and bool(found.holders and found.holders[0].ends)
            and quota_of(found.queue).used == "3"
        ),
    )
    assert found.unseen == ()
    cpus = quota_of(found.queue)
    assert (cpus.nominal, cpus.borrowed, cpus.free, cpus.pending) == ("4", "0", "1", "6")
    assert [item.namespace for item in found.queue.namespaces] == [lab.namespace]
    (holder,) = found.holders
    assert (holder.workload.kind, holder.workload.name, holder.workload.user) == ("KaiwoJob", "first", "ada")
    assert {item.resource: item.amount for item in holder.holds} == {"cpu": "3", "memory": "1Gi"}
    assert holder.ends_by == "duration"
    third, second, other = found.waiting
    assert [item.position for item in found.waiting] == [1, 2, 3]
    assert (other.workload.kind, second.workload.kind) == ("Job", "KaiwoJob")
    assert [item.reason for item in second.ahead] == ["higher priority (100, this one 0)"]
    assert [item.workload.name for item in other.ahead] == ["third", "second"]
    assert other.ahead[1].reason.startswith("same priority, queued earlier")
    assert [item.workload.name for need in second.needs for item in need.held_by] == ["first"]
    assert third.estimate == holder.ends
    first = f"KaiwoJob {lab.namespace}/first"
    assert third.estimate_basis == f"if {first} ends with its `duration`, which does not end it by itself"
    assert other.estimate_basis.startswith("no estimate: ")

    job = await lab.reaches("second", "PENDING")
    assert job
    whole = await api.get(
        Resource("kaiwo.silogen.ai", "v1alpha1", "KaiwoJob", "kaiwojobs"), lab.namespace, "second"
    )
    assert [wait.position for wait in await waits_of(api, PLUGINS, whole)] == [2]
    monkeypatch.setenv("KUBECONFIG", str(control_plane.kubeconfig))
    for command, shown in (
        (["queue"], "4       3      0"),
        (["queue", "kaiwo"], f"KaiwoJob {lab.namespace}/first of ada holds 3"),
        (["status", "second"], "2 in queue kaiwo"),
        (["status", "queues"], "BestEffortFIFO"),
        (["nodes"], "amd-1"),
        (["status", "amd"], "mi300x"),
        (["report", "--csv"], "user,workloads,gpu_hours_reserved"),
    ):
        capsys.readouterr()
        code = await asyncio.to_thread(run, kaiwo, ["-n", lab.namespace, *command], "kaiwo")
        out = capsys.readouterr().out
        assert (code, shown in out) == (0, True), out


async def test_a_request_beyond_the_quota_is_said_at_submission(
    operator: Start,
    admin: Any,
    lab: Any,
    quota: Callable[..., Object],
    control_plane: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    """Also before there is a LocalQueue; the status would only say that it waits."""
    await admin.configure(clusterQueues=[{"name": "kaiwo", "spec": quota()}], resourceFlavors=[{"name": "f"}])
    await operator()
    await admin.status("READY")
    monkeypatch.setenv("KUBECONFIG", str(control_plane.kubeconfig))
    for amount, said in (("5", True), ("4", False)):
        huge = {
            "apiVersion": "kaiwo.silogen.ai/v1alpha1",
            "kind": "KaiwoJob",
            "metadata": {"name": "huge"},
            "spec": {"image": "registry.example/x:1", "entrypoint": "true", "resources": cpu(amount)},
        }
        file = tmp_path / "huge.yaml"
        file.write_text(yaml.safe_dump(huge), encoding="utf-8")
        command = ["-n", lab.namespace, "submit", "--dry-run", "-f", str(file)]
        capsys.readouterr()
        code = await asyncio.to_thread(run, kaiwo, command, "kaiwo")
        err = capsys.readouterr().err
        never = "queue kaiwo can never start it: it requests 5 cpu, and the queue can have at most 4"
        assert (code, never in err) == (0, said), err


async def test_borrowing_in_a_cohort(
    operator: Start, admin: Any, lab: Any, quota: Callable[..., Object]
) -> None:
    """What one queue borrows the other has lent; the lender's own job learns who has its quota."""
    await admin.configure(
        clusterQueues=[
            {"name": "borrower", "spec": quota(cpu="2", cohortName="both")},
            {"name": "lender", "spec": quota(cpu="4", cohortName="both")},
        ],
        resourceFlavors=[{"name": "f"}],
    )
    await operator()
    await admin.status("READY")
    await lab.submit("guest", resources=cpu("5"), pods=FOREVER, clusterQueue="borrower")
    await lab.reaches("guest", "RUNNING")
    await lab.submit("owner", resources=cpu("3"), clusterQueue="lender")
    await lab.reaches("owner", "PENDING", reason="Pending")

    def read() -> Awaitable[QueueDetails]:
        return describe_queue(lab.client, PLUGINS, lab.namespace, "lender")

    found = await eventually(read, lambda found: bool(found.waiting) and bool(found.waiting[0].needs))
    every = {item.name: item for item in (await list_queues(lab.client, PLUGINS, lab.namespace)).items}
    assert {item.cohort for item in every.values()} == {"both"}
    borrowed, lent = quota_of(every["borrower"]), quota_of(every["lender"])
    assert (borrowed.used, borrowed.borrowed, borrowed.free) == ("5", "3", "1")
    assert (lent.used, lent.lent, lent.free, lent.pending) == ("0", "3", "1", "3")
    (need,) = found.waiting[0].needs
    assert [item.workload.name for item in need.held_by] == ["guest"]
    assert found.waiting[0].estimate_basis == (
        f"no estimate: KaiwoJob {lab.namespace}/guest holds 5 cpu without a known time limit"
    )


async def test_a_small_job_that_passed_a_large_one_is_named(
    operator: Start, admin: Any, lab: Any, quota: Callable[..., Object]
) -> None:
    """Best effort: a later job that fits starts, and the earlier one's owner learns the rule."""
    await admin.configure(clusterQueues=[{"name": "kaiwo", "spec": quota()}], resourceFlavors=[{"name": "f"}])
    await operator()
    await admin.status("READY")
    await lab.submit("first", resources=cpu("2"), pods=FOREVER)
    await lab.reaches("first", "RUNNING")
    await lab.submit("large", resources=cpu("4"))
    await lab.reaches("large", "PENDING", reason="Pending")
    await asyncio.sleep(1.1)
    await lab.submit("small", resources=cpu("1"), pods=FOREVER)
    await lab.reaches("small", "RUNNING")
    found = await describe_queue(lab.client, PLUGINS, lab.namespace, "kaiwo")
    (large,) = found.waiting
    assert [(item.workload.name, item.reason) for item in large.went_first] == [
        ("small", "queue is BestEffortFIFO: it requests no more, and fitted while this one did not")
    ]
    assert [item.workload.name for need in large.needs for item in need.held_by] == ["first", "small"]


async def test_a_scientist_sees_her_namespace_and_which_rights_are_missing(
    client: Client,
    namespace: str,
    control_plane: Any,
    crds: None,
    quota: Callable[..., Object],
    tmp_path: Path,
) -> None:
    """May list Workloads and LocalQueues of one namespace only: no places, and no quota, but the queue."""
    del crds
    await client.find_version(CLUSTER_QUEUE)
    queue = CLUSTER_QUEUE
    flavor = Resource(queue.group, "v1beta1", "ResourceFlavor", "resourceflavors", namespaced=False)
    version = client.in_use(queue).api_version
    await client.create(
        flavor, {"apiVersion": flavor.api_version, "kind": "ResourceFlavor", "metadata": {"name": "f"}}
    )
    selector: Object = {"namespaceSelector": {}}
    body = {
        "apiVersion": version,
        "kind": "ClusterQueue",
        "metadata": {"name": "kaiwo"},
        "spec": {**quota(), **selector},
    }
    await client.create(client.in_use(queue), body)
    await client.merge_patch(NAMESPACE, None, namespace, {"metadata": {"labels": {"kueue-managed": "true"}}})
    await client.find_version(LOCAL_QUEUE)
    local = client.in_use(LOCAL_QUEUE)
    await client.create(
        local,
        {
            "apiVersion": local.api_version, "kind": "LocalQueue",
            "metadata": {"name": "kaiwo", "namespace": namespace}, "spec": {"clusterQueue": "kaiwo"},
        },
    )  # fmt: skip
    for name in ("one", "two"):
        await client.create(JOB, plain_job(namespace, name, "3", queue_name="kaiwo"))
    rules = [{"apiGroups": [WORKLOAD.group], "resources": ["workloads", "localqueues"], "verbs": ["list"]}]
    for kind, more in (
        (ROLE, {"rules": rules}),
        (
            BINDING,
            {
                "roleRef": {"apiGroup": ROLE.group, "kind": "Role", "name": "scientist"},
                "subjects": [{"apiGroup": ROLE.group, "kind": "User", "name": "ada"}],
            },
        ),
    ):
        head = {"apiVersion": kind.api_version, "kind": kind.kind}
        await client.create(kind, {**head, "metadata": {"name": "scientist", "namespace": namespace}, **more})
    config = yaml.safe_load(control_plane.kubeconfig.read_text())
    config["users"][0]["user"]["as"] = "ada"
    path = tmp_path / "ada.kubeconfig"
    path.write_text(yaml.safe_dump(config))
    async with ApiClient(load(path)) as ada:

        def read() -> Awaitable[QueueDetails]:
            return describe_queue(ada, PLUGINS, namespace, "kaiwo")

        found = await eventually(read, lambda found: bool(found.holders) and len(found.waiting) == 1)
    assert (found.queue.readable, found.waiting[0].position) == (False, None)
    assert [text.partition(":")[0] for text in found.unseen] == [
        "quotas and cohorts",
        "positions, and workloads of other namespaces",
        "who else may use a queue",
    ]
    assert "visibility.kueue.x-k8s.io" in found.unseen[1]
    assert {item.resource: item.used for item in found.queue.quotas} == {"cpu": "3", "memory": "1Gi"}
