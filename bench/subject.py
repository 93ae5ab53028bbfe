"""The KaiwoJob that is created a thousand times, and the Job it becomes.

It is an ordinary one: an image, a short entrypoint, two environment variables, one GPU.
"""

from __future__ import annotations

from typing import Any

from bench.server import NAMESPACES

PLUGINS = ("batch_job", "gpu_amd", "gpu_nvidia")
"""What the operator runs with, as this KaiwoJob needs it. A queue system would need its own controllers."""

QUEUE = "kaiwo"
"""The default queue."""

ENTRYPOINT = "set -e\npython train.py --epochs 3 --output /workload/out\n"


RUN_TIME = "kaiwo-sandbox/run-time"
"""The annotation for the fake nodes: how long a pod's containers run."""


def kaiwo_job(number: int, prefix: str, run_time: str = "") -> dict[str, Any]:
    """The KaiwoJob with that number; numbers go round the namespaces.

    Args:
        number: of the job.
        prefix: of its name.
        run_time: how long it runs on fake nodes, as a duration of Go; empty for their default, a second.
    """
    return {
        "apiVersion": "kaiwo.silogen.ai/v1alpha1",
        "kind": "KaiwoJob",
        "metadata": {
            "name": f"{prefix}-{number:05d}",
            "namespace": NAMESPACES[number % len(NAMESPACES)],
            "labels": {"experiment": "baseline"},
            **({"annotations": {RUN_TIME: run_time}} if run_time else {}),
        },
        "spec": {
            "user": "jane.doe@example.com",
            "gpus": 1,
            "image": "registry.example.com/team/train:1.2",
            "entrypoint": ENTRYPOINT,
            "env": [{"name": "SEED", "value": "7"}, {"name": "WANDB_MODE", "value": "offline"}],
        },
    }


def finished_job(name: str, namespace: str, uid: str) -> dict[str, Any]:
    """The Job of :func:`kaiwo_job`, written out by hand: what the operator's rendering comes to."""
    labels = {
        "experiment": "baseline",
        "kaiwo.silogen.ai/name": name,
        "kaiwo.silogen.ai/run-id": uid,
        "kaiwo.silogen.ai/type": "job",
        "kaiwo.silogen.ai/user": "jane.doe-example.com",
    }
    resources = {"cpu": "4", "memory": "32Gi", "amd.com/gpu": "1"}
    owner = {
        "apiVersion": "kaiwo.silogen.ai/v1alpha1",
        "kind": "KaiwoJob",
        "name": name,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    environment = {
        "SEED": "7",
        "WANDB_MODE": "offline",
        "NUM_GPUS": "1",
        "NUM_REPLICAS": "1",
        "NUM_GPUS_PER_REPLICA": "1",
    }
    container = {
        "name": "workload",
        "image": "registry.example.com/team/train:1.2",
        "imagePullPolicy": "Always",
        "command": ["/bin/sh", "-c", ENTRYPOINT.strip()],
        "env": [{"name": key, "value": value} for key, value in environment.items()],
        "resources": {"requests": resources, "limits": resources},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [{"name": "dshm", "mountPath": "/dev/shm"}],  # noqa: S108 - the pod's, not this machine's
    }
    pod = {
        "restartPolicy": "Never",
        "securityContext": {
            "runAsUser": 1000,
            "runAsGroup": 1000,
            "fsGroup": 1000,
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "schedulerName": "kaiwo-scheduler",
        "tolerations": [{"key": "kaiwo.silogen.ai/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        "containers": [container],
        "volumes": [{"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}],
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": labels,
            "annotations": {"kaiwo.silogen.ai/resolved": RESOLVED},
            "ownerReferences": [owner],
        },
        "spec": {
            "backoffLimit": 0,
            "ttlSecondsAfterFinished": 3600,
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def queued_job(number: int, prefix: str, run_time: str = "") -> dict[str, Any]:
    """The Job that :func:`kaiwo_job` becomes in the default queue, as somebody gives it to Kueue directly."""
    of = kaiwo_job(number, prefix)["metadata"]
    job = finished_job(of["name"], of["namespace"], f"{prefix}-{number}")
    del job["metadata"]["ownerReferences"]
    job["metadata"]["labels"] = {**job["metadata"]["labels"], "kueue.x-k8s.io/queue-name": QUEUE}
    job["spec"]["suspend"] = True
    if run_time:
        job["spec"]["template"]["metadata"]["annotations"] = {RUN_TIME: run_time}
    return job


RESOLVED = (
    '{"allocation":{"vendor":"amd","resource_key":"amd.com/gpu","replicas":1,"gpus_per_replica":1},'
    '"scheduler_name":"kaiwo-scheduler","template_version":2}'
)


def first_status() -> dict[str, Any]:
    """The first status that the operator writes, in size and shape."""
    now = "2026-01-01T00:00:00Z"
    condition = {
        "status": "True",
        "lastTransitionTime": now,
        "observedGeneration": 1,
        "message": "It can run.",
    }
    return {
        "status": "STARTING",
        "reason": "NoContainerYet",
        "message": "The Job exists; no container runs yet.",
        "observedGeneration": 1,
        "allocation": {"vendor": "amd", "resourceKey": "amd.com/gpu", "replicas": 1, "gpusPerReplica": 1},
        "conditions": [
            {**condition, "type": "Schedulable", "reason": "Fits"},
            {**condition, "type": "SpecApplied", "reason": "Applied"},
        ],
    }
