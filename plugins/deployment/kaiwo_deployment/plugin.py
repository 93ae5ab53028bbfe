"""The backend ``deployment``: what it is called, which field it owns, when it is chosen, what it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.api.plugin_fields import Field
from kaiwo.engine.resource import DEPLOYMENT, SERVICE
from kaiwo.plugin import hookimpl
from kaiwo.plugin.backends import Backend
from kaiwo.plugin.lazy import Lazy
from kaiwo.plugin.rbac import PolicyRule

if TYPE_CHECKING:
    from kaiwo.api.workload import Workload

KAIWO_API = 1


def is_chosen(workload: Workload) -> bool:
    """A KaiwoService with neither ``ray: true`` nor an embedded RayService."""
    return not workload.spec.ray and "rayService" not in workload.blocks


@hookimpl
def kaiwo_backends() -> list[Backend]:
    """The backend."""
    from kaiwo.api.scalars import Opaque

    field = Field(
        "KaiwoService",
        ("deployment",),
        Opaque,
        "A whole apps/v1 Deployment to start from: its spec is used, the common fields are merged into it, "
        "and its labels and annotations are merged onto the created object. Ignored for a service on Ray.",
    )
    verbs = ("get", "list", "watch", "create", "patch", "delete")
    return [
        Backend(
            name="deployment",
            kind="KaiwoService",
            child=DEPLOYMENT,
            fields=(field,),
            chosen=is_chosen,
            check=Lazy("kaiwo_deployment.render:check"),
            allocate=Lazy("kaiwo_deployment.render:allocate"),
            render=Lazy("kaiwo_deployment.render:render"),
            observe=Lazy("kaiwo_deployment.observe:observe"),
            write="apply",
            mutable=("*",),
            owned_paths=(("spec", "replicas"),),
            secondary=(SERVICE,),
            requires=(DEPLOYMENT, SERVICE),
            rules=(
                PolicyRule(("apps",), ("deployments",), verbs, "KaiwoServices run as Deployments"),
                PolicyRule(("",), ("services",), verbs, "a KaiwoService with ports is reached by a Service"),
            ),
        )
    ]
