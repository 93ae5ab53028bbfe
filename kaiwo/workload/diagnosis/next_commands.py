"""The next command for each code: what a person runs after reading the verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaiwo.workload.diagnosis.command_by_message import RESUBMIT, template_for

if TYPE_CHECKING:
    from collections.abc import Mapping

SUBMIT: Final = "kaiwo submit -f FILE{change} -n {namespace}"
REPLACE: Final = "kaiwo submit -f FILE{change} --replace -n {namespace}"
"""What sends the corrected file; a job that was created once does not change, so it is made anew."""

_LOGS: Final = "kaiwo logs {ref} -n {namespace}"
_PREVIOUS: Final = "kaiwo logs {ref} --previous -n {namespace}"
_DOWNLOAD: Final = "kaiwo logs {ref} --download -n {namespace}"
_QUEUE: Final = "kaiwo queue {queue}"
_QUEUES: Final = "kaiwo queue"
_NODES: Final = "kaiwo nodes"
_DOCTOR: Final = "kaiwo doctor"
_PLUGINS: Final = "kaiwo plugins"
_EVENTS: Final = "kubectl get events -n {namespace}"
_CLAIMS: Final = "kubectl describe pvc -n {namespace}"
_SECRETS: Final = "kubectl get secrets -n {namespace}"
_CONFIG: Final = "kubectl get kaiwoconfigs kaiwo -o yaml"

STATUS: Final = "kaiwo status {ref} -n {namespace}"
"""The next command for a code that is in no table, for example one of a plugin's rule."""

_CODES: Mapping[str, tuple[str, ...]] = {
    RESUBMIT: (
        "InvalidSpec", "SpecTooLarge", "InvalidName", "NameConflict", "GPUsExceedNode", "InsufficientGPUs",
        "IndivisibleGPUs", "DownloadNotAvailable", "VolumeImmutable", "VolumeNotExpandable", "Rejected",
        "ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError",
        "RegistryUnavailable", "SignatureValidationFailed",
        "CreateContainerError", "RunContainerError", "PostStartHookError", "OOMKilled", "ScaledToZero",
        "DeadlineExceeded", "DeactivatedDueToRequeuingLimitExceeded",
        "DownloadInvalid", "DownloadDiskFull", "DownloadLimitExceeded", "ChildLost", "Stopped",
        "DurationExceeded", "GpuUtilizationLow", "GpuIdle",
    ),
    _PREVIOUS: ("CrashLoopBackOff", "ApplicationUnhealthy"),
    _LOGS: ("Completed", "Running", "Ready", "ExitCode", "AppFailed", "Failed", "BackoffLimitExceeded"),
    _DOWNLOAD: (
        "Downloading", "DownloadUnavailable", "DownloadMismatch", "DownloadUnreachable", "DownloadFailed",
    ),
    _QUEUE: (
        "WrongQueueNamespace", "NoTopology", "Queued", "Pending", "QuotaReserved",
        "NoQuota", "Inadmissible", "Preempted", "PreemptedAndRequeued", "QueuePreparing", "Admitted",
        "ClusterQueueStopped", "LocalQueueStopped", "AdmissionCheck", "PodsReadyTimeout", "Deactivated",
        "DeactivatedDueToAdmissionCheck",
    ),
    _QUEUES: ("ClusterQueueNotFound",),
    _NODES: ("NoGPUs", "Unschedulable", "NodeLost", "Evicted", "PreemptedByScheduler",
        "NodeNotReady", "UnexpectedAdmissionError", "NodeShutdown", "NodeAffinity", "Preempting",
        "FailedCreatePodSandBox",
    ),
    _DOCTOR: (
        "OperatorAbsent", "NotObserved", "OperatorForbidden", "BackendUnavailable", "SchedulerMissing",
        "QueueUnavailable", "NotManagedByQueue", "RayJobIgnored", "Forbidden", "WriteRefused",
    ),
    _PLUGINS: ("PluginError", "VendorNotLoaded", "BackendNotLoaded", "QueueSystemNotLoaded"),
    _CLAIMS: (
        "VolumePending", "VolumeMissing", "VolumeNotBound", "FailedAttachVolume", "FailedMapVolume",
    ),
    _SECRETS: ("CreateContainerConfigError", "FailedMount"),
    _EVENTS: (
        "FailedCreate", "NoPods", "ProgressDeadlineExceeded", "WrapperFailed", "WrapperReset",
        "ReplicaFailure", "NotAdopted", "SchedulingGated",
    ),
    _CONFIG: ("ConfigInvalid",),
    "kubectl get priorityclasses": ("PriorityClassNotFound",),
}  # fmt: skip

NEXT: Final[Mapping[str, str]] = {code: command for command, codes in _CODES.items() for code in codes}
"""The template of the next command by code."""


def next_command(
    code: str,
    *,
    kind: str,
    name: str,
    namespace: str,
    queue: str,
    created: bool,
    message: str = "",
    change: str = "",
) -> str:
    """The next command for a code.

    Args:
        code: the code of a cause.
        kind: ``KaiwoJob`` or ``KaiwoService``.
        name: name of the workload.
        namespace: its namespace.
        queue: the queue that it names or is in, empty for none.
        created: whether its child exists, so that a job must be made anew to change.
        message: the sentence of the cause, which some codes need.
        change: the value that would run, as ``--set`` takes it; empty where none is known.
    """
    service = kind == "KaiwoService"
    values = {
        "ref": f"{'service' if service else 'job'}/{name}",
        "name": name,
        "namespace": namespace,
        "queue": queue,
        "change": f" --set {change}" if change else "",
    }
    values["submit"] = (REPLACE if created and not service else SUBMIT).format(**values)
    return (template_for(code, message) or NEXT.get(code, STATUS)).format(**values).rstrip()
