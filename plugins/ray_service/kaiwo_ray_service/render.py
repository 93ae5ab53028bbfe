"""From a KaiwoService to a RayService in an AppWrapper."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from kaiwo.plugin.kit.json_access import as_map, lenient_map, without_nulls
from kaiwo.plugin.kit.render import Origins, child_metadata
from kaiwo.plugin.rendering import Rendered
from kaiwo.workload.pods.ray_cluster import hosts_of, ray_cluster

if TYPE_CHECKING:
    from kaiwo.plugin.kit.kinds import Object
    from kaiwo.plugin.kit.workload import Workload
    from kaiwo.plugin.rendering import RenderInput

BLOCK = "spec.rayService"
CLUSTER = f"{BLOCK}.spec.rayClusterConfig"
SERVE = "serveConfigV2"

_INCREMENTAL = "NewClusterWithIncrementalUpgrade"
_QUEUE_KEYS = "kueue.x-k8s.io/"

GRACE_PERIODS = {
    "workload.codeflare.dev.appwrapper/admissionGracePeriodDuration": "24h",
    "workload.codeflare.dev.appwrapper/warmupGracePeriodDuration": "24h",
    "workload.codeflare.dev.appwrapper/failureGracePeriodDuration": "10m",
    "workload.codeflare.dev.appwrapper/retryLimit": "2147483647",
}
"""Annotations of the AppWrapper: with its own defaults a slow image pull or one lost pod deletes the service.
A day is enough for any image, Ray replaces a lost pod within ten minutes, and the limit is the largest."""


def serve_config(workload: Workload) -> object:
    """The applications of Ray Serve: the workload's own field, else the embedded one; None without any."""
    embedded = lenient_map(lenient_map(workload.blocks.get("rayService")).get("spec")).get(SERVE)
    return workload.blocks.get(SERVE) or embedded or None


def ray_service(inp: RenderInput, origins: Origins) -> tuple[Object, list[str]]:
    """The RayService of a workload with the queue's labels, and warnings.

    Raises:
        SpecError: the embedded RayService has an impossible shape.
        PluginError: a plugin's contribution to the pods failed.
    """
    block = as_map(inp.workload.blocks.get("rayService"), BLOCK)
    spec: Object = without_nulls(as_map(block.get("spec"), f"{BLOCK}.spec"))
    cluster, warnings = ray_cluster(inp, spec.get("rayClusterConfig"), CLUSTER, origins)
    spec["rayClusterConfig"] = cluster
    strategy = as_map(spec.get("upgradeStrategy"), f"{BLOCK}.spec.upgradeStrategy").get("type")
    if strategy == _INCREMENTAL:
        warnings.append(
            f"{BLOCK}.spec.upgradeStrategy.type: {_INCREMENTAL} needs Ray's autoscaler, which is off; "
            "KubeRay ignores or refuses it: use NewCluster"
        )
    applications = serve_config(inp.workload)
    if applications is not None:
        spec[SERVE] = applications
        if inp.workload.blocks.get(SERVE):
            origins.note(f"{BLOCK}.spec.{SERVE}", "user", "spec.serveConfigV2")
    else:
        spec.pop(SERVE, None)
        warnings.append(f"spec.{SERVE} is empty: Ray has nothing to serve")
    if inp.workload.spec.entrypoint:
        warnings.append("spec.entrypoint: is ignored on Ray; use serveConfigV2")
    made = {
        "apiVersion": "ray.io/v1",
        "kind": "RayService",
        "metadata": child_metadata(inp, block, BLOCK, origins),
        "spec": spec,
    }
    return made, warnings


def render(inp: RenderInput) -> Rendered:
    """The AppWrapper of a workload with its RayService inside.

    Raises:
        SpecError: the embedded RayService has an impossible shape.
        PluginError: a plugin's contribution to the pods failed.
    """
    inside, own = Origins(f"{BLOCK}."), Origins()
    service, warnings = ray_service(dataclasses.replace(inp, queue=None), inside)
    metadata = {key: value for key, value in service["metadata"].items() if key != "ownerReferences"}
    for name in ("labels", "annotations"):
        if name in metadata:
            metadata[name] = {k: v for k, v in metadata[name].items() if not k.startswith(_QUEUE_KEYS)}
    service["metadata"] = metadata
    cluster = service["spec"]["rayClusterConfig"]
    block = as_map(inp.workload.blocks.get("rayService"), BLOCK)
    outer = child_metadata(inp, block, BLOCK, own)
    outer["annotations"] = {**GRACE_PERIODS, **outer.get("annotations", {})}
    spec: Object = {"components": [{"podSets": _pod_sets(cluster), "template": service}]}
    if inp.queue and inp.queue.suspend:
        spec["suspend"] = True
        own.note("spec.suspend", "queue", "the queue starts it")
    child = {
        "apiVersion": "workload.codeflare.dev/v1beta2",
        "kind": "AppWrapper",
        "metadata": outer,
        "spec": spec,
    }
    at = "spec.components[0].template"
    origins = {**own.known(), **{f"{at}.{path}": origin for path, origin in inside.known().items()}}
    return Rendered(child, warnings=tuple(warnings), origins=origins)


def _pod_sets(cluster: Object) -> list[Object]:
    """Where AppWrapper finds the pods: it knows nothing of RayServices itself."""
    at = "template.spec.rayClusterConfig"
    workers = [
        {
            "path": f"{at}.workerGroupSpecs[{position}].template",
            "replicas": group["replicas"] * hosts_of(group),
        }
        for position, group in enumerate(cluster["workerGroupSpecs"])
    ]
    return [{"path": f"{at}.headGroupSpec.template", "replicas": 1}, *workers]
