"""The back end ``ray_service``: what it is called, which fields it owns, when it is chosen, what it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.api.field import Field
from kaiwo.plugin import hookimpl
from kaiwo.plugin.backends import BackEnd
from kaiwo.plugin.rbac import PolicyRule
from kaiwo_ray_service.kinds import APP_WRAPPER, RAY_SERVICE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaiwo.api.workload import Workload
    from kaiwo.engine.resource import Object, Resource
    from kaiwo.plugin.backends import (
        AllocationInput,
        Observation,
        Observed,
        Rendered,
        RenderInput,
        Selection,
    )
    from kaiwo.plugin.facts import Allocation, Refusal

KAIWO_API = 1

WRAPPED = "ray_service"
BARE = "ray_service_unwrapped"
"""Names of the two forms; a service stays in the one it was made in."""

MAX_NAME_LENGTH = 47
"""KubeRay appends its own suffixes to the name of what it creates."""


def is_chosen(workload: Workload) -> bool:
    """A KaiwoService with ``ray: true`` or an embedded RayService."""
    return workload.spec.ray or "rayService" in workload.blocks


def check(workload: Workload) -> tuple[tuple[str, str], ...]:
    """What is wrong with the embedded RayService, as far as it can be told without rendering."""
    from kaiwo_ray_service.render import check as check_service  # noqa: PLC0415 (loading stays light)

    return check_service(workload)


def allocate(inp: AllocationInput) -> Allocation | Refusal:
    """Equal shares of the GPUs over as many workers as they need."""
    from kaiwo_ray_service.render import allocate as allocate_service  # noqa: PLC0415

    return allocate_service(inp)


def render(inp: RenderInput) -> Rendered:
    """The AppWrapper with the RayService in it."""
    from kaiwo_ray_service.render import render as render_service  # noqa: PLC0415

    return render_service(inp)


def observe(seen: Observation) -> Observed:
    """What a live AppWrapper and its RayService mean."""
    from kaiwo_ray_service.observe import observe as observe_service  # noqa: PLC0415

    return observe_service(seen)


def frozen(child: Object) -> object:
    """What of an AppWrapper cannot change while it exists."""
    from kaiwo_ray_service.render import frozen as frozen_part  # noqa: PLC0415

    return frozen_part(child)


def tune(workload: Workload, companions: Mapping[Resource, Object]) -> Mapping[Resource, Object]:
    """The applications of Ray Serve, for the RayService that AppWrapper made."""
    from kaiwo_ray_service.render import SERVE, serve_config  # noqa: PLC0415

    return {RAY_SERVICE: {"spec": {SERVE: serve_config(workload)}}} if RAY_SERVICE in companions else {}


def render_bare(inp: RenderInput) -> Rendered:
    """The RayService alone."""
    from kaiwo_ray_service.bare import render as render_service  # noqa: PLC0415

    return render_service(inp)


def observe_bare(seen: Observation) -> Observed:
    """What a live RayService means that no AppWrapper made."""
    from kaiwo_ray_service.bare import observe as observe_service  # noqa: PLC0415

    return observe_service(seen)


def merge(desired: Object, live: Object) -> Object:
    """The wanted RayService with what a queue put into its pod templates."""
    from kaiwo_ray_service.bare import merge as merge_service  # noqa: PLC0415

    return merge_service(desired, live)


def select(selection: Selection) -> str:
    """Whether a new service is wrapped: as the setting says, ``auto`` where no queue takes RayServices."""
    wrap = getattr(selection.settings, "wrap", "always")
    if wrap == "never" or (wrap == "auto" and selection.queue_manages(RAY_SERVICE)):
        return BARE
    return WRAPPED


@hookimpl
def kaiwo_backends() -> list[BackEnd]:
    """The back end."""
    from kaiwo.api.scalars import Opaque  # noqa: PLC0415 - needs pydantic, which a start may not need
    from kaiwo_ray_service.settings import RayServiceSettings  # noqa: PLC0415 - likewise

    service = Field(
        "KaiwoService",
        ("rayService",),
        Opaque,
        "A whole ray.io/v1 RayService to start from: its spec is used, the common fields are merged into its "
        "Ray cluster, and its labels and annotations are merged onto the created object. If it is given, a "
        "RayService is created even when ray is false.",
    )
    serve_config = Field(
        "KaiwoService",
        ("serveConfigV2",),
        str,
        "Applications and deployments for Ray Serve, as a YAML text of several lines. It replaces the one in "
        "rayService; without Ray it is ignored.",
    )
    fields = (service, serve_config)
    bare = BackEnd(
        name=BARE,
        kind="KaiwoService",
        child=RAY_SERVICE,
        fields=fields,
        chosen=is_chosen,
        max_name_length=MAX_NAME_LENGTH,
        name_pattern="dns1035",
        check=check,
        allocate=allocate,
        render=render_bare,
        observe=observe_bare,
        write="apply",
        mutable=("*",),
        merge=merge,
        absent_at_zero=True,
        requires=(RAY_SERVICE,),
        settings=RayServiceSettings,
    )
    return [
        BackEnd(
            name=WRAPPED,
            kind="KaiwoService",
            child=APP_WRAPPER,
            fields=fields,
            chosen=is_chosen,
            max_name_length=MAX_NAME_LENGTH,
            name_pattern="dns1035",
            check=check,
            allocate=allocate,
            render=render,
            observe=observe,
            write="create",
            mutable=("*",),
            owned_paths=(("spec", "suspend"),),
            companions=(RAY_SERVICE,),
            frozen=frozen,
            tune=tune,
            absent_at_zero=True,
            variants=(bare,),
            select=select,
            requires=(RAY_SERVICE, APP_WRAPPER),
            rules=(
                PolicyRule(
                    groups=("workload.codeflare.dev",),
                    resources=("appwrappers",),
                    verbs=("get", "list", "watch", "create", "patch", "delete"),
                    why="KaiwoServices on Ray are queued as AppWrappers",
                ),
                PolicyRule(
                    groups=("ray.io",),
                    resources=("rayservices",),
                    verbs=("get", "list", "watch", "create", "patch", "delete"),
                    why="AppWrapper lets only those wrap a RayService who may create one; "
                    "serveConfigV2 is changed on it",
                ),
            ),
            settings=RayServiceSettings,
        )
    ]
