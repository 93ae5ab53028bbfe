"""CPU of ``kaiwo why`` on a job whose image cannot be pulled, beside ``kaiwo list``.

Everything that the verdict is made from is written by hand: the KaiwoJob with a status, its Job, a pod with
an event, and the Lease of an operator. So neither an operator nor a scheduler runs.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from bench.access import KAIWO_JOBS, OBSERVER
from bench.report import Figure, Target
from bench.server import NAMESPACES

if TYPE_CHECKING:
    from bench.server import Server

_RUNS = 11
_NAME = "trouble"
_NAMESPACE = NAMESPACES[0]
_CORE = f"/api/v1/namespaces/{_NAMESPACE}"
_IMAGE = "registry.example/trian:1"


def run(server: Server) -> list[Figure]:
    """Milliseconds of CPU of a whole process; `kaiwo list` is the floor."""
    _write(server)
    floor, own = _cpu(server, "list"), _cpu(server, "why", _NAME)
    server.request("DELETE", f"{KAIWO_JOBS.format(namespace=_NAMESPACE)}/{_NAME}")
    return [Figure("CPU of kaiwo why", own, "ms", floor, Target(400))]


def _cpu(server: Server, *arguments: str) -> float:
    """Median of the CPU that a command takes; its first run, which fills the caches, is not counted."""
    program = str(Path(sys.executable).with_name("kaiwo"))
    environment = {**os.environ, "KUBECONFIG": str(server.kubeconfig(OBSERVER))}
    taken = []
    for _ in range(_RUNS + 1):
        before = _children()
        subprocess.run(
            [program, "-n", _NAMESPACE, *arguments], check=True, stdout=subprocess.DEVNULL, env=environment
        )
        taken.append((_children() - before) * 1000)
    return median(taken[1:])


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _write(server: Server) -> None:
    path = KAIWO_JOBS.format(namespace=_NAMESPACE)
    job = server.request(
        "POST",
        path,
        {
            "apiVersion": "kaiwo.silogen.ai/v1alpha1",
            "kind": "KaiwoJob",
            "metadata": {"name": _NAME},
            "spec": {"image": _IMAGE},
        },
    )
    labels = {"kaiwo.silogen.ai/run-id": job["metadata"]["uid"]}
    container = {"name": "workload", "image": _IMAGE}
    template = {"metadata": {"labels": labels}, "spec": {"restartPolicy": "Never", "containers": [container]}}
    child = server.request(
        "POST",
        f"/apis/batch/v1/namespaces/{_NAMESPACE}/jobs",
        {"metadata": {"name": _NAME, "labels": labels}, "spec": {"template": template}},
    )
    job["status"] = {
        "status": "STARTING",
        "reason": "ImagePullBackOff",
        "message": f"image '{_IMAGE}' cannot be pulled",
        "childUID": child["metadata"]["uid"],
        "observedGeneration": job["metadata"]["generation"],
        "allocation": {"backend": "batch_job"},
    }
    server.request("PUT", f"{path}/{_NAME}/status", job)
    server.create(f"{_CORE}/serviceaccounts", {"metadata": {"name": "default"}})
    pod = server.request("POST", f"{_CORE}/pods", _pod(child, labels, container))
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "manifest unknown"}}
    state = {**container, "imageID": "", "ready": False, "restartCount": 0, "state": waiting}
    pod["status"] = {"phase": "Pending", "containerStatuses": [state]}
    server.request("PUT", f"{_CORE}/pods/{_NAME}-x/status", pod)
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    _write_event(server, pod, now)
    server.create(
        f"/apis/coordination.k8s.io/v1/namespaces/{_NAMESPACE}/leases",
        {
            "metadata": {"name": "kaiwo-operator"},
            "spec": {"holderIdentity": "bench", "leaseDurationSeconds": 3600, "renewTime": now},
        },
    )


def _pod(child: dict[str, Any], labels: dict[str, str], container: dict[str, str]) -> dict[str, Any]:
    owner = {
        "apiVersion": "batch/v1", "kind": "Job", "name": _NAME, "uid": child["metadata"]["uid"],
        "controller": True,
    }  # fmt: skip
    return {
        "metadata": {"name": f"{_NAME}-x", "labels": labels, "ownerReferences": [owner]},
        "spec": {"nodeName": "gpu-0", "restartPolicy": "Never", "containers": [container]},
    }


def _write_event(server: Server, pod: dict[str, Any], now: str) -> None:
    about = {
        "apiVersion": "v1", "kind": "Pod", "namespace": _NAMESPACE, "name": pod["metadata"]["name"],
        "uid": pod["metadata"]["uid"],
    }  # fmt: skip
    server.create(
        f"{_CORE}/events",
        {
            "metadata": {"name": "trouble.1"},
            "involvedObject": about,
            "type": "Warning",
            "reason": "Failed",
            "message": f'Failed to pull image "{_IMAGE}": manifest unknown',
            "lastTimestamp": now[:19] + "Z",
        },
    )
