"""Sorts the reasons of workloads into a few classes, so that labels stay few whatever plugins write."""

from __future__ import annotations

from typing import Final

OTHER: Final = "other"

CLASSES: Final = {
    "quota": ("Queued", "Pending", "QuotaReserved", "NoQuota", "Inadmissible"),
    "preempted": ("Preempted", "PreemptedByScheduler", "PreemptedAndRequeued"),
    "queue": (
        "QueueUnavailable", "QueuePreparing", "NotManagedByQueue", "ClusterQueueNotFound",
        "WrongQueueNamespace", "QueueSystemNotLoaded",
    ),
    "download": (
        "Downloading", "DownloadNotAvailable", "DownloadLimitExceeded", "DownloadInvalid",
        "DownloadUnavailable", "DownloadMismatch", "DownloadDiskFull", "DownloadUnreachable",
        "DownloadFailed",
    ),
    "storage": (
        "VolumePending", "VolumeMissing", "VolumeNotBound", "VolumeImmutable", "VolumeNotExpandable",
    ),
    "deletion": ("PreviousRunDeleting", "ChildDeleting", "Replacing"),
    "stopped": ("ScaledToZero", "Suspended", "Stopped"),
    "api": ("WriteRefused", "Forbidden", "Rejected"),
    "starting": ("Adopting", "Creating", "Starting", "Admitted", "Waiting", "WrapperReset"),
    "running": ("Running", "Ready"),
    "completed": ("Completed",),
    "spec": (
        "InvalidSpec", "SpecTooLarge", "InvalidName", "NameConflict", "NotAdopted", "PriorityClassNotFound",
        "IndivisibleGPUs",
    ),
    "gpus": ("NoGPUs", "GPUsExceedNode", "InsufficientGPUs"),
    "plugin": ("VendorNotLoaded", "BackendNotLoaded", "BackendUnavailable", "PluginError", "RayJobIgnored"),
    "image": (
        "ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError",
        "RegistryUnavailable", "SignatureValidationFailed",
    ),
    "container": (
        "CreateContainerConfigError", "CreateContainerError", "RunContainerError", "PostStartHookError",
    ),
    "program": (
        "CrashLoopBackOff", "ExitCode", "AppFailed", "Failed", "BackoffLimitExceeded", "ApplicationUnhealthy",
        "ProgressDeadlineExceeded", "WrapperFailed",
    ),
    "memory": ("OOMKilled",),
    "scheduling": (
        "Unschedulable", "SchedulerMissing", "SchedulingGated", "FailedCreate", "NoPods", "ReplicaFailure",
    ),
    "node": ("Evicted", "NodeLost", "NodeNotReady"),
    "time": ("DeadlineExceeded",),
    "child": ("ChildLost",),
    "early_end": ("DurationExceeded", "GpuUtilizationLow", "GpuIdle"),
}  # fmt: skip
"""The reasons of each class; all others are of class `OTHER`."""

_CLASS_OF = {reason: name for name, reasons in CLASSES.items() for reason in reasons}


def reason_class(reason: str) -> str:
    """The class of a reason, empty for none."""
    return _CLASS_OF.get(reason, OTHER) if reason else ""
