"""What one workload takes in etcd and in the API server: the objects themselves, by kind.

Bytes are those of the keys and values in etcd, read from etcd itself. The operator makes Jobs and statuses;
pods are made of the Jobs' templates, bound to a node and with the status of a running pod. Kueue does not run
here: its Workload object is not among them.
"""

from __future__ import annotations

import base64
import http.client
import json
from contextlib import closing
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from bench import fanout
from bench.report import Figure
from bench.server import NAMESPACES
from bench.subjects import started

if TYPE_CHECKING:
    from bench.server import Server

_KINDS = {
    "KaiwoJob": "/registry/kaiwo.silogen.ai/kaiwojobs/",
    "Job": "/registry/jobs/",
    "pod": "/registry/pods/",
    "Event": "/registry/events/",
}
_NOW = "2026-01-01T00:00:00Z"
_RUNNING: dict[str, Any] = {
    "phase": "Running",
    "hostIP": "10.0.0.1",
    "podIP": "10.1.0.1",
    "podIPs": [{"ip": "10.1.0.1"}],
    "startTime": _NOW,
    "conditions": [
        {"type": type_, "status": "True", "lastTransitionTime": _NOW, "lastProbeTime": None}
        for type_ in ("PodScheduled", "PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready")
    ],
    "containerStatuses": [
        {
            "name": "workload",
            "image": "registry.example.com/team/train:1.2",
            "imageID": f"registry.example.com/team/train@sha256:{'0' * 64}",
            "containerID": f"containerd://{'0' * 64}",
            "ready": True,
            "started": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": _NOW}},
            "lastState": {},
        }
    ],
}


def run(server: Server, count: int) -> list[Figure]:
    """Make workloads with everything that belongs to them, and measure."""
    server.clear()
    before = server.heap_target()
    with started(server, "operator") as program:
        fanout.measure(server, program, "operator", count)
    for namespace in NAMESPACES:
        server.create(f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "default"}})
        jobs = server.request("GET", f"/apis/batch/v1/namespaces/{namespace}/jobs")["items"]
        for job in jobs:
            _pod(server, namespace, job)
    grown = server.heap_target() - before
    figures = []
    for kind, prefix in _KINDS.items():
        number, size = _stored(server, prefix)
        figures.append(Figure(f"etcd: {kind}s per workload", number / count, ""))
        figures.append(Figure(f"etcd: bytes of a {kind}", size / max(1, number), "B"))
    figures.append(Figure("API server: heap per workload", grown / 1024 / count, "KiB"))
    for namespace in NAMESPACES:
        server.request("DELETE", f"/api/v1/namespaces/{namespace}/pods", {"gracePeriodSeconds": 0})
    server.clear()
    return figures


def _pod(server: Server, namespace: str, job: dict[str, Any]) -> None:
    """The running pod of a Job."""
    name, template = f"{job['metadata']['name']}-abcde", job["spec"]["template"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job["metadata"]["name"]}
    metadata = {
        **{
            key: template["metadata"][key] for key in ("labels", "annotations") if key in template["metadata"]
        },
        "name": name,
        "ownerReferences": [
            {**owner, "uid": job["metadata"]["uid"], "controller": True, "blockOwnerDeletion": True}
        ],
    }
    pods = f"/api/v1/namespaces/{namespace}/pods"
    server.create(pods, {"metadata": metadata, "spec": {**template["spec"], "nodeName": "gpu-0"}})
    live = server.request("GET", f"{pods}/{name}")
    server.request("PUT", f"{pods}/{name}/status", {**live, "status": {**live["status"], **_RUNNING}})


def _stored(server: Server, prefix: str) -> tuple[int, int]:
    """Number and bytes of the keys in etcd that begin with a prefix."""
    first, last = prefix.encode(), prefix.encode()[:-1] + b"0"  # the byte after the slash
    body = {"key": base64.b64encode(first).decode(), "range_end": base64.b64encode(last).decode()}
    host = urlsplit(server.etcd_url).netloc
    with closing(http.client.HTTPConnection(host, timeout=60)) as connection:
        connection.request("POST", "/v3/kv/range", json.dumps(body))
        found = json.load(connection.getresponse()).get("kvs", [])
    return len(found), sum(len(base64.b64decode(kv[part])) for kv in found for part in ("key", "value"))
