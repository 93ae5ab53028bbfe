"""The back end ``deployment``: what it is called, which field it owns, when it is chosen, what it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.api.field import Field
from kaiwo.engine.resource import DEPLOYMENT, SERVICE
from kaiwo.plugin import hookimpl
from kaiwo.plugin.backends import BackEnd
from kaiwo.plugin.rbac import PolicyRule

if TYPE_CHECKING:
    from kaiwo.api.workload import Workload
    from kaiwo.plugin.backends import AllocationInput, Observation, Observed, Rendered, RenderInput
    from kaiwo.plugin.facts import Allocation, Refusal

KAIWO_API = 1


def is_chosen(workload: Workload) -> bool:
    """A KaiwoService with neither ``ray: true`` nor an embedded RayService."""
    return not workload.spec.ray and "rayService" not in workload.blocks


def check(workload: Workload) -> tuple[tuple[str, str], ...]:
    """What is wrong with the embedded Deployment, as far as it can be told without rendering."""
    from kaiwo_deployment.render import check as check_deployment  # noqa: PLC0415 (loading stays light)

    return check_deployment(workload)


def allocate(inp: AllocationInput) -> Allocation | Refusal:
    """``replicas`` pods with equal shares of the GPUs."""
    from kaiwo_deployment.render import allocate as allocate_deployment  # noqa: PLC0415

    return allocate_deployment(inp)


def render(inp: RenderInput) -> Rendered:
    """The Deployment and, for a container with ports, its Service."""
    from kaiwo_deployment.render import render as render_deployment  # noqa: PLC0415

    return render_deployment(inp)


def observe(seen: Observation) -> Observed:
    """What a live Deployment means."""
    from kaiwo_deployment.observe import observe as observe_deployment  # noqa: PLC0415

    return observe_deployment(seen)


@hookimpl
def kaiwo_backends() -> list[BackEnd]:
    """The back end."""
    from kaiwo.api.scalars import Opaque  # noqa: PLC0415 - needs pydantic, which a start may not need

    field = Field(
        "KaiwoService",
        ("deployment",),
        Opaque,
        "A whole apps/v1 Deployment to start from: its spec is used, the common fields are merged into it, "
        "and its labels and annotations are merged onto the created object. Ignored for a service on Ray.",
    )
    verbs = ("get", "list", "watch", "create", "patch", "delete")
    return [
        BackEnd(
            name="deployment",
            kind="KaiwoService",
            child=DEPLOYMENT,
            fields=(field,),
            chosen=is_chosen,
            check=check,
            allocate=allocate,
            render=render,
            observe=observe,
            write="apply",
            mutable=("*",),
            owned_paths=(("spec", "replicas"),),
            companions=(SERVICE,),
            requires=(DEPLOYMENT, SERVICE),
            rules=(
                PolicyRule(("apps",), ("deployments",), verbs, "KaiwoServices run as Deployments"),
                PolicyRule(("",), ("services",), verbs, "a KaiwoService with ports is reached by a Service"),
            ),
        )
    ]
