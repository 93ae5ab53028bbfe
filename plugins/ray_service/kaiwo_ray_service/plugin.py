"""The backend ``ray_service``: what it is called, which fields it owns, when it is chosen, what it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.api.plugin_fields import Field
from kaiwo.plugin import hookimpl
from kaiwo.plugin.backends import Backend
from kaiwo.plugin.lazy import Lazy
from kaiwo.plugin.rbac import PolicyRule
from kaiwo_ray_service.kinds import APP_WRAPPER, RAY_SERVICE

if TYPE_CHECKING:
    from kaiwo.api.workload import Workload
    from kaiwo.plugin.backends import VariantInput

KAIWO_API = 1

WRAPPED = "ray_service"
BARE = "ray_service_unwrapped"
"""Names of the two forms; a service stays in the one it was made in."""

MAX_NAME_LENGTH = 47
"""KubeRay appends its own suffixes to the name of what it creates."""


def is_chosen(workload: Workload) -> bool:
    """A KaiwoService with ``ray: true`` or an embedded RayService."""
    return workload.spec.ray or "rayService" in workload.blocks


def select(selection: VariantInput) -> str:
    """Whether a new service is wrapped: as the setting says, ``auto`` where no queue takes RayServices."""
    wrap = getattr(selection.settings, "wrap", "always")
    if wrap == "never" or (wrap == "auto" and selection.queue_manages(RAY_SERVICE)):
        return BARE
    return WRAPPED


@hookimpl
def kaiwo_backends() -> list[Backend]:
    """The backend."""
    from kaiwo.api.scalars import Opaque
    from kaiwo_ray_service.settings import RayServiceSettings

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
    bare = Backend(
        name=BARE,
        kind="KaiwoService",
        child=RAY_SERVICE,
        fields=fields,
        chosen=is_chosen,
        max_name_length=MAX_NAME_LENGTH,
        name_pattern="dns1035",
        check=Lazy("kaiwo_ray_service.render:check"),
        allocate=Lazy("kaiwo_ray_service.render:allocate"),
        render=Lazy("kaiwo_ray_service.bare:render"),
        observe=Lazy("kaiwo_ray_service.bare:observe"),
        write="apply",
        mutable=("*",),
        merge=Lazy("kaiwo_ray_service.bare:merge"),
        absent_at_zero=True,
        requires=(RAY_SERVICE,),
        settings=RayServiceSettings,
    )
    return [
        Backend(
            name=WRAPPED,
            kind="KaiwoService",
            child=APP_WRAPPER,
            fields=fields,
            chosen=is_chosen,
            max_name_length=MAX_NAME_LENGTH,
            name_pattern="dns1035",
            check=Lazy("kaiwo_ray_service.render:check"),
            allocate=Lazy("kaiwo_ray_service.render:allocate"),
            render=Lazy("kaiwo_ray_service.render:render"),
            observe=Lazy("kaiwo_ray_service.observe:observe"),
            write="create",
            mutable=("*",),
            owned_paths=(("spec", "suspend"),),
            secondary=(RAY_SERVICE,),
            frozen=Lazy("kaiwo_ray_service.render:frozen"),
            tune=Lazy("kaiwo_ray_service.render:tune"),
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
