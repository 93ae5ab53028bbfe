"""From a KaiwoJob to a JobSet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.plugin.kit import allocation
from kaiwo.plugin.kit.json_access import as_map, as_maps, without_nulls
from kaiwo.plugin.kit.render import Origins, PodRole, child_metadata, pod_template
from kaiwo.plugin.rendering import Rendered

if TYPE_CHECKING:
    from kaiwo.plugin.kit.kinds import Object
    from kaiwo.plugin.rendering import RenderInput

BLOCK = "spec.jobSet"

WORKERS = "workers"
"""Name of the replicated Job that is generated."""


def render(inp: RenderInput) -> Rendered:
    """The JobSet of a workload.

    The first replicated Job runs the entrypoint and gets the GPUs. The pods of the others get the remaining
    common fields: image, environment, volumes, labels.

    Raises:
        SpecError: the embedded JobSet has an impossible shape.
        PluginError: a plugin's contribution to the pods failed.
    """
    origins = Origins(f"{BLOCK}.")
    block = as_map(inp.workload.blocks.get("jobSet"), BLOCK)
    spec: Object = without_nulls(as_map(block.get("spec"), f"{BLOCK}.spec"))
    warnings: list[str] = []
    jobs = as_maps(spec.get("replicatedJobs"), f"{BLOCK}.spec.replicatedJobs")
    if not jobs:
        jobs = [_workers(inp.resolved.allocation.pods)]
        origins.note(f"{BLOCK}.spec.replicatedJobs", "template", "one Job with spec.replicas pods")
        warnings += allocation.recalculated(inp.workload)
    for position, job in enumerate(jobs):
        path = f"{BLOCK}.spec.replicatedJobs[{position}].template"
        template = as_map(job.setdefault("template", {}), path)
        job_spec = as_map(template.setdefault("spec", {}), f"{path}.spec")
        first = position == 0
        role = PodRole(path=f"{path}.spec.template", gpus=first, entrypoint=first)
        job_spec["template"], pod_warnings = pod_template(inp, job_spec.get("template"), role, origins)
        warnings += pod_warnings
    spec["replicatedJobs"] = jobs
    if inp.queue and inp.queue.suspend:
        spec["suspend"] = True
        origins.note(f"{BLOCK}.spec.suspend", "queue", "the queue starts it")
    child = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": child_metadata(inp, block, BLOCK, origins),
        "spec": spec,
    }
    return Rendered(child, warnings=tuple(warnings), origins=origins.known())


def _workers(pods: int) -> Object:
    # A retry would take GPUs that nobody asked for.
    spec = {"parallelism": pods, "completions": pods, "backoffLimit": 0}
    return {"name": WORKERS, "replicas": 1, "template": {"spec": spec}}
