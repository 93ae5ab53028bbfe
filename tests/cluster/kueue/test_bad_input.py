"""What an administrator gets wrong, or finds done already by somebody else."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo_kueue.kinds import CLUSTER_QUEUE, MANAGED_LABEL, QUEUE_CONFIG, RESOURCE_FLAVOR

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Object
    from kaiwo.testing.operator import OperatorProcess

    Start = Callable[..., Awaitable[OperatorProcess]]

pytestmark = [pytest.mark.cluster, pytest.mark.matrix, pytest.mark.usefixtures("pristine")]

USED = ((CLUSTER_QUEUE, "kaiwo"), (RESOURCE_FLAVOR, "f"))
FLAVORS_OF_ANY = 65
"""One flavor more than any generation of Kueue takes in a resource group."""


def message(status: Object) -> str:
    """What the condition Ready says."""
    return str(next(item["message"] for item in status["conditions"] if item["type"] == "Ready"))


@pytest.mark.parametrize(
    ("mistake", "words"),
    [
        ({"clusterQueues": [{"name": "twice"}, {"name": "twice"}]}, ("twice", "ClusterQueue")),
        (
            {"resourceFlavors": [{"name": "many", "nodeLabels": {f"l{n}": "x" for n in range(9)}}]},
            ("many", "8"),
        ),
        (
            {
                "resourceFlavors": [{"name": f"f{n}"} for n in range(FLAVORS_OF_ANY)],
                "clusterQueues": [
                    {
                        "name": "wide",
                        "spec": {
                            "resourceGroups": [
                                {
                                    "coveredResources": ["cpu"],
                                    "flavors": [
                                        {
                                            "name": f"f{n}",
                                            "resources": [{"name": "cpu", "nominalQuota": "1"}],
                                        }
                                        for n in range(FLAVORS_OF_ANY)
                                    ],
                                }
                            ]
                        },
                    }
                ],
            },
            ("wide", str(FLAVORS_OF_ANY)),
        ),
    ],
    ids=["duplicate", "nine-labels", "too-many-flavors"],
)
async def test_a_mistake_in_one_entry_stops_no_other_and_heals(
    operator: Start, admin: Any, lab: Any, quota: Callable[..., Object], *, mistake: Object, words: Any
) -> None:
    """FAILED with the object and the limit; a workload of a good queue runs; READY after the correction."""
    good: Object = {
        "clusterQueues": [{"name": "kaiwo", "spec": quota()}],
        "resourceFlavors": [{"name": "f"}],
    }
    await admin.configure(**{key: [*good[key], *mistake.get(key, ())] for key in good})
    process = await operator()
    status = await admin.status("FAILED")
    for word in words:
        assert word in message(status), message(status)
    await admin.sees_event(admin.condition_of(status, "Ready")["reason"])
    metrics = await asyncio.to_thread(process.metrics)
    labels = 'condition="Ready",kind="KaiwoQueueConfig",status="False"'
    assert metrics[f"kaiwo_config_condition{{{labels}}}"] == 1
    wanted = {"cpu": "1", "memory": "1Gi"}
    await lab.submit("unharmed", resources={"requests": wanted, "limits": wanted})
    await lab.reaches("unharmed", "COMPLETE")
    config = await admin.configure(**good)
    await admin.status("READY", generation=config["metadata"]["generation"])
    errors = [line for line in process.lines if " ERROR " in line]
    assert len(errors) == 1, "the cause is logged once"
    assert "KaiwoQueueConfig kaiwo: Ready: " in errors[0]


async def queue_of_somebody_else(client: Client, name: str) -> Object:
    """A ClusterQueue that an administrator made."""
    await client.find_version(CLUSTER_QUEUE)
    return await client.create(
        CLUSTER_QUEUE,
        {
            "apiVersion": client.in_use(CLUSTER_QUEUE).api_version,
            "kind": "ClusterQueue",
            "metadata": {"name": name},
            "spec": {"namespaceSelector": {}},
        },
    )


async def test_a_queue_of_somebody_else_is_managed_while_it_is_listed_and_never_deleted(
    operator: Start, admin: Any, client: Client, quota: Callable[..., Object]
) -> None:
    """It gets what is listed without an owner; listed no more it stays, as somebody else's again."""
    made = await queue_of_somebody_else(client, "theirs")
    await admin.configure(
        clusterQueues=[{"name": "theirs", "spec": quota()}], resourceFlavors=[{"name": "f"}]
    )
    await operator()
    await admin.status("READY")
    listed = await client.get(CLUSTER_QUEUE, None, "theirs")
    assert listed["metadata"]["uid"] == made["metadata"]["uid"]
    assert listed["metadata"]["labels"] == {MANAGED_LABEL: "true"}
    assert "ownerReferences" not in listed["metadata"]
    assert listed["spec"]["resourceGroups"]

    await admin.configure(clusterQueues=[{"name": "ours"}], resourceFlavors=[{"name": "f"}])
    kept = await admin.sees(CLUSTER_QUEUE, "theirs", lambda obj: obj and not obj["metadata"].get("labels"))
    assert kept["metadata"]["uid"] == made["metadata"]["uid"]


