"""What the operator reports about a workload."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, Field, WithJsonSchema

from kaiwo.api.base import Model
from kaiwo.api.scalars import Opaque

Status: TypeAlias = Literal[
    "", "PENDING", "STARTING", "RUNNING", "READY", "COMPLETE", "FAILED", "ERROR", "TERMINATING", "TERMINATED"
]
"""The empty status belongs to a workload that no operator has seen yet."""

TERMINAL: frozenset[Status] = frozenset({"COMPLETE", "FAILED", "TERMINATED"})
"""A workload with one of these never runs again."""


def _with_zone(value: datetime) -> datetime:
    if value.tzinfo is None:
        raise ValueError("a time needs a time zone, for example 2026-01-31T09:00:00Z")
    return value


Time: TypeAlias = Annotated[
    datetime,
    Field(strict=False),
    AfterValidator(_with_zone),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
"""A moment as Kubernetes writes it."""


class ConditionModel(Model):
    """One entry of ``status.conditions``, as Kubernetes defines it."""

    type: Annotated[str, Field(min_length=1, max_length=316, description="The aspect.")]
    status: Annotated[Literal["True", "False", "Unknown"], Field(description="True, False or Unknown.")]
    reason: Annotated[str, Field(max_length=1024, description="One CamelCase word.")]
    message: Annotated[str, Field(max_length=32768, description="One sentence.")] = ""
    last_transition_time: Annotated[Time, Field(description="When the status of the condition last changed.")]
    observed_generation: Annotated[int | None, Field(ge=0, description="Generation that was looked at.")] = (
        None
    )


class WorkloadStatus(Model):
    """``status`` of a KaiwoJob or KaiwoService."""

    status: Annotated[Status, Field(description="Where the workload stands.")] = ""
    reason: Annotated[str, Field(description="Why it stands there, one CamelCase word.")] = ""
    message: Annotated[str, Field(description="The same in one sentence.")] = ""
    child_uid: Annotated[
        str | None, Field(alias="childUID", description="uid of the object that runs the workload.")
    ] = None
    allocation: Annotated[
        Opaque | None,
        Field(
            description="What was worked out for the running object: GPUs, replicas, resource key and so on."
        ),
    ] = None
    start_time: Annotated[Time | None, Field(description="When the first container of the run started.")] = (
        None
    )
    completion_time: Annotated[Time | None, Field(description="When the job ended.")] = None
    duration: Annotated[
        int | None, Field(ge=0, description="Seconds from start to completion, or to the last transition.")
    ] = None
    observed_generation: Annotated[
        int | None, Field(ge=0, description="Generation that was last acted on.")
    ] = None
    conditions: Annotated[
        tuple[dict[str, Any], ...],
        Field(strict=False, description="The aspects in detail."),
        WithJsonSchema({"type": "array"}),
    ] = ()

    @property
    def terminal(self) -> bool:
        """Whether the workload has ended for good."""
        return self.status in TERMINAL
