"""What each reason means and what to do about it: the part of the reference that only a person can write."""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias


class Meaning(NamedTuple):
    """The meaning of one reason.

    Attributes:
        statuses: status words it stands with, divided by blanks.
        text: what it means, and what to do where something is to be done.
    """

    statuses: str
    text: str


Meanings: TypeAlias = dict[str, Meaning]

CANNOT_RUN: Final[Meanings] = {
    "InvalidSpec": Meaning(
        "ERROR",
        "A field cannot be used, or the API server refused the object made from it. The message names the "
        "field; correct it.",
    ),
    "InvalidName": Meaning(
        "ERROR", "The name is too long or has other characters than its backend takes. Use the name shown."
    ),
    "NameConflict": Meaning(
        "ERROR",
        "An object of the name that is needed belongs to somebody else. It is never touched: delete it, or "
        "choose another name.",
    ),
    "NoGPUs": Meaning(
        "ERROR", "No usable node has a GPU of that vendor and model. Starts when such a node joins."
    ),
    "GPUsExceedNode": Meaning(
        "ERROR",
        "One pod would need more GPUs than the largest node has. Take the count that the message offers.",
    ),
    "InsufficientGPUs": Meaning(
        "ERROR", "The nodes together cannot hold all pods at once. Take the count offered, or wait for nodes."
    ),
    "IndivisibleGPUs": Meaning(
        "ERROR", "`gpus` cannot be divided by `replicas`. Take a count offered, or give `gpusPerReplica`."
    ),
    "VendorNotLoaded": Meaning(
        "ERROR", "No loaded plugin serves `gpuVendor`. Correct the spelling, or have the plugin selected."
    ),
    "BackendNotLoaded": Meaning(
        "ERROR", "No loaded plugin runs this form of workload. The message names the one to select."
    ),
    "BackendUnavailable": Meaning(
        "ERROR",
        "The cluster does not serve what the backend creates, for example RayJob. Install its operator.",
    ),
    "PriorityClassNotFound": Meaning(
        "ERROR", "Neither a PriorityClass nor a WorkloadPriorityClass has the name in `priorityClass`."
    ),
    "ClusterQueueNotFound": Meaning(
        "ERROR",
        "No queue has the name in `clusterQueue`. The message lists those that your namespace may use.",
    ),
    "WrongQueueNamespace": Meaning(
        "ERROR", "The queue exists, and is not open to this namespace. The message names those it is open to."
    ),
    "DownloadNotAvailable": Meaning(
        "ERROR",
        "No loaded plugin fetches what the workload wants downloaded. The message names the field, and the "
        "distribution to select where one is installed.",
    ),
    "VolumeImmutable": Meaning(
        "ERROR",
        "Class or access mode of a volume that exists were changed, which cannot be. Put the old value back, "
        "or submit the workload again.",
    ),
    "VolumeNotExpandable": Meaning(
        "ERROR",
        "A volume was asked to grow and its StorageClass does not allow it. While the workload runs it goes "
        "on, and only conditions say so.",
    ),
    "Forbidden": Meaning(
        "ERROR", "The API server did not permit the object: a quota, a policy or the operator's own role."
    ),
    "Rejected": Meaning(
        "ERROR", "The API server refused the object for another reason, which the message quotes."
    ),
    "PluginError": Meaning(
        "ERROR STARTING RUNNING",
        "A plugin failed on this workload; it is tried again every 30 s. A running workload goes on, with "
        "the status it had. The message names the plugin: tell its authors.",
    ),
}
"""Nothing was created; each heals when its cause is gone."""

