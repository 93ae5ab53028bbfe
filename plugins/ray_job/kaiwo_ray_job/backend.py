"""The code of the backend ``ray_job``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.plugin.backend_base import BackendBase
from kaiwo.plugin.kit.errors import SpecError
from kaiwo.plugin.kit.json_access import as_integer, as_map, as_maps, as_object, lenient_map
from kaiwo.workload.pods.ray_cluster import allocate_cluster, check_cluster
from kaiwo_ray_job.kinds import RAY_JOB
from kaiwo_ray_job.observe import observe
from kaiwo_ray_job.render import BLOCK, CLUSTER, SUBMITTED_BY_POD, SUBMITTER, ray_job_spec, render

if TYPE_CHECKING:
    from kaiwo.plugin.facts import Allocation, Blocked
    from kaiwo.plugin.kit.workload import Workload
    from kaiwo.plugin.observation import Observation, Outcome
    from kaiwo.plugin.rendering import AllocationInput, Rendered, RenderInput

_HEAD, _SUBMITTER = "head", "submitter"
"""Kueue's names of the pod sets beside the worker groups."""


class RayJobBackend(BackendBase):
    """Runs a KaiwoJob as a ray.io/v1 RayJob."""

    def serves(self, workload: Workload) -> bool:
        """A KaiwoJob with ``ray: true`` or an embedded RayJob."""
        return workload.spec.ray or self.block in workload.blocks

    def validate(self, workload: Workload) -> None:
        """Check the embedded RayJob."""
        as_object(workload.blocks.get(self.block), BLOCK, RAY_JOB)
        spec = ray_job_spec(workload)
        for name in ("activeDeadlineSeconds", "ttlSecondsAfterFinished", "backoffLimit"):
            as_integer(spec.get(name), f"{BLOCK}.spec.{name}")
        if spec.get("clusterSelector"):
            raise SpecError(
                f"{BLOCK}.spec.clusterSelector",
                "cannot be used: a job on a cluster that somebody else runs has no pods of its own to queue "
                "and to size; remove it, the job gets a cluster of its own",
            )
        if "rayClusterConfig" in spec:
            raise SpecError(
                f"{BLOCK}.spec.rayClusterConfig", "unknown field of a RayJob; its cluster is rayClusterSpec"
            )
        by_pod = (spec.get("submissionMode") or SUBMITTED_BY_POD) == SUBMITTED_BY_POD
        others = (_HEAD, _SUBMITTER) if by_pod else (_HEAD,)
        check_cluster(spec.get("rayClusterSpec"), CLUSTER, others)
        template = as_map(spec.get("submitterPodTemplate"), SUBMITTER)
        pod = as_map(template.get("spec"), f"{SUBMITTER}.spec")
        as_maps(pod.get("containers"), f"{SUBMITTER}.spec.containers")

    def allocate(self, inp: AllocationInput) -> Allocation | Blocked:
        """The GPUs of the workers; the head has none."""
        spec = lenient_map(lenient_map(inp.workload.blocks.get(self.block)).get("spec"))
        return allocate_cluster(inp, spec.get("rayClusterSpec"))

    def render(self, inp: RenderInput) -> Rendered:
        """The RayJob of a workload."""
        return render(inp)

    def observe(self, observation: Observation) -> Outcome:
        """The status of a RayJob."""
        return observe(observation)
