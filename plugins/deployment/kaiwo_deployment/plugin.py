"""The back end ``deployment``: what it is called, which field it owns and when it is chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.api.field import Field
from kaiwo.engine.resource import DEPLOYMENT
from kaiwo.plugin import hookimpl
from kaiwo.plugin.backends import BackEnd

if TYPE_CHECKING:
    from kaiwo.api.workload import Workload

KAIWO_API = 1


def is_chosen(workload: Workload) -> bool:
    """A KaiwoService with neither ``ray: true`` nor an embedded RayService."""
    return not workload.spec.ray and "rayService" not in workload.blocks


@hookimpl
def kaiwo_backends() -> list[BackEnd]:
    """The back end, declared: its field is in the CRD, it cannot run workloads yet."""
    from kaiwo.api.scalars import Opaque  # noqa: PLC0415 - needs pydantic, which a start may not need

    field = Field(
        "KaiwoService",
        ("deployment",),
        Opaque,
        "A whole apps/v1 Deployment to start from: its spec is used, the common fields are merged into it, "
        "and its labels and annotations are merged onto the created object. Ignored for a service on Ray.",
    )
    return [
        BackEnd(
            name="deployment",
            kind="KaiwoService",
            child=DEPLOYMENT,
            fields=(field,),
            chosen=is_chosen,
            write="apply",
            mutable=("*",),
        )
    ]
