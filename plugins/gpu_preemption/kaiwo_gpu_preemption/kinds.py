"""The kinds that the plugin reads and writes."""

from __future__ import annotations

from typing import Final

from kaiwo.plugin.kit.kinds import DEPLOYMENT, JOB, POD, Resource

GPU_WORKLOAD: Final = Resource("kaiwo.silogen.ai", "v1alpha1", "GpuWorkload", "gpuworkloads")
STATEFUL_SET: Final = Resource("apps", "v1", "StatefulSet", "statefulsets")
REPLICA_SET: Final = Resource("apps", "v1", "ReplicaSet", "replicasets")
RAY_CLUSTER: Final = Resource("ray.io", "v1", "RayCluster", "rayclusters")
RAY_JOB: Final = Resource("ray.io", "v1", "RayJob", "rayjobs")
RAY_SERVICE: Final = Resource("ray.io", "v1", "RayService", "rayservices")
KAIWO_JOB: Final = Resource("kaiwo.silogen.ai", "v1alpha1", "KaiwoJob", "kaiwojobs")
KAIWO_SERVICE: Final = Resource("kaiwo.silogen.ai", "v1alpha1", "KaiwoService", "kaiwoservices")
APP_WRAPPER: Final = Resource("workload.codeflare.dev", "v1beta2", "AppWrapper", "appwrappers")
CRON_JOB: Final = Resource("batch", "v1", "CronJob", "cronjobs")
JOB_SET: Final = Resource("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets")

FOREIGN_ROOTS: Final = (POD, JOB, DEPLOYMENT, STATEFUL_SET, RAY_CLUSTER, RAY_JOB, RAY_SERVICE)
"""Kinds whose objects are deleted when their GPUs are taken back."""

KAIWO_ROOTS: Final = (KAIWO_JOB, KAIWO_SERVICE)
"""Kinds whose objects become TERMINATED instead."""

_KNOWN: Final = {
    (kind.group, kind.kind): kind
    for kind in (*FOREIGN_ROOTS, *KAIWO_ROOTS, REPLICA_SET, APP_WRAPPER, CRON_JOB, JOB_SET)
}


def kind_of_owner(api_version: str, kind: str) -> Resource | None:
    """The kind that an owner reference names, None for one that nobody here knows the URL of.

    Args:
        api_version: of the reference; only its group counts, and the plugin's own version is read.
        kind: of the reference.
    """
    group = api_version.rpartition("/")[0]
    return _KNOWN.get((group, kind))
