"""The code of the backend ``deployment``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.plugin.backend_base import BackendBase
from kaiwo.plugin.kit import allocation
from kaiwo.plugin.kit.json_access import as_integer, as_map, as_maps, as_object, lenient_map
from kaiwo.plugin.kit.kinds import DEPLOYMENT
from kaiwo_deployment.observe import observe
from kaiwo_deployment.render import BLOCK, render

if TYPE_CHECKING:
    from kaiwo.plugin.facts import Allocation, Blocked
    from kaiwo.plugin.kit.kinds import Object
    from kaiwo.plugin.kit.workload import Workload
    from kaiwo.plugin.observation import Observation, Outcome
    from kaiwo.plugin.rendering import AllocationInput, Rendered, RenderInput

_INTEGERS = ("replicas", "progressDeadlineSeconds", "minReadySeconds", "revisionHistoryLimit")


class DeploymentBackend(BackendBase):
    """Runs a KaiwoService as an apps/v1 Deployment."""

    def serves(self, workload: Workload) -> bool:
        """A KaiwoService with neither ``ray: true`` nor an embedded RayService."""
        return not workload.spec.ray and "rayService" not in workload.blocks

    def validate(self, workload: Workload) -> None:
        """Check the embedded Deployment."""
        block = as_object(workload.blocks.get(self.block), BLOCK, DEPLOYMENT)
        spec = as_map(block.get("spec"), f"{BLOCK}.spec")
        for name in _INTEGERS:
            as_integer(spec.get(name), f"{BLOCK}.spec.{name}")
        template = as_map(spec.get("template"), f"{BLOCK}.spec.template")
        pod = as_map(template.get("spec"), f"{BLOCK}.spec.template.spec")
        as_maps(pod.get("containers"), f"{BLOCK}.spec.template.spec.containers")

    def allocate(self, inp: AllocationInput) -> Allocation | Blocked:
        """``replicas`` pods, each with its share of the GPUs."""
        spec = lenient_map(lenient_map(inp.workload.blocks.get(self.block)).get("spec"))
        template = spec.get("template")
        return allocation.even(inp, template if isinstance(template, dict) else None)

    def render(self, inp: RenderInput) -> Rendered:
        """The Deployment of a workload, and its Service where the primary container declares ports."""
        return render(inp)

    def observe(self, observation: Observation) -> Outcome:
        """The status of a Deployment."""
        return observe(observation)

    def merge_live(self, desired: Object, live: Object) -> Object:
        """The Deployment with the selector of the live one, which is immutable; its pods have all labels."""
        selector = lenient_map(lenient_map(live.get("spec")).get("selector"))
        if not selector or selector == desired["spec"]["selector"]:
            return desired
        return {**desired, "spec": {**desired["spec"], "selector": selector}}