WAITS: Final[Meanings] = {
    "Creating": Meaning("PENDING", "The object that runs the workload is being created."),
    "Queued": Meaning("PENDING", "It waits in its queue, and the queue has not said why yet."),
    "Pending": Meaning("PENDING", "It waits in its queue. The message is Kueue's own: which quota is short."),
    "QuotaReserved": Meaning("PENDING", "Quota is set aside; admission checks are still going on."),
    "NoQuota": Meaning(
        "PENDING",
        "Waiting cannot help: the queue does not cover a resource that is asked for, or has none of it. Use "
        "another queue, or ask for its quota.",
    ),
    "NotManagedByQueue": Meaning(
        "PENDING STARTING RUNNING",
        "A queue was asked for and Kueue takes no notice: the namespace lacks the label "
        "`kueue-managed=true`, or Kueue's integration for this kind is off. Pods that run do so "
        "outside quota.",
    ),
    "QueueUnavailable": Meaning("PENDING", "Kueue is not installed. Starts when it is."),
    "QueuePreparing": Meaning("PENDING", "The namespace's LocalQueue is being made, or its label written."),
    "PreviousRunDeleting": Meaning(
        "PENDING", "What a deleted workload of the same name left is still being deleted. Starts afterwards."
    ),
    "ChildDeleting": Meaning(
        "PENDING", "Somebody deleted the created object. It is made again as soon as it is gone."
    ),
    "Replacing": Meaning(
        "PENDING", "A change needs a new object; the service is down until the new one runs."
    ),
    "Downloading": Meaning(
        "PENDING",
        "What `storage` asks for is downloaded first; what runs the workload is created afterwards. The "
        "message says how far it is.",
    ),
    "VolumePending": Meaning(
        "PENDING",
        "The download waits for a volume that is not bound. The message has the class, whether it exists, "
        "and what its provisioner says.",
    ),
    "ScaledToZero": Meaning("PENDING", "`replicas` is 0. Raise it to start the service."),
    "Suspended": Meaning(
        "PENDING", "Somebody suspended the created object. Set its `spec.suspend` to false."
    ),
    "Waiting": Meaning("PENDING", "It waited; written afterwards, when the wait itself was missed."),
}

RUNS: Final[Meanings] = {
    "Starting": Meaning("STARTING PENDING", "No container runs yet."),
    "Admitted": Meaning("STARTING PENDING", "The queue has admitted it, and it is about to start."),
    "Running": Meaning("RUNNING", "A container runs. A service is not fully ready yet."),
    "Ready": Meaning("READY", "All replicas of the newest revision are available, or Ray serves."),
    "WrapperReset": Meaning(
        "STARTING", "AppWrapper deletes the service and starts it again, because its pods were not healthy."
    ),
    "ProgressDeadlineExceeded": Meaning(
        "ERROR",
        "A rollout stood still for too long. Heals when it goes on; the message says what the pods lack.",
    ),
    "ApplicationUnhealthy": Meaning(
        "ERROR", "A Ray Serve application is UNHEALTHY or DEPLOY_FAILED. Heals when Ray says that it is well."
    ),
    "RayJobIgnored": Meaning(
        "ERROR",
        "KubeRay does not run, or refuses the RayJob without a status. Its events say what it dislikes.",
    ),
    "ReplicaFailure": Meaning(
        "STARTING RUNNING", "Pods of a Deployment cannot be created; the message says why."
    ),
}

