"""The back end ``ray_service``: what it is called, which fields it owns and when it is chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.api.field import Field
from kaiwo.engine.resource import Resource
from kaiwo.plugin import hookimpl
from kaiwo.plugin.backends import BackEnd

if TYPE_CHECKING:
    from kaiwo.api.workload import Workload

KAIWO_API = 1

APP_WRAPPER = Resource("workload.codeflare.dev", "v1beta2", "AppWrapper", "appwrappers")
RAY_SERVICE = Resource("ray.io", "v1", "RayService", "rayservices")

MAX_NAME_LENGTH = 47
"""KubeRay appends its own suffixes to the name of what it creates."""


def is_chosen(workload: Workload) -> bool:
    """A KaiwoService with ``ray: true`` or an embedded RayService."""
    return workload.spec.ray or "rayService" in workload.blocks


@hookimpl
def kaiwo_backends() -> list[BackEnd]:
    """The back end, declared: its fields are in the CRD, it cannot run workloads yet."""
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
    return [
        BackEnd(
            name="ray_service",
            kind="KaiwoService",
            child=APP_WRAPPER,
            fields=(service, serve_config),
            chosen=is_chosen,
            max_name_length=MAX_NAME_LENGTH,
            name_pattern="dns1035",
            requires=(RAY_SERVICE, APP_WRAPPER),
            settings=RayServiceSettings,
        )
    ]
