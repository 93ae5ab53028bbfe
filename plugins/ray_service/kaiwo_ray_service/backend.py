"""The code of the backend ``ray_service``, in an AppWrapper and without one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.plugin.backend_base import BackendBase
from kaiwo.plugin.kit.errors import SpecError
from kaiwo.plugin.kit.json_access import as_map, as_object, kind_of, lenient_map
from kaiwo.plugin.kit.yaml_text import DocumentError, Limits, parse_value
from kaiwo.workload.pods.ray_cluster import allocate_cluster, check_cluster
from kaiwo_ray_service import bare
from kaiwo_ray_service.kinds import BARE, RAY_SERVICE
from kaiwo_ray_service.observe import observe
from kaiwo_ray_service.render import BLOCK, CLUSTER, SERVE, render, serve_config

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaiwo.plugin.backend_base import VariantInput
    from kaiwo.plugin.facts import Allocation, Blocked
    from kaiwo.plugin.kit.kinds import Object, Resource
    from kaiwo.plugin.kit.workload import Workload
    from kaiwo.plugin.observation import Observation, Outcome
    from kaiwo.plugin.rendering import AllocationInput, Rendered, RenderInput

_SERVE_LIMITS = Limits(characters=256 * 1024, values=10_000)
"""What is read of `serveConfigV2`: at every plan of a service, and far more than any service has."""

_OTHER_POD_SETS = ("head",)
"""Kueue's name of the pod set beside the worker groups."""


class _RayServiceBase(BackendBase):
    """What both forms have in common."""

    def serves(self, workload: Workload) -> bool:
        """A KaiwoService with ``ray: true`` or an embedded RayService."""
        return workload.spec.ray or self.block in workload.blocks

    def validate(self, workload: Workload) -> None:
        """Check the embedded RayService and the applications of Ray Serve."""
        block = as_object(workload.blocks.get(self.block), BLOCK, RAY_SERVICE)
        spec = as_map(block.get("spec"), f"{BLOCK}.spec")
        if "rayClusterSpec" in spec:
            # The API server checks nothing inside an AppWrapper; the service would run on another cluster.
            raise SpecError(
                f"{BLOCK}.spec.rayClusterSpec",
                "unknown field of a RayService; its cluster is rayClusterConfig",
            )
        check_cluster(spec.get("rayClusterConfig"), CLUSTER, _OTHER_POD_SETS)
        path = f"spec.{SERVE}" if workload.blocks.get(SERVE) else f"{BLOCK}.spec.{SERVE}"
        _check_serve_config(serve_config(workload), path)

    def allocate(self, inp: AllocationInput) -> Allocation | Blocked:
        """The GPUs of the workers; the head has none."""
        spec = lenient_map(lenient_map(inp.workload.blocks.get(self.block)).get("spec"))
        return allocate_cluster(inp, spec.get("rayClusterConfig"))


class RayServiceBackend(_RayServiceBase):
    """Runs a KaiwoService as a ray.io/v1 RayService in an AppWrapper, so that it can be queued."""

    def render(self, inp: RenderInput) -> Rendered:
        """The AppWrapper of a workload with its RayService inside."""
        return render(inp)

    def observe(self, observation: Observation) -> Outcome:
        """The status of an AppWrapper and of the RayService in it."""
        return observe(observation)

    def immutable_part(self, child: Object) -> object:
        """All components of an AppWrapper but the applications of Ray Serve."""
        components = lenient_map(child.get("spec")).get("components")
        if isinstance(components, list):
            components = [_immutable(item) for item in components]
        return {"components": components}

    def tune_secondary(
        self, workload: Workload, secondary: Mapping[Resource, Object]
    ) -> Mapping[Resource, Object]:
        """The applications of Ray Serve, for the RayService that AppWrapper made."""
        return {RAY_SERVICE: {"spec": {SERVE: serve_config(workload)}}} if RAY_SERVICE in secondary else {}

    def select_variant(self, inp: VariantInput) -> str | None:
        """Without AppWrapper where the setting excludes it; ``auto``: where the queue takes RayServices."""
        wrap = getattr(inp.settings, "wrap", "always")
        bare_form = wrap == "never" or (wrap == "auto" and inp.queue_manages(RAY_SERVICE))
        return BARE if bare_form else None


class BareRayServiceBackend(_RayServiceBase):
    """Runs a KaiwoService as a ray.io/v1 RayService of its own."""

    def render(self, inp: RenderInput) -> Rendered:
        """The RayService of a workload."""
        return bare.render(inp)

    def observe(self, observation: Observation) -> Outcome:
        """The status of a RayService."""
        return bare.observe(observation)

    def merge_live(self, desired: Object, live: Object) -> Object:
        """The RayService with what a queue put into its pod templates."""
        return bare.merge(desired, live)


def _check_serve_config(text: object, path: str) -> None:
    if text is None:
        return
    if not isinstance(text, str):
        raise SpecError(path, f"must be a text, not {kind_of(text)}; write it as a YAML block: {SERVE}: |")
    try:
        content = parse_value(text, _SERVE_LIMITS)
    except DocumentError as error:
        raise SpecError(path, f"line {error.line}, column {error.column}: {error}") from None
    if content is not None and not isinstance(content, dict):
        raise SpecError(path, f"must hold an object with 'applications', not {kind_of(content)}")


def _immutable(component: object) -> object:
    template = dict(lenient_map(lenient_map(component).get("template")))
    # Labels and annotations of the RayService shape no pods; they come with the next replacement.
    template.pop("metadata", None)
    template["spec"] = {k: v for k, v in lenient_map(template.get("spec")).items() if k != SERVE}
    return {"podSets": lenient_map(component).get("podSets"), "template": template}
