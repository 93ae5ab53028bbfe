"""What a GpuWorkload says: the use of the GPUs of one workload, and what became of it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, WithJsonSchema

from kaiwo.plugin.kit.fields import Conditions, Model

MOST_PODS = 64
"""Pods that a status lists; the others are counted."""

MOST_GPUS = 16
"""GPUs that a status lists of one pod."""

Phase = Literal["PendingGpu", "PendingOther", "Active", "Idle", "Preempting", "Preempted", "Deleted"]
Policy = Literal["OnPressure", "Always", "Report"]
Aggregation = Literal["Min", "Max", "Avg"]

_Name = Annotated[str, Field(max_length=317)]
_Duration = Annotated[str, Field(max_length=64)]
_Time = Annotated[str, WithJsonSchema({"type": "string", "format": "date-time"})]
_Percent = Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)]
_Record = Annotated[
    dict[str, Any], WithJsonSchema({"type": "object", "x-kubernetes-preserve-unknown-fields": True})
]


class WorkloadRef(Model):
    """A workload."""

    api_version: Annotated[_Name, Field(description="Its apiVersion.")]
    kind: Annotated[_Name, Field(description="Its kind.")]
    name: Annotated[_Name, Field(description="Its name.")]
    uid: Annotated[str, Field(max_length=64, description="Its uid.")]


class GpuWorkloadSpec(Model):
    """``spec`` of a GpuWorkload; the operator writes it."""

    workload_ref: Annotated[WorkloadRef | None, Field(description="The root owner of the pods.")] = None
    gpu_resources: Annotated[
        dict[str, int] | None, Field(description="GPUs that its pods request together, by resource key.")
    ] = None
    utilization_threshold: Annotated[
        _Percent | None, Field(description="Per cent of use below which its GPUs are idle.")
    ] = None
    grace_period: Annotated[
        _Duration | None, Field(description="How long they may be idle before they may be taken back.")
    ] = None
    preemption_policy: Annotated[Policy | None, Field(description="When they are taken back.")] = None
    aggregation_policy: Annotated[
        Aggregation | None, Field(description="Which figure of all its GPUs counts.")
    ] = None
    ttl_after_finished: Annotated[
        _Duration | None,
        Field(description="How long this object is kept after the workload; 0s for ever."),
    ] = None


class GpuMetric(Model):
    """The use of one GPU."""

    gpu_id: Annotated[str, Field(max_length=256, description="What the exporter calls it.")]
    utilization: Annotated[_Percent, Field(description="Per cent of use.")]
    last_update: Annotated[_Time, Field(description="When it was read.")]


class TrackedPod(Model):
    """One pod with GPUs."""

    pod_name: Annotated[_Name, Field(description="Its name.")]
    gpu_metrics: Annotated[
        tuple[GpuMetric, ...],
        Field(strict=False, max_length=MOST_GPUS, description="The use of its GPUs, as far as it is known."),
    ] = ()


class GpuWorkloadStatus(Model):
    """``status`` of a GpuWorkload."""

    phase: Annotated[Phase | None, Field(description="What the workload does with its GPUs.")] = None
    tracked_pods: Annotated[
        tuple[TrackedPod, ...],
        Field(strict=False, max_length=MOST_PODS, description="Its pods with GPUs, by name."),
    ] = ()
    pods_left_out: Annotated[
        int | None, Field(ge=0, description="Pods with GPUs beyond those in trackedPods.")
    ] = None
    aggregated_utilization: Annotated[
        _Percent | None, Field(description="The figure of all GPUs that counts; absent while it is unknown.")
    ] = None
    last_metrics_update: Annotated[
        _Time | None, Field(description="When the figures in this status were read.")
    ] = None
    idle_since: Annotated[_Time | None, Field(description="Since when the GPUs are idle.")] = None
    finished_at: Annotated[_Time | None, Field(description="Since when no pod has GPUs any more.")] = None
    owner_chain: Annotated[
        str | None, Field(max_length=4096, description="From a pod up to the root owner.")
    ] = None
    preempted_at: Annotated[_Time | None, Field(description="When it was decided to end the workload.")] = (
        None
    )
    preempted_for: Annotated[str | None, Field(description="The workload that it was ended for.")] = None
    preemption_reason: Annotated[str | None, Field(description="What was decided from.")] = None
    decision: Annotated[
        _Record | None,
        Field(description="The decision, in the form of status.termination of a KaiwoJob."),
    ] = None
    conditions: Annotated[Conditions, Field(description="The aspects in detail.")] = ()