PODS: Final[Meanings] = {
    "ImagePullBackOff": Meaning(
        "STARTING RUNNING", "The image cannot be pulled. Check its name, or give `imagePullSecrets`."
    ),
    "ErrImagePull": Meaning("STARTING RUNNING", "The same, at the first attempt."),
    "InvalidImageName": Meaning("STARTING RUNNING", "The image's name is no legal name."),
    "ErrImageNeverPull": Meaning(
        "STARTING RUNNING", "The pull policy is Never and the node lacks the image."
    ),
    "ImageInspectError": Meaning("STARTING RUNNING", "The node cannot read the image."),
    "CreateContainerConfigError": Meaning(
        "STARTING RUNNING",
        "Something that the container refers to is missing, mostly a Secret or a key in it.",
    ),
    "CreateContainerError": Meaning(
        "STARTING RUNNING", "The container cannot be made; the message says why."
    ),
    "RunContainerError": Meaning("STARTING RUNNING", "The container cannot be run, mostly a wrong command."),
    "CrashLoopBackOff": Meaning(
        "STARTING RUNNING", "The container ends again and again; the message has its last exit code."
    ),
    "Unschedulable": Meaning(
        "STARTING RUNNING", "No node takes the pod now. The message is the scheduler's own count of causes."
    ),
    "VolumeNotBound": Meaning("STARTING RUNNING", "The pod waits for a volume."),
    "SchedulerMissing": Meaning(
        "STARTING RUNNING",
        "For 30 s no scheduler has looked at the pod. Install kaiwo-scheduler, or set "
        "`scheduling.kubeSchedulerName` in KaiwoConfig.",
    ),
    "FailedCreate": Meaning(
        "STARTING RUNNING",
        "The API server refuses its pods: a quota, a policy, a bad field. The message quotes it.",
    ),
    "NoPods": Meaning(
        "STARTING", "A Job began 30 s ago or earlier and has no pod. The Job's events say why."
    ),
    "Evicted": Meaning(
        "STARTING RUNNING FAILED", "The node put a pod out, mostly for lack of memory or disk."
    ),
}

ENDED: Final[Meanings] = {
    "Completed": Meaning("COMPLETE", "The job succeeded."),
    "AppFailed": Meaning("FAILED", "The Ray job ended with an error; the message has Ray's own words."),
    "ExitCode": Meaning("FAILED", "A container ended with an exit code other than 0, which the message has."),
    "OOMKilled": Meaning(
        "FAILED", "A container used more memory than its limit. Ask for more with `resources`."
    ),
    "DeadlineExceeded": Meaning("FAILED", "The job was active longer than its `activeDeadlineSeconds`."),
    "Failed": Meaning("FAILED", "The job failed, and neither a pod nor a controller gave a reason."),
    "Stopped": Meaning("FAILED", "Somebody stopped the Ray job."),
    "WrapperFailed": Meaning("FAILED", "AppWrapper gave the service up."),
    "DownloadInvalid": Meaning(
        "FAILED",
        "A download is configured wrongly, for example an address that is never reached, or a key that is no "
        "text. The message names the item; correct it and submit again.",
    ),
    "DownloadUnavailable": Meaning(
        "FAILED", "What was to be downloaded does not exist, or the credentials may not read it."
    ),
    "DownloadMismatch": Meaning(
        "FAILED", "What was downloaded is not what it should be: checksum, size, or changed meanwhile."
    ),
    "DownloadDiskFull": Meaning("FAILED", "The volume is too small, four times. Raise `storageSize`."),
    "DownloadUnreachable": Meaning("FAILED", "The network or the server did not recover, four times."),
    "DownloadFailed": Meaning(
        "FAILED", "The download failed for another reason; the message has its last line."
    ),
    "ChildLost": Meaning(
        "FAILED",
        "The created object is gone and its end was not observed. A job never runs twice: check its output, "
        "and submit it again if you want it.",
    ),
}
"""Words of terminal statuses."""

GROUPS: Final[dict[str, Meanings]] = {
    "cannot-run": CANNOT_RUN,
    "waits": WAITS,
    "runs": RUNS,
    "pods": PODS,
    "ended": ENDED,
}

ON_CONDITIONS: Final[dict[str, str]] = {
    "Schedulable": "Pods and GPUs of each are known, and fit.",
    "Applied": "The running object is as the spec says; the message lists what of the spec is ignored.",
    "Immutable": "The field in the message changed and cannot change now. The running object is untouched.",
    "Bound": "All volumes are there.",
    "WaitForFirstConsumer": "The class makes the volume when its first pod has a node. Nothing is wrong.",
    "VolumeExpanding": "A volume is being enlarged.",
    "VolumeMissing": "A claim was deleted.",
    "JobPending": "The download Job has no running pod yet; the message says what it waits for.",
    "JobInProgress": "It downloads, or is about to try again.",
    "JobFailed": "It failed for good; the message has the download program's last line.",
    "JobCompleted": "All is there. It stays so when the Job is gone: nothing is downloaded twice.",
}
"""Words that stand on conditions of a workload only."""

