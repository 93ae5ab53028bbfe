"""From a KaiwoJob to a Job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.plugin.kit.json_access import as_map, lenient_map, without_nulls
from kaiwo.plugin.kit.render import Origins, PodRole, child_metadata, pod_template
from kaiwo.plugin.rendering import Rendered

if TYPE_CHECKING:
    from kaiwo.plugin.kit.kinds import Object
    from kaiwo.plugin.kit.workload import Workload
    from kaiwo.plugin.rendering import RenderInput

BLOCK = "spec.job"
BACKOFF_LIMIT = 0
"""A retry would use GPUs that nobody requested."""

TTL_SECONDS = 3600
"""How long a finished Job stays unless the embedded one sets it."""


_OF_ONE_JOB = (
    "batch.kubernetes.io/controller-uid",
    "batch.kubernetes.io/job-name",
    "controller-uid",
    "job-name",
)
"""Labels that the API server sets on a Job and its pods. They come along when a live Job is pasted, and it
refuses a Job with those of another one."""


def job_spec(workload: Workload) -> Object:
    """The spec of the embedded Job.

    Raises:
        SpecError: it is no object.
    """
    block = as_map(workload.blocks.get("job"), BLOCK)
    return as_map(block.get("spec"), f"{BLOCK}.spec")


def _template_of_any_job(template: object) -> object:
    metadata = lenient_map(template).get("metadata")
    return {**lenient_map(template), "metadata": _of_any_job(metadata)} if metadata else template


def _of_any_job(metadata: object) -> object:
    """Metadata without the labels of the Job that they were copied from."""
    labels = lenient_map(metadata).get("labels")
    if not isinstance(labels, dict) or not labels.keys() & set(_OF_ONE_JOB):
        return metadata
    kept = {key: value for key, value in labels.items() if key not in _OF_ONE_JOB}
    return {**lenient_map(metadata), "labels": kept}


def _warnings(workload: Workload) -> list[str]:
    """Numbers that a plain Job does not use, with the messages of validation."""
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


def _retries(spec: Object) -> list[str]:
    """Warnings about retries that a Job asks for beside its backoffLimit: the first failure ends it."""
    warnings = []
    if "backoffLimitPerIndex" in spec:
        warnings.append(
            f"{BLOCK}.spec.backoffLimitPerIndex: {spec['backoffLimitPerIndex']} has no effect: backoffLimit "
            f"is {BACKOFF_LIMIT}, so the first failure of any index ends the job"
        )
    if lenient_map(lenient_map(spec.get("template")).get("spec")).get("restartPolicy") == "OnFailure":
        warnings.append(
            f"{BLOCK}.spec.template.spec.restartPolicy: OnFailure has no effect but that the pod is deleted "
            f"with its log when it fails: backoffLimit is {BACKOFF_LIMIT}; use Never"
        )
    return warnings


def render(inp: RenderInput) -> Rendered:
    """The Job of a workload.

    Raises:
        SpecError: the embedded Job has an impossible shape.
        PluginError: a plugin's contribution to the pods failed.
    """
    origins = Origins(f"{BLOCK}.")
    block = as_map(inp.workload.blocks.get("job"), BLOCK)
    spec: Object = without_nulls(job_spec(inp.workload))
    warnings = _warnings(inp.workload)
    if not spec.get("manualSelector"):
        block = {**block, "metadata": _of_any_job(block.get("metadata"))}
        spec["template"] = _template_of_any_job(spec.get("template"))
        if spec.pop("selector", None):
            warnings.append(f"{BLOCK}.spec.selector is not used: Kubernetes makes it, without manualSelector")
    if spec.get("backoffLimit", BACKOFF_LIMIT) != BACKOFF_LIMIT:
        warnings.append(
            f"{BLOCK}.spec.backoffLimit: {spec['backoffLimit']} is not used, it is {BACKOFF_LIMIT}: "
            "a retry would take GPUs that nobody asked for; submit the job again instead"
        )
    spec["backoffLimit"] = BACKOFF_LIMIT
    origins.note(f"{BLOCK}.spec.backoffLimit", "default", "a job is not retried")
    warnings += _retries(spec)
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
