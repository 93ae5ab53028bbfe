"""From a KaiwoJob to a RayJob."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from kaiwo.plugin.kit.json_access import as_map, without_nulls
from kaiwo.plugin.kit.render import Origins, child_metadata
from kaiwo.plugin.rendering import Rendered
from kaiwo.workload.pods.ray_cluster import ray_cluster
from kaiwo_ray_job.entrypoint import ray_entrypoint
from kaiwo_ray_job.submitter import submitter

if TYPE_CHECKING:
    from kaiwo.plugin.kit.kinds import Object
    from kaiwo.plugin.kit.workload import Workload
    from kaiwo.plugin.rendering import RenderInput

BLOCK = "spec.rayJob"
CLUSTER = f"{BLOCK}.spec.rayClusterSpec"
SUBMITTER = f"{BLOCK}.spec.submitterPodTemplate"
BACKOFF_LIMIT = 0
"""A retry would use GPUs that nobody requested."""

SUBMITTED_BY_POD = "K8sJobMode"
"""The submission mode in which a pod of its own submits the job; KubeRay's default."""

_FIXED = (
    ("shutdownAfterJobFinishes", True, "the cluster gives its GPUs back when the job has ended"),
    ("backoffLimit", BACKOFF_LIMIT, "a retry would take GPUs that nobody asked for; submit the job again"),
)

_DELETION = ("deletionStrategy", "deletionPolicy")
"""What KubeRay refuses beside shutdownAfterJobFinishes, or without a feature gate; the second before 1.5."""


def ray_job_spec(workload: Workload) -> Object:
    """The spec of the embedded RayJob.

    Raises:
        SpecError: it is no object.
    """
    block = as_map(workload.blocks.get("rayJob"), BLOCK)
    return as_map(block.get("spec"), f"{BLOCK}.spec")


def render(inp: RenderInput) -> Rendered:
    """The RayJob of a workload.

    Raises:
        SpecError: the embedded RayJob has an impossible shape.
        PluginError: a plugin's contribution to the pods failed.
    """
    origins = Origins(f"{BLOCK}.")
    block = as_map(inp.workload.blocks.get("rayJob"), BLOCK)
    spec: Object = without_nulls(ray_job_spec(inp.workload))
    warnings: list[str] = []
    for name, value, why in _FIXED:
        if spec.get(name, value) != value:
            given, used = json.dumps(spec[name]), json.dumps(value)
            warnings.append(f"{BLOCK}.spec.{name}: {given} is not used, it is {used}: {why}")
        spec[name] = value
        origins.note(f"{BLOCK}.spec.{name}", "default", why)
    warnings += [
        f"{BLOCK}.spec.{name} is not used: the cluster gives its GPUs back when the job has ended; "
        "ttlSecondsAfterFinished says how long it stays"
        for name in _DELETION
        if spec.pop(name, None)
    ]
    warnings += _entrypoint(spec, inp, origins)
    if inp.queue and inp.queue.suspend:
        spec["suspend"] = True
        origins.note(f"{BLOCK}.spec.suspend", "queue", "the queue starts it")
    cluster, cluster_warnings = ray_cluster(inp, spec.get("rayClusterSpec"), CLUSTER, origins)
    spec["rayClusterSpec"] = cluster
    if spec.get("submissionMode", SUBMITTED_BY_POD) == SUBMITTED_BY_POD:
        head = cluster["headGroupSpec"]["template"]["spec"]
        spec["submitterPodTemplate"] = submitter(
            inp, spec.get("submitterPodTemplate"), head, SUBMITTER, origins
        )
    child = {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": child_metadata(inp, block, BLOCK, origins),
        "spec": spec,
    }
    return Rendered(child, warnings=(*warnings, *cluster_warnings), origins=origins.known())


def _entrypoint(spec: Object, inp: RenderInput, origins: Origins) -> list[str]:
    text, warnings = ray_entrypoint(inp.workload.spec.entrypoint)
    if text:
        spec["entrypoint"] = text
        origins.note(f"{BLOCK}.spec.entrypoint", "user", "spec.entrypoint")
    elif not spec.get("entrypoint") and spec.get("submissionMode") != "InteractiveMode":
        return ["spec.entrypoint is empty: Ray has nothing to run"]
    return list(warnings)
