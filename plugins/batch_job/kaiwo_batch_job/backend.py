"""The code of the backend ``batch_job``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.plugin.backend_base import BackendBase
from kaiwo.plugin.kit import allocation
from kaiwo.plugin.kit.errors import SpecError
from kaiwo.plugin.kit.json_access import as_integer, as_map, as_maps, as_object, lenient_map
from kaiwo.plugin.kit.kinds import JOB
from kaiwo.plugin.kit.names import MAX_LABEL, name_problem
from kaiwo_batch_job.observe import observe
from kaiwo_batch_job.render import BLOCK, job_spec, render

if TYPE_CHECKING:
    from kaiwo.plugin.facts import Allocation, Blocked
    from kaiwo.plugin.kit.workload import Workload
    from kaiwo.plugin.observation import Observation, Outcome
    from kaiwo.plugin.rendering import AllocationInput, Rendered, RenderInput

_INTEGERS = (
    "parallelism",
    "completions",
    "ttlSecondsAfterFinished",
    "activeDeadlineSeconds",
    "backoffLimit",
)


class BatchJobBackend(BackendBase):
    """Runs a KaiwoJob as a batch/v1 Job."""

    def serves(self, workload: Workload) -> bool:
        """A KaiwoJob that does not request Ray."""
        return not workload.spec.ray and "rayJob" not in workload.blocks

    def validate(self, workload: Workload) -> None:
        """Check the embedded Job."""
        as_object(workload.blocks.get(self.block), BLOCK, JOB)
        spec = job_spec(workload)
        for name in _INTEGERS:
            as_integer(spec.get(name), f"{BLOCK}.spec.{name}")
        template = as_map(spec.get("template"), f"{BLOCK}.spec.template")
        pod = as_map(template.get("spec"), f"{BLOCK}.spec.template.spec")
        as_maps(pod.get("containers"), f"{BLOCK}.spec.template.spec.containers")
        completions = spec.get("completions")
        if spec.get("completionMode") == "Indexed" and completions:
            # The name and the highest index are the host name of a pod.
            problem = name_problem(workload.name, MAX_LABEL - len(f"-{completions - 1}"))
            if problem:
                raise SpecError(
                    "metadata.name", f"{problem}; the index of {completions} completions is added"
                )

    def allocate(self, inp: AllocationInput) -> Allocation | Blocked:
        """All GPUs in one pod; with an embedded parallelism each of its pods gets as many.

        The nodes must have room for as many pods as the queue system starts the Job with.
        """
        block = lenient_map(inp.workload.blocks.get(self.block))
        spec = lenient_map(block.get("spec"))
        parallelism = spec.get("parallelism")
        pods = parallelism if isinstance(parallelism, int) and parallelism >= 0 else 1
        completions = spec.get("completions")
        if isinstance(completions, int) and completions > 0:
            # No more pods than completions ever run at the same time.
            pods = min(pods, completions)
        template = spec.get("template")
        fewest = inp.fewest_pods(
            {
                "apiVersion": JOB.api_version,
                "kind": JOB.kind,
                "metadata": lenient_map(block.get("metadata")),
                "spec": {"parallelism": pods},
            }
        )
        return allocation.one_pod(inp, template if isinstance(template, dict) else None, pods, fewest)

    def render(self, inp: RenderInput) -> Rendered:
        """The Job of a workload."""
        return render(inp)

    def observe(self, observation: Observation) -> Outcome:
        """The status of a Job."""
        return observe(observation)