async def test_a_queue_with_the_name_of_the_default_one_is_announced_before_it_is_changed(
    operator: Start, admin: Any, client: Client
) -> None:
    """Nobody listed it: the condition and an Event say what happens to it, and what keeps it."""
    made = await queue_of_somebody_else(client, "kaiwo")
    process = await operator()
    listed = await admin.sees(
        CLUSTER_QUEUE, "kaiwo", lambda obj: obj and MANAGED_LABEL in obj["metadata"].get("labels", {})
    )
    assert listed["metadata"]["uid"] == made["metadata"]["uid"]
    config = await client.get(QUEUE_CONFIG, None, "kaiwo")
    (said,) = [one for one in config["status"]["conditions"] if one["type"] == "ExistingQueueManaged"]
    assert (said["status"], said["reason"]) == ("True", "ExistedBefore")
    await asyncio.to_thread(process.wait_log, "ClusterQueue kaiwo changed")
    before, _, _ = process.log.partition("ClusterQueue kaiwo changed")
    assert "ClusterQueue kaiwo existed before" in before


async def test_a_flavor_is_replaced_under_a_running_workload(
    operator: Start, admin: Any, client: Client, lab: Any, quota: Callable[..., Object]
) -> None:
    """Kueue fixes the labels of a flavor with a topology; running workloads continue, and nothing fails."""
    spec: Object = {
        "topologies": [{"name": "t", "levels": [{"nodeLabel": "kubernetes.io/hostname"}]}],
        "clusterQueues": [{"name": "kaiwo", "spec": quota()}],
        "resourceFlavors": [{"name": "f", "nodeLabels": {"kubernetes.io/os": "linux"}, "topologyName": "t"}],
    }
    await admin.configure(**spec)
    process = await operator()
    await admin.status("READY")
    before = await client.get(RESOURCE_FLAVOR, None, "f")
    wanted = {"cpu": "1", "memory": "1Gi"}
    await lab.submit(
        "runs", resources={"requests": wanted, "limits": wanted}, pods={"kaiwo-sandbox/forever": "true"}
    )
    first = await lab.reaches("runs", "RUNNING")
    spec["resourceFlavors"][0]["nodeLabels"] = {"kubernetes.io/arch": "amd64"}
    config = await admin.configure(**spec)
    await admin.sees(
        RESOURCE_FLAVOR, "f", lambda obj: obj and obj["metadata"]["uid"] != before["metadata"]["uid"]
    )
    await admin.status("READY", generation=config["metadata"]["generation"])
    last = await lab.reaches("runs", "RUNNING")
    assert last["startTime"] == first["startTime"]
    assert set(re.findall("KaiwoQueueConfig kaiwo: (READY|FAILED)", process.log)) == {"READY"}


async def test_a_mistake_in_an_entry_keeps_the_queue_that_works(
    operator: Start, admin: Any, client: Client, lab: Any, quota: Callable[..., Object]
) -> None:
    """A typing error, a refused preemption, nine labels: queue and flavor stay in use as they were."""
    await admin.configure(clusterQueues=[{"name": "kaiwo", "spec": quota()}], resourceFlavors=[{"name": "f"}])
    await operator()
    await admin.status("READY")
    before = {kind: (await client.get(kind, None, name))["metadata"]["uid"] for kind, name in USED}
    labels = {f"l{number}": "x" for number in range(9)}
    for spec, flavors in (
        (quota(cpu="lots"), [{"name": "f"}]),
        (quota(preemption={"withinClusterQueue": "Sometimes"}), [{"name": "f"}]),
        (quota("g", preemption={"withinClusterQueue": "Sometimes"}), [{"name": "g"}]),
        (quota(), [{"name": "f", "nodeLabels": labels}]),
    ):
        changed = await admin.configure(
            clusterQueues=[{"name": "kaiwo", "spec": spec}], resourceFlavors=flavors
        )
        await admin.status("FAILED", generation=changed["metadata"]["generation"])
        for kind, name in USED:
            metadata = (await client.get(kind, None, name))["metadata"]
            assert (metadata["uid"], metadata.get("deletionTimestamp")) == (before[kind], None)
    await lab.submit("runs")
    await lab.reaches("runs", "COMPLETE")
    await admin.configure(clusterQueues=[{"name": "kaiwo", "spec": quota()}], resourceFlavors=[{"name": "f"}])
    await admin.status("READY")


async def test_a_queue_that_kueue_keeps_inactive_is_named(
    operator: Start, admin: Any, client: Client, quota: Callable[..., Object]
) -> None:
    """The entry is as the API server wants it, and nothing is ever admitted: the status says why."""
    entry = {"name": "kaiwo", "spec": quota(admissionChecks=["dry-run"])}
    await admin.configure(clusterQueues=[entry], resourceFlavors=[{"name": "f"}])
    await operator()

    def condition(obj: Object | None) -> Object | None:
        found = ((obj or {}).get("status") or {}).get("conditions") or []
        return next((item for item in found if item["type"] == "QueuesActive"), None)

    config = await admin.sees(QUEUE_CONFIG, "kaiwo", condition)
    said = condition(config) or {}
    assert (said["status"], said["reason"]) == ("False", "AdmissionCheckNotFound")
    assert (
        "ClusterQueue kaiwo: Can't admit new workloads: references missing AdmissionCheck(s): dry-run"
        in (said["message"])
    )
    assert config["status"]["status"] == "READY"
    await admin.configure(clusterQueues=[{"name": "kaiwo", "spec": quota()}], resourceFlavors=[{"name": "f"}])
    await admin.sees(QUEUE_CONFIG, "kaiwo", lambda obj: obj and condition(obj) is None)
    queue = await client.get(CLUSTER_QUEUE, None, "kaiwo")
    assert not {"admissionChecksStrategy", "admissionChecks"} & {
        key for key, value in queue["spec"].items() if value
    }
