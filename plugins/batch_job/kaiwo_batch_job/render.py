"""From a KaiwoJob to a Job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.plugin.rendering import Rendered
from kaiwo.workload.errors import SpecError
from kaiwo.workload.gpus import allocation
from kaiwo.workload.json_access import as_integer, as_map, as_maps, lenient_map, without_nulls
from kaiwo.workload.metadata import MAX_LABEL, child_metadata, name_problem
from kaiwo.workload.pods.origins import Origins
from kaiwo.workload.pods.template import PodRole, pod_template

if TYPE_CHECKING:
    from kaiwo.api.workload import Workload
    from kaiwo.engine.resource import Object
    from kaiwo.plugin.facts import Allocation, Blocked
    from kaiwo.plugin.rendering import AllocationInput, RenderInput

BLOCK = "spec.job"
BACKOFF_LIMIT = 0
"""A retry would take GPUs that nobody asked for."""

TTL_SECONDS = 3600
"""How long a finished Job stays unless the embedded one says."""


def _spec(workload: Workload) -> Object:
    block = as_map(workload.blocks.get("job"), BLOCK)
    return as_map(block.get("spec"), f"{BLOCK}.spec")


def _problem(workload: Workload) -> None:
    block = as_map(workload.blocks.get("job"), BLOCK)
    as_map(block.get("metadata"), f"{BLOCK}.metadata")
    spec = _spec(workload)
    for name in (
        "parallelism",
        "completions",
        "ttlSecondsAfterFinished",
        "activeDeadlineSeconds",
        "backoffLimit",
    ):
        as_integer(spec.get(name), f"{BLOCK}.spec.{name}")
    template = as_map(spec.get("template"), f"{BLOCK}.spec.template")
    pod = as_map(template.get("spec"), f"{BLOCK}.spec.template.spec")
    as_maps(pod.get("containers"), f"{BLOCK}.spec.template.spec.containers")
    completions = spec.get("completions")
    if spec.get("completionMode") == "Indexed" and completions:
        # The name and the highest index are the host name of a pod.
        problem = name_problem(workload.name, MAX_LABEL - len(f"-{completions - 1}"))
        if problem:
            raise SpecError("metadata.name", f"{problem}; the index of {completions} completions is added")


def check(workload: Workload) -> tuple[tuple[str, str], ...]:
    """What is wrong with the embedded Job, as field path and message."""
    try:
        _problem(workload)
    except SpecError as error:
        return ((error.path, error.problem),)
    return ()


def allocate(inp: AllocationInput) -> Allocation | Blocked:
    """All GPUs in one pod; with an embedded parallelism each of its pods gets as many."""
    spec = lenient_map(lenient_map(inp.workload.blocks.get("job")).get("spec"))
    parallelism = spec.get("parallelism")
    pods = parallelism if isinstance(parallelism, int) and parallelism >= 0 else 1
    completions = spec.get("completions")
    if isinstance(completions, int) and completions > 0:
        # No more pods than completions ever run at the same time.
        pods = min(pods, completions)
    template = spec.get("template")
    return allocation.one_pod(inp, template if isinstance(template, dict) else None, pods)


def _warnings(workload: Workload) -> list[str]:
    """Numbers that a plain Job does not use; what validation says too, in its words."""
    spec, warnings = workload.spec, []
    if spec.replicas > 1:
        warnings.append(
            "spec.replicas: is ignored: a batch job is one pod; "
            f"set ray: true to spread the work, or {BLOCK}.spec.parallelism"
        )
    if spec.gpus_per_replica and spec.gpus and spec.gpus != spec.gpus_per_replica:
        warnings.append(
            f"spec.gpus: {spec.gpus} is not used, a plain job is one pod and gpusPerReplica says "
            f"{spec.gpus_per_replica}"
        )
    return warnings


def render(inp: RenderInput) -> Rendered:
    """The Job of a workload.

    Raises:
        SpecError: the embedded Job has an impossible shape.
        PluginFailure: a plugin's contribution to the pods failed.
    """
    origins = Origins(f"{BLOCK}.")
    block = as_map(inp.workload.blocks.get("job"), BLOCK)
    spec: Object = without_nulls(_spec(inp.workload))
    warnings = _warnings(inp.workload)
    if spec.get("backoffLimit", BACKOFF_LIMIT) != BACKOFF_LIMIT:
        warnings.append(
            f"{BLOCK}.spec.backoffLimit: {spec['backoffLimit']} is not used, it is {BACKOFF_LIMIT}: "
            "a retry would take GPUs that nobody asked for; submit the job again instead"
        )
    spec["backoffLimit"] = BACKOFF_LIMIT
    origins.note(f"{BLOCK}.spec.backoffLimit", "default", "a job is not retried")
    if "ttlSecondsAfterFinished" not in spec:
        spec["ttlSecondsAfterFinished"] = TTL_SECONDS
        origins.note(f"{BLOCK}.spec.ttlSecondsAfterFinished", "default", "a finished Job stays an hour")
    if inp.queue and inp.queue.suspend:
        spec["suspend"] = True
        origins.note(f"{BLOCK}.spec.suspend", "queue", "the queue starts it")
    role = PodRole(path=f"{BLOCK}.spec.template")
    spec["template"], more = pod_template(inp, spec.get("template"), role, origins)
    child = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": child_metadata(inp, block, BLOCK, origins),
        "spec": spec,
    }
    return Rendered(child, warnings=(*warnings, *more), origins=origins.known())
