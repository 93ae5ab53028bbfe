"""The back end ``batch_job``: what it is called, which field it owns, when it is chosen, what it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.api.field import Field
from kaiwo.engine.resource import JOB
from kaiwo.plugin import hookimpl
from kaiwo.plugin.backends import BackEnd
from kaiwo.plugin.rbac import PolicyRule

if TYPE_CHECKING:
    from kaiwo.api.workload import Workload
    from kaiwo.plugin.backends import AllocationInput, Observation, Observed, Rendered, RenderInput
    from kaiwo.plugin.facts import Allocation, Refusal

KAIWO_API = 1


def is_chosen(workload: Workload) -> bool:
    """A KaiwoJob that asks for no Ray."""
    return not workload.spec.ray and "rayJob" not in workload.blocks


def check(workload: Workload) -> tuple[tuple[str, str], ...]:
    """What is wrong with the embedded Job, as far as it can be told without rendering."""
    from kaiwo_batch_job.render import check as check_job  # noqa: PLC0415 (loading a plugin stays light)

    return check_job(workload)


def allocate(inp: AllocationInput) -> Allocation | Refusal:
    """All GPUs in one pod, or in each of ``parallelism`` pods."""
    from kaiwo_batch_job.render import allocate as allocate_job  # noqa: PLC0415

    return allocate_job(inp)


def render(inp: RenderInput) -> Rendered:
    """The Job."""
    from kaiwo_batch_job.render import render as render_job  # noqa: PLC0415

    return render_job(inp)


def observe(seen: Observation) -> Observed:
    """What a live Job means."""
    from kaiwo_batch_job.observe import observe as observe_job  # noqa: PLC0415

    return observe_job(seen)


@hookimpl
def kaiwo_backends() -> list[BackEnd]:
    """The back end."""
    from kaiwo.api.scalars import Opaque  # noqa: PLC0415 (needs pydantic, which a start may not need)

    field = Field(
        "KaiwoJob",
        ("job",),
        Opaque,
        "A whole batch/v1 Job to start from: its spec is used, the common fields are merged into it, and its "
        "labels and annotations are merged onto the created object. Ignored when the job runs on Ray.",
    )
    return [
        BackEnd(
            name="batch_job",
            kind="KaiwoJob",
            child=JOB,
            fields=(field,),
            chosen=is_chosen,
            check=check,
            allocate=allocate,
            render=render,
            observe=observe,
            write="create",
            patch_paths=(
                ("spec", "parallelism"),
                ("spec", "activeDeadlineSeconds"),
                ("spec", "ttlSecondsAfterFinished"),
            ),
            mutable=(
                "duration",
                "job.metadata",
                "job.spec.parallelism",
                "job.spec.activeDeadlineSeconds",
                "job.spec.ttlSecondsAfterFinished",
            ),
            owned_paths=(("spec", "suspend"),),
            requires=(JOB,),
            rules=(
                PolicyRule(
                    groups=("batch",),
                    resources=("jobs",),
                    verbs=("get", "list", "watch", "create", "patch", "delete"),
                    why="KaiwoJobs run as Jobs",
                ),
            ),
        )
    ]
