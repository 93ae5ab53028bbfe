"""The backend ``ray_service``: its name, its fields, the objects it works with and the rights it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.plugin import hookimpl
from kaiwo.plugin.backends import Backend, Field
from kaiwo.plugin.lazy import Lazy
from kaiwo.plugin.rbac import PolicyRule
from kaiwo_ray_service.kinds import APP_WRAPPER, BARE, RAY_CLUSTER, RAY_SERVICE, WRAPPED

if TYPE_CHECKING:
    from kaiwo_ray_service.backend import BareRayServiceBackend, RayServiceBackend

KAIWO_API = 1

BARE_BACKEND: Lazy[BareRayServiceBackend] = Lazy("kaiwo_ray_service.backend:BareRayServiceBackend")
BACKEND: Lazy[RayServiceBackend] = Lazy("kaiwo_ray_service.backend:RayServiceBackend")

MAX_NAME_LENGTH = 47
"""KubeRay appends its own suffixes to the name of what it creates."""


@hookimpl
def kaiwo_backends() -> list[Backend]:
    """The backend."""
    from kaiwo.plugin.kit.fields import Opaque
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
        implementation=BARE_BACKEND,
        max_name_length=MAX_NAME_LENGTH,
        name_pattern="dns1035",
        write="apply",
        mutable=("*",),
        pod_owners=(RAY_CLUSTER,),
        absent_at_zero=True,
        requires=(RAY_SERVICE,),
        takes=("head_pod_memory",),
        settings=RayServiceSettings,
    )
    return [
        Backend(
            name=WRAPPED,
            kind="KaiwoService",
            child=APP_WRAPPER,
            fields=fields,
            implementation=BACKEND,
            max_name_length=MAX_NAME_LENGTH,
            name_pattern="dns1035",
            write="create",
            mutable=("*",),
            pod_templates=(
                ("rayService", "spec", "rayClusterConfig", "headGroupSpec", "template"),
                ("rayService", "spec", "rayClusterConfig", "workerGroupSpecs", "*", "template"),
            ),
            owned_paths=(("spec", "suspend"),),
            secondary=(RAY_SERVICE,),
            pod_owners=(RAY_CLUSTER,),
            absent_at_zero=True,
            variants=(bare,),
            requires=(RAY_SERVICE, APP_WRAPPER),
            takes=("head_pod_memory",),
            rules=(
                PolicyRule(
                    groups=("workload.codeflare.dev",),
                    resources=("appwrappers",),
                    verbs=("get", "list", "watch", "create", "patch", "delete"),
                    why="KaiwoServices on Ray are queued as AppWrappers",
                    own_objects=True,
                ),
                PolicyRule(
                    groups=("ray.io",),
                    resources=("rayservices",),
                    verbs=("get", "list", "watch", "create", "patch", "delete"),
                    why="AppWrapper lets only those wrap a RayService who may create one; "
                    "serveConfigV2 is changed on it",
                    own_objects=True,
                ),
                PolicyRule(
                    groups=("ray.io",),
                    resources=("rayclusters",),
                    verbs=("list", "watch"),
                    why="pods of a RayService belong to its clusters",
                ),
            ),
            settings=RayServiceSettings,
        )
    ]