CONDITIONS: Final[dict[str, str]] = {
    "Schedulable": "Whether the workload can run at all: fields, names, plugins, GPUs, queue.",
    "Admitted": "What the queue says, in its own words. Absent without a queue.",
    "StorageReady": "Whether the volumes are bound. Absent without volumes.",
    "DownloadJobSucceeded": "Whether what is downloaded before the start is there. Absent without downloads.",
    "SpecApplied": "Whether the running object is as the spec says. Its message carries warnings.",
    "Preemptable": "Whether `duration` has passed.",
    "ResourceUnderutilization": "Whether the GPUs stand idle.",
    "WorkloadTerminatedEarly": "Whether Kaiwo ended the workload.",
}

EVENTS: Final[dict[str, str]] = {
    "NotManagedByQueue": "The workload runs outside quota.",
    "ResourceReplaced": "The created object is replaced because of a change.",
}

OF_CONFIG: Final[dict[str, str]] = {
    "InForce": "The values are in force; the message names deprecated fields.",
    "InvalidValues": "A value cannot be used; the last good values stay in force.",
    "NotTheSingleton": "Only the object named `kaiwo` counts; this one is ignored.",
    "Current": "The installed CRDs are what the loaded plugins need.",
    "Drift": "The installed CRDs differ: apply `kaiwo manifests crds --from-cluster` again.",
}

OF_QUEUES: Final[dict[str, str]] = {
    "Synced": "Kueue's objects are as described.",
    "WithinCapacity": "Queues do not promise more of a node pool than its nodes have.",
    "KueueNotInstalled": "Kueue is not there; everything follows by itself when it is.",
    "NotServed": "This Kueue lacks a kind (Topology in some versions); it is left out.",
    "NotTheSingleton": "Only the object named `kaiwo` counts; this one is ignored.",
    "InvalidSpec": "The spec cannot be read; the message names the field.",
    "NameMissing": "An entry has no name.",
    "DuplicateName": "Two entries have one name; the first counts.",
    "UnknownFlavor": "A queue lists a flavor that nobody defines; Kueue keeps the queue inactive.",
    "InvalidQuantity": "A quota is no quantity; the queue is not written.",
    "TooManyFlavors": "More flavors in a resource group than this Kueue takes (16 or 64).",
    "TooManyNodeLabels": "A flavor has more than the 8 node labels that Kueue takes.",
    "NamespaceNotFound": "A namespace in `namespaces` does not exist. Heals when it does.",
    "NamespaceNotLabelled": "A namespace could not be labelled for Kueue.",
    "LocalQueueConflict": "Somebody else's LocalQueue of that name leads to another queue; it is left alone.",
    "FlavorInUse": "A flavor cannot be replaced while a queue of somebody else lists it.",
    "Immutable": "An object of somebody else cannot be changed; delete it to have Kaiwo make it.",
    "*Replacing": "After the name of a kind: an object that cannot be changed is deleted and made anew.",
    "*Terminating": "After the name of a kind: an object is being deleted; the message says what holds it.",
    "ResourceFlavorReplacing": "A flavor waits for its topology, which is replaced.",
    "QuotaCountedTwice": "Queues together promise more of a node pool than its nodes have. Not an error.",
    "PoolsMerged": "More node pools than Kueue takes flavors; those that differ least were merged.",
    "PoolChangePending": "A node keeps its old pool label while pods that select it are there.",
    "NotKept": "The API server drops a field: this Kueue may not know it.",
    "Refused": "Kueue or the API server refused an object; the message has its words.",
    "WriteFailed": "An object could not be written; it is tried again.",
}
