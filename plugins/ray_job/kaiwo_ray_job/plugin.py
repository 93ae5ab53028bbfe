"""The back end ``ray_job``: what it is called, which field it owns and when it is chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.api.field import Field
from kaiwo.engine.resource import Resource
from kaiwo.plugin import hookimpl
from kaiwo.plugin.backends import BackEnd

if TYPE_CHECKING:
    from kaiwo.api.workload import Workload

KAIWO_API = 1

RAY_JOB = Resource("ray.io", "v1", "RayJob", "rayjobs")

MAX_NAME_LENGTH = 47
"""KubeRay appends its own suffixes; a RayJob with a longer name never gets a status."""


def is_chosen(workload: Workload) -> bool:
    """A KaiwoJob with ``ray: true`` or an embedded RayJob."""
    return workload.spec.ray or "rayJob" in workload.blocks


@hookimpl
def kaiwo_backends() -> list[BackEnd]:
    """The back end, declared: its field is in the CRD, it cannot run workloads yet."""
    from kaiwo.api.scalars import Opaque  # noqa: PLC0415 - needs pydantic, which a start may not need

    field = Field(
        "KaiwoJob",
        ("rayJob",),
        Opaque,
        "A whole ray.io/v1 RayJob to start from: its spec is used, the common fields are merged into it, and "
        "its labels and annotations are merged onto the created object. If it is given, a RayJob is created "
        "even when ray is false.",
    )
    return [
        BackEnd(
            name="ray_job",
            kind="KaiwoJob",
            child=RAY_JOB,
            fields=(field,),
            chosen=is_chosen,
            max_name_length=MAX_NAME_LENGTH,
            name_pattern="dns1035",
            requires=(RAY_JOB,),
        )
    ]
