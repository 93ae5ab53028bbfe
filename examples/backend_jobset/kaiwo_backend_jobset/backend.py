"""The code of the backend, imported when the first workload with a ``jobSet`` is planned.

``serves`` is not implemented here: the default is that the backend's own block is given, and that is right.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.plugin.backend_base import BackendBase
from kaiwo.plugin.kit import allocation
from kaiwo.plugin.kit.errors import SpecError
from kaiwo.plugin.kit.json_access import as_integer, as_map, as_maps, as_object, lenient_map, lenient_maps
from kaiwo.plugin.kit.names import MAX_LABEL, name_problem
from kaiwo_backend_jobset.observe import observe
from kaiwo_backend_jobset.plugin import JOB_SET
from kaiwo_backend_jobset.render import BLOCK, render

if TYPE_CHECKING:
    from kaiwo.plugin.facts import Allocation, Blocked
    from kaiwo.plugin.kit.kinds import Object
    from kaiwo.plugin.kit.workload import Workload
    from kaiwo.plugin.observation import Observation, Outcome
    from kaiwo.plugin.rendering import AllocationInput, Rendered, RenderInput


class JobSetBackend(BackendBase):
    """Runs a KaiwoJob as a jobset.x-k8s.io/v1alpha2 JobSet."""

    def validate(self, workload: Workload) -> None:
        """Check the embedded JobSet; every pod's name must fit into a DNS label."""
        block = as_object(workload.blocks.get(self.block), BLOCK, JOB_SET)
        spec = as_map(block.get("spec"), f"{BLOCK}.spec")
        as_integer(spec.get("ttlSecondsAfterFinished"), f"{BLOCK}.spec.ttlSecondsAfterFinished")
        for position, job in enumerate(as_maps(spec.get("replicatedJobs"), f"{BLOCK}.spec.replicatedJobs")):
            _check_replicated_job(workload, job, f"{BLOCK}.spec.replicatedJobs[{position}]")

    def allocate(self, inp: AllocationInput) -> Allocation | Blocked:
        """``replicas`` pods with equal shares; in an embedded JobSet each pod of the first replicated Job."""
        spec = lenient_map(lenient_map(inp.workload.blocks.get(self.block)).get("spec"))
        jobs = lenient_maps(spec.get("replicatedJobs"))
        if not jobs:
            return allocation.even(inp)
        job_spec = lenient_map(lenient_map(jobs[0].get("template")).get("spec"))
        pods = _count(jobs[0], "replicas") * _count(job_spec, "parallelism")
        template = job_spec.get("template")
        return allocation.one_pod(inp, template if isinstance(template, dict) else None, pods)

    def render(self, inp: RenderInput) -> Rendered:
        """The JobSet of a workload."""
        return render(inp)

    def observe(self, observation: Observation) -> Outcome:
        """The status of a JobSet."""
        return observe(observation)


def _check_replicated_job(workload: Workload, job: Object, path: str) -> None:
    name = job.get("name")
    if not isinstance(name, str) or not name:
        raise SpecError(f"{path}.name", "is required; JobSet names the Jobs after it")
    as_integer(job.get("replicas"), f"{path}.replicas")
    job_spec = as_map(as_map(job.get("template"), f"{path}.template").get("spec"), f"{path}.template.spec")
    for field in ("parallelism", "completions", "backoffLimit"):
        as_integer(job_spec.get(field), f"{path}.template.spec.{field}")
    template = as_map(job_spec.get("template"), f"{path}.template.spec.template")
    pod = as_map(template.get("spec"), f"{path}.template.spec.template.spec")
    as_maps(pod.get("containers"), f"{path}.template.spec.template.spec.containers")
    # JobSet gives each pod the host name <jobset>-<replicated job>-<job index>-<pod index>.
    last = f"-{name}-{_count(job, 'replicas') - 1}-{_count(job_spec, 'completions') - 1}"
    if problem := name_problem(workload.name, MAX_LABEL - len(last), "dns1035"):
        raise SpecError("metadata.name", f"{problem}; {last} is added to the host names of its pods")


def _count(obj: Object, field: str) -> int:
    value = obj.get(field)
    return value if isinstance(value, int) and value >= 0 else 1
