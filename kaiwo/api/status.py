"""What the operator reports about a workload."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final, TypeAlias

from pydantic import AfterValidator, Field, WithJsonSchema

from kaiwo.api.base_model import Model
from kaiwo.api.conditions import MAX_MESSAGE
from kaiwo.api.scalars import Opaque
from kaiwo.api.status_words import TERMINAL, Status


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


_CONDITIONS_SCHEMA: dict[str, Any] = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["type"],
    "items": {
        "type": "object",
        "description": "One aspect, as Kubernetes' metav1.Condition defines it.",
        "required": ["lastTransitionTime", "message", "reason", "status", "type"],
        "properties": {
            "type": {"type": "string", "minLength": 1, "maxLength": 316, "description": "The aspect."},
            "status": {
                "type": "string",
                "enum": ["True", "False", "Unknown"],
                "description": "True, False or Unknown.",
            },
            "reason": {
                "type": "string",
                "minLength": 1,
                "maxLength": 1024,
                "description": "One CamelCase word.",
            },
            "message": {"type": "string", "maxLength": MAX_MESSAGE, "description": "One sentence."},
            "lastTransitionTime": {
                "type": "string",
                "format": "date-time",
                "description": "When the status of the condition last changed.",
            },
            "observedGeneration": {
                "type": "integer",
                "minimum": 0,
                "description": "Generation of the object that was last reconciled.",
            },
        },
    },
}

Conditions: TypeAlias = Annotated[
    tuple[dict[str, Any], ...], Field(strict=False), WithJsonSchema(_CONDITIONS_SCHEMA)
]
"""A list of conditions keyed by type, as plain JSON; see :mod:`kaiwo.api.conditions`."""


_TERMINATION_SCHEMA: dict[str, Any] = {
    "type": "object",
    "x-kubernetes-preserve-unknown-fields": True,
    "properties": {
        "decision": {
            "type": "string",
            "description": "Id that workloads ended together share.",
        },
        "rule": {
            "type": "string",
            "description": "Which rule decided: Duration, Underutilized or Idle.",
        },
        "workloadUID": {"type": "string", "description": "uid of this workload."},
        "childUID": {"type": "string", "description": "uid of the object that ran it."},
        "for": {
            "type": "object",
            "description": "The workload that it was ended for.",
            "properties": {
                name: {"type": "string", "description": text}
                for name, text in (
                    ("kind", "Its kind."),
                    ("namespace", "Its namespace."),
                    ("name", "Its name."),
                    ("uid", "Its uid."),
                )
            },
        },
        "evidence": {"type": "string", "description": "What was decided from, in words."},
        "figures": {
            "type": "object",
            "description": "The same in numbers, by name.",
            "additionalProperties": {"type": "number"},
        },
        "decidedAt": {"type": "string", "format": "date-time", "description": "When it was decided."},
        "action": {
            "type": "string",
            "description": "Requeue if the workload is created again; absent if it ends.",
        },
        "requeuedAt": {
            "type": "string",
            "format": "date-time",
            "description": "When its pods were gone and it was requeued.",
        },
        "requeues": {
            "type": "integer",
            "minimum": 0,
            "description": "How often the workload was requeued so far.",
        },
        "earlierRequeues": {
            "type": "array",
            "description": "The last decisions to requeue it before this one, newest first.",
            "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
    },
}

Termination: TypeAlias = Annotated[dict[str, Any], Field(strict=False), WithJsonSchema(_TERMINATION_SCHEMA)]
"""A decision to end a workload, as plain JSON; see :mod:`kaiwo.workload.ending.record`."""


_UTILIZATION_SCHEMA: dict[str, Any] = {
    "type": "object",
    "x-kubernetes-preserve-unknown-fields": True,
    "properties": {
        **{
            name: {"type": "integer", "minimum": 0, "description": text}
            for name, text in (
                ("gpus", "GPUs of all pods together."),
                ("percent", "Mean utilization of these GPUs, rounded down."),
                ("memoryPercent", "Mean of their memory in use, per cent."),
                ("mostGpusUsed", "Most of them that were used in one reading since observedSince."),
            )
        },
        **{
            name: {"type": "string", "format": "date-time", "description": text}
            for name, text in (
                ("observedSince", "Since when the GPUs are read without a gap."),
                ("firstWarningTime", "When a warning of the end was given at half of the time."),
                ("lastWarningTime", "When the last warning was given."),
                ("terminationTime", "When the workload is ended, unless its GPUs are used."),
            )
        },
    },
}

GpuUtilization: TypeAlias = Annotated[
    dict[str, Any], Field(strict=False), WithJsonSchema(_UTILIZATION_SCHEMA)
]
"""How GPUs are used, as plain JSON; see :mod:`kaiwo.workload.monitoring.underuse`."""


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
    conditions: Annotated[Conditions, Field(description="The aspects in detail.")] = ()
    utilization: Annotated[
        GpuUtilization | None, Field(description="How its GPUs are used, where monitoring is on.")
    ] = None
    termination: Annotated[
        Termination | None, Field(description="The last decision of Kaiwo to end the workload early.")
    ] = None

    @property
    def terminal(self) -> bool:
        """Whether the workload has ended for good."""
        return self.status in TERMINAL


STATUS_FIELDS: Final = frozenset(info.alias or name for name, info in WorkloadStatus.model_fields.items())
"""Fields of the status of a workload that this version of Kaiwo writes."""
