"""CPU of ``kaiwo queue`` and ``kaiwo nodes`` over a large cluster, from bytes of objects to records.

The floor decodes the same bytes and does nothing else.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from bench.report import Figure
from kaiwo.client.node_use import nodes_from
from kaiwo.client.queue import details
from kaiwo.plugin.loader import load
from kaiwo.plugin.queue_usage import UsageFacts
from kaiwo.workload.queues.enrichment import with_workloads
from kaiwo_kueue.kinds import CLUSTER_QUEUE, LOCAL_QUEUE, WORKLOAD
from kaiwo_kueue.usage import usage

if TYPE_CHECKING:
    from collections.abc import Iterable

_KEY = "amd.com/gpu"
_QUEUES = 20
_PODS = 8
_KAIWO = "kaiwo.silogen.ai/"
_TIME = "2026-01-01T11:00:00Z"


def run(workloads: int, nodes: int) -> list[Figure]:
    """Both commands."""
    return [_queue(workloads), _nodes(nodes)]


def _queue(count: int) -> Figure:
    """All queues, and one with its workloads; a tenth of all have quota."""
    raw = {
        "workloads": _encoded(_workload(number) for number in range(count)),
        "kaiwojobs": _encoded(_job(number) for number in range(count)),
    }
    queues = tuple(_cluster_queue(number) for number in range(_QUEUES))
    entrances = tuple(_local_queue(number) for number in range(_QUEUES))
    began = time.process_time()
    read = {name: [msgspec.json.decode(item) for item in items] for name, items in raw.items()}
    decoded = time.process_time()
    now = datetime(2026, 1, 1, 12, tzinfo=UTC)
    objects = {WORKLOAD: tuple(read["workloads"]), CLUSTER_QUEUE: queues, LOCAL_QUEUE: entrances}
    found = usage(UsageFacts(objects=objects, now=now, namespace="team"))
    found = with_workloads(found, read["kaiwojobs"], None)
    details(found, found.queues[0], now)
    end = time.process_time()
    return Figure(
        f"CPU of kaiwo queue NAME, {count:,} workloads", (end - began) * 1000, "ms", (decoded - began) * 1000
    )


def _nodes(count: int) -> Figure:
    """All nodes with eight pods each."""
    raw_nodes = _encoded(_node(number) for number in range(count))
    raw_pods = _encoded(_pod(number, at) for number in range(count) for at in range(_PODS))
    vendors = load().vendors
    began = time.process_time()
    nodes = [msgspec.json.decode(item) for item in raw_nodes]
    pods = [msgspec.json.decode(item) for item in raw_pods]
    decoded = time.process_time()
    nodes_from(nodes, pods, vendors, None)
    end = time.process_time()
    what = f"CPU of kaiwo nodes, {count:,} nodes and {count * _PODS:,} pods"
    return Figure(what, (end - began) * 1000, "ms", (decoded - began) * 1000)


def _encoded(objects: Iterable[dict[str, Any]]) -> list[bytes]:
    return [msgspec.json.encode(obj) for obj in objects]


def _cluster_queue(number: int) -> dict[str, Any]:
    quota = [{"name": _KEY, "nominalQuota": "64"}]
    group = {"coveredResources": [_KEY], "flavors": [{"name": "mi300x", "resources": quota}]}
    cohort = {"cohortName": "research"} if number % 2 else {}
    used = [{"name": "mi300x", "resources": [{"name": _KEY, "total": "64"}]}]
    return {
        "metadata": {"name": f"queue-{number}"},
        "spec": {"resourceGroups": [group], **cohort},
        "status": {"flavorsReservation": used},
    }


def _local_queue(number: int) -> dict[str, Any]:
    name = f"queue-{number}"
    return {"metadata": {"name": name, "namespace": "team"}, "spec": {"clusterQueue": name}}


def _labels(number: int) -> dict[str, str]:
    values = {"name": f"job-{number}", "type": "job", "run-id": f"run-{number}", "user": "ada"}
    return {_KAIWO + key: value for key, value in values.items()}


def _workload(number: int) -> dict[str, Any]:
    queue = f"queue-{number % _QUEUES}"
    container = {
        "name": "main",
        "image": "registry.example/train:1",
        "env": [{"name": f"VARIABLE_{at}", "value": "x" * 40} for at in range(10)],
        "resources": {"limits": {_KEY: "1", "cpu": "4", "memory": "32Gi"}},
    }
    template = {"metadata": {"labels": _labels(number)}, "spec": {"containers": [container]}}
    status: dict[str, Any] = {"conditions": []}
    if number % 10 == 0:
        held = {"name": "main", "count": 1, "flavors": {_KEY: "mi300x"}, "resourceUsage": {_KEY: "1"}}
        status["admission"] = {"clusterQueue": queue, "podSetAssignments": [held]}
        status["conditions"] = [
            {"type": kind, "status": "True", "lastTransitionTime": _TIME, "message": "", "reason": kind}
            for kind in ("QuotaReserved", "Admitted")
        ]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": f"job-{number}", "controller": True}
    return {
        "metadata": {
            "name": f"job-{number}",
            "namespace": "team",
            "uid": f"workload-{number}",
            "creationTimestamp": f"2026-01-01T11:{number // 60 % 60:02}:{number % 60:02}Z",
            "ownerReferences": [owner],
        },
        "spec": {
            "queueName": queue,
            "priority": number % 3,
            "podSets": [{"name": "main", "count": 1, "template": template}],
        },
        "status": status,
    }


def _job(number: int) -> dict[str, Any]:
    return {
        "kind": "KaiwoJob",
        "metadata": {"name": f"job-{number}", "namespace": "team", "uid": f"run-{number}"},
        "spec": {"user": "ada@example.org", "duration": "1h", "image": "registry.example/train:1"},
        "status": {"status": "RUNNING", "startTime": _TIME},
    }


def _node(number: int) -> dict[str, Any]:
    amounts = {_KEY: "8", "cpu": "96", "memory": "1Ti"}
    labels = {"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM", "kaiwo/nodepool": f"pool-{number % 50}"}
    return {
        "metadata": {"name": f"node-{number}", "labels": labels},
        "spec": {},
        "status": {"allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def _pod(number: int, at: int) -> dict[str, Any]:
    container = {"name": "main", "resources": {"requests": {_KEY: "1", "cpu": "4", "memory": "32Gi"}}}
    return {
        "metadata": {"name": f"job-{number}-{at}", "namespace": "team", "labels": _labels(number)},
        "spec": {"nodeName": f"node-{number}", "containers": [container]},
        "status": {"phase": "Running"},
    }
