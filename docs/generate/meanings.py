"""Explains what each reason means and what to do about it."""

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
        "A field is invalid, or the API server rejected the object made from it. The message names the "
        "field; correct it.",
    ),
    "SpecTooLarge": Meaning(
        "ERROR",
        "The workload has more values, or is nested deeper, than Kaiwo handles, or what it gives once would "
        "be repeated in too many containers. The message names the field and the limit; put data into a "
        "volume or the image. A running workload goes on and is still observed.",
    ),
    "InvalidNamespaceDefaults": Meaning(
        "ERROR",
        "Defaults of the namespace have a malformed part that this workload needs. The message "
        "names the field. The workload starts by itself when it is corrected. See "
        "[namespace-defaults.md](namespace-defaults.md).",
    ),
    "InvalidName": Meaning(
        "ERROR",
        "The name is too long or has characters that its backend does not support. Use the name shown.",
    ),
    "NameConflict": Meaning(
        "ERROR",
        "An object with the required name belongs to another owner and is not changed. Delete it, or use "
        "another name.",
    ),
    "NotAdopted": Meaning(
        "ERROR",
        "The label `kaiwo.silogen.ai/adopted-uid` names an object that Kaiwo did not adopt for this "
        "workload. Nothing is created for it. Delete the workload, and create it without the label.",
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
    "QueueSystemNotLoaded": Meaning(
        "ERROR",
        "The workload was queued or names a queue, and the plugin of the queue system that was in force is "
        "not loaded. Have it selected again, or remove `clusterQueue`.",
    ),
    "BackendUnavailable": Meaning(
        "ERROR",
        "The cluster does not serve what the backend creates, for example RayJob: install its operator. Or "
        "the operator cannot list it: grant its role the right, or start what serves it. The message says "
        "which.",
    ),
    "PriorityClassNotFound": Meaning(
        "ERROR",
        "Neither a PriorityClass nor a WorkloadPriorityClass has the name in `priorityClass`, or an embedded "
        "pod template names a PriorityClass that does not exist.",
    ),
    "ClusterQueueNotFound": Meaning(
        "ERROR",
        "No queue has the name in `clusterQueue`. The message lists those that your namespace may use.",
    ),
    "WrongQueueNamespace": Meaning(
        "ERROR", "The queue exists, and is not open to this namespace. The message names those it is open to."
    ),
    "NoTopology": Meaning(
        "ERROR",
        "No flavor of the queue has a Topology with the level in `requiredTopologyLabel` or "
        "`preferredTopologyLabel`. The message names the levels that there are.",
    ),
    "DownloadNotAvailable": Meaning(
        "ERROR",
        "No loaded plugin fetches what the workload wants downloaded. The message names the field, and the "
        "distribution to select where one is installed.",
    ),
    "VolumeImmutable": Meaning(
        "ERROR",
        "The class or access mode of an existing volume was changed, and is immutable. "
        "Restore the old value, "
        "or submit the workload again.",
    ),
    "VolumeNotExpandable": Meaning(
        "ERROR",
        "A larger volume was requested and its StorageClass does not allow expansion. A running workload is "
        "not affected; only its conditions change.",
    ),
    "Forbidden": Meaning(
        "ERROR", "The API server did not permit the object: a quota, a policy or the operator's own role."
    ),
    "Rejected": Meaning(
        "ERROR", "The API server rejected the object for another reason, which the message quotes."
    ),
    "PluginError": Meaning(
        "ERROR STARTING RUNNING",
        "A plugin failed for this workload; it is retried every 30 s. A running workload is not affected and "
        "keeps its status. The message names the plugin: report it to its authors.",
    ),
}
"""Nothing was created; each recovers when its cause is gone."""

WAITS: Final[Meanings] = {
    "Creating": Meaning("PENDING", "The object that runs the workload is being created."),
    "ChangedBack": Meaning(
        "ERROR",
        "Somebody deletes its object after each creation, so it is created ever more rarely, up to ten "
        "minutes apart. Find out who does that, for example in the audit log of the cluster. In the "
        "condition SpecApplied: somebody changes the running object back after each write.",
    ),
    "WriteRefused": Meaning(
        "PENDING",
        "The API server cannot create its object now, for example because a webhook does not answer. The "
        "message has its words. Starts within 5 s of the end of the cause.",
    ),
    "Queued": Meaning("PENDING", "It waits in its queue, and the queue has given no reason yet."),
    "Pending": Meaning("PENDING", "It waits in its queue. The message is Kueue's own: which quota is short."),
    "QuotaReserved": Meaning("PENDING", "Quota is reserved; admission checks are still pending."),
    "Inadmissible": Meaning(
        "PENDING",
        "The queue refuses it, whatever quota is free, in Kueue's words: its pods break a LimitRange of the "
        "namespace, its queue does not select the namespace, or the queue admits nothing.",
    ),
    "NoQuota": Meaning(
        "PENDING",
        "The queue never admits it: it does not cover a requested resource, or has none of it. Use another "
        "queue, or have its quota raised.",
    ),
    "NotManagedByQueue": Meaning(
        "PENDING STARTING RUNNING",
        "Kueue does not manage an object that names a queue: the namespace lacks the label "
        "`kueue-managed=true`, Kueue's integration for this kind is off, or Kueue does not run or is minutes "
        "behind. Pods that run do so "
        "outside quota.",
    ),
    "QueueUnavailable": Meaning(
        "PENDING", "Kueue is not installed, or the API server cannot list its objects. Starts when it can."
    ),
    "QueuePreparing": Meaning(
        "PENDING",
        "The namespace's LocalQueue or its label is being created. Where the API server refuses that, the "
        "message has its words.",
    ),
    "PreviousRunDeleting": Meaning(
        "PENDING",
        "Objects of a deleted workload of the same name are still being deleted. Starts afterwards.",
    ),
    "ChildDeleting": Meaning(
        "PENDING STARTING RUNNING",
        "The created object is being deleted. It is created again when it is gone; an adopted one is not, "
        "and its workload is deleted with it.",
    ),
    "Replacing": Meaning(
        "PENDING", "A change needs a new object; the service is down until the new one runs."
    ),
    "Downloading": Meaning(
        "PENDING",
        "The downloads of `storage` come first; the object that runs the workload is created afterwards. The "
        "message has the progress.",
    ),
    "VolumePending": Meaning(
        "PENDING",
        "The download waits for a volume that is not bound. The message has the class, whether it exists, "
        "and what its provisioner says.",
    ),
    "VolumeMissing": Meaning(
        "PENDING",
        "A claim was deleted, or is being deleted while pods use it. It is created again before the workload "
        "starts, and what was downloaded to it is downloaded again. Also in the condition StorageReady.",
    ),
    "PreemptedAndRequeued": Meaning(
        "PENDING",
        "`duration` had passed and another workload needed the GPUs. The message names it. The job starts "
        "from its beginning when that one has its GPUs, see [preemption.md](preemption.md).",
    ),
    "ScaledToZero": Meaning(
        "PENDING",
        "`replicas` is 0: raise it to start the service. Where an autoscaler, or somebody with `kubectl "
        "scale`, scaled the Deployment to zero, the message says who, and the next command of `kaiwo why` "
        "is about that.",
    ),
    "Suspended": Meaning(
        "PENDING",
        "Somebody suspended the created object or the download Job. Set its `spec.suspend` to false. Where "
        "Kueue did it, with `manageJobsWithoutQueueName`, the message says so, and what ends that. A "
        "download Job that Kueue suspends gets the workload's queue within seconds.",
    ),
    "Adopting": Meaning("PENDING", "Kaiwo is about to become the owner of an object that it adopts."),
    "Waiting": Meaning("PENDING", "It waited; written afterwards, when the wait itself was not observed."),
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
        "A rollout made no progress for too long. Recovers when it continues; the message has the cause.",
    ),
    "ApplicationUnhealthy": Meaning(
        "ERROR",
        "A Ray Serve application is UNHEALTHY or DEPLOY_FAILED. Recovers when Ray reports it healthy.",
    ),
    "ValidationFailed": Meaning(
        "ERROR FAILED", "KubeRay rejects the RayService or the RayJob; the message is KubeRay's."
    ),
    "InitializingTimeout": Meaning(
        "ERROR", "KubeRay gave up the RayService: it was not ready within its annotation's time."
    ),
    "RayJobIgnored": Meaning(
        "ERROR",
        "KubeRay does not run, or rejects the RayJob without a status. The events of the "
        "RayJob have the cause.",
    ),
    "ReplicaFailure": Meaning(
        "STARTING RUNNING", "Pods of a Deployment cannot be created; the message has the cause."
    ),
}

PODS: Final[Meanings] = {
    "ImagePullBackOff": Meaning(
        "STARTING RUNNING", "The image cannot be pulled. Check its name, or give `imagePullSecrets`."
    ),
    "ErrImagePull": Meaning("STARTING RUNNING", "The same, at the first attempt."),
    "InvalidImageName": Meaning("STARTING RUNNING", "The name of the image is invalid."),
    "ErrImageNeverPull": Meaning(
        "STARTING RUNNING", "The pull policy is Never and the node lacks the image."
    ),
    "ImageInspectError": Meaning("STARTING RUNNING", "The node cannot read the image."),
    "RegistryUnavailable": Meaning("STARTING RUNNING", "The node cannot reach the registry of the image."),
    "SignatureValidationFailed": Meaning(
        "STARTING RUNNING", "The node does not accept the signature of the image."
    ),
    "CreateContainerConfigError": Meaning(
        "STARTING RUNNING",
        "Something that the container refers to is missing, mostly a Secret or a key in it.",
    ),
    "CreateContainerError": Meaning(
        "STARTING RUNNING", "The container cannot be created; the message has the cause."
    ),
    "RunContainerError": Meaning("STARTING RUNNING", "The container cannot be run, mostly a wrong command."),
    "PostStartHookError": Meaning("STARTING RUNNING", "The command in `lifecycle.postStart` failed."),
    "CrashLoopBackOff": Meaning(
        "STARTING RUNNING",
        "The container ends again and again; the message has how often it was restarted and an exit code. "
        "It counts as recovered when it has run twice as long as before, from 10 s to 10 min.",
    ),
    "Unschedulable": Meaning("STARTING RUNNING", "No node fits the pod now. The message is the scheduler's."),
    "VolumeNotBound": Meaning("STARTING RUNNING", "The pod waits for a volume."),
    "SchedulerMissing": Meaning(
        "STARTING RUNNING",
        "For 30 s no scheduler has processed the pod. Install kaiwo-scheduler, or set "
        "`scheduling.kubeSchedulerName` in KaiwoConfig.",
    ),
    "SchedulingGated": Meaning(
        "STARTING RUNNING",
        "The pod has a scheduling gate that no queue holds. It is scheduled when whoever set the gate "
        "removes it.",
    ),
    "FailedCreate": Meaning(
        "STARTING RUNNING",
        "The API server rejects its pods, or the ReplicaSet that makes them: a quota, a limit range, a "
        "webhook, a policy, an invalid field. The message quotes it, and the next command of `kaiwo why` "
        "follows from it.",
    ),
    "NoPods": Meaning(
        "STARTING", "A Job started at least 30 s ago and has no pod. The events of the Job have the cause."
    ),
    "NodeNotReady": Meaning(
        "STARTING RUNNING READY",
        "Kubernetes does not reach the node of a pod, so what its containers do is not known. The status is "
        "the last that is known; the message has the node, and what happens if it does not come back.",
    ),
    "Evicted": Meaning(
        "STARTING RUNNING FAILED",
        "The node evicted a pod, mostly for lack of memory or disk, or a pod was deleted from it: the node "
        "is drained, or its GPU is marked as broken.",
    ),
    "UnexpectedAdmissionError": Meaning(
        "STARTING FAILED", "The node rejected a pod, mostly since a GPU is broken or already taken."
    ),
    "NodeAffinity": Meaning("STARTING FAILED", "The labels of a node no longer fit the pod placed on it."),
    "NodeShutdown": Meaning("STARTING FAILED", "A node that is being shut down rejected a pod."),
    "Preempting": Meaning("STARTING FAILED", "A node ended a pod to make room for a critical one."),
}

ENDED: Final[Meanings] = {
    "Completed": Meaning("COMPLETE", "The job succeeded."),
    "AppFailed": Meaning(
        "FAILED", "The Ray job ended with an error; the message has Ray's own words and the exception."
    ),
    "ExitCode": Meaning("FAILED", "A container ended with an exit code other than 0, which the message has."),
    "OOMKilled": Meaning("FAILED", "A container used more memory than its limit. Raise it in `resources`."),
    "DeadlineExceeded": Meaning("FAILED", "The job was active longer than its `activeDeadlineSeconds`."),
    "Failed": Meaning("FAILED", "The job failed, and neither a pod nor a controller gave a reason."),
    "Stopped": Meaning("FAILED", "Somebody stopped the Ray job."),
    "WrapperFailed": Meaning("FAILED", "AppWrapper stopped retrying the service."),
    "DownloadLimitExceeded": Meaning(
        "FAILED",
        "A download is larger, has more files or takes longer than KaiwoConfig allows. The message names the "
        "limit and its setting; download less, or ask an administrator to raise it.",
    ),
    "DownloadInvalid": Meaning(
        "FAILED",
        "A download is configured wrongly, for example an address that is not allowed, or a key that is no "
        "string. The message names the item; correct it and submit again.",
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
        "The created object is missing and its end was not observed. A job never runs twice: "
        "check its output, "
        "and submit it again if needed.",
    ),
    "DurationExceeded": Meaning(
        "TERMINATING TERMINATED",
        "`duration` had passed and another workload needed the GPUs. The message names it. Submit it again "
        "with a longer `duration`.",
    ),
    "GpuUtilizationLow": Meaning(
        "TERMINATING TERMINATED",
        "Its GPUs were used too little for too long. The message has the figures.",
    ),
    "GpuIdle": Meaning("TERMINATING TERMINATED", "Its GPUs were idle. The message has the figures."),
}
"""Words of statuses of what ends or has ended."""

WHY: Final[Meanings] = {
    "OperatorAbsent": Meaning(
        "",
        "No operator runs: nobody holds its Lease, or it was not renewed. Nothing happens to the workload, "
        "and its status may be old. An administrator starts the operator.",
    ),
    "NotObserved": Meaning(
        "",
        "No operator has observed the workload, or its last change, yet. Perhaps the operator is busy, or "
        "watches other namespaces.",
    ),
    "OperatorForbidden": Meaning(
        "",
        "The operator lacks rights; the message has the API server's words. An administrator applies "
        "`kaiwo manifests rbac` again.",
    ),
    "ConfigInvalid": Meaning(
        "",
        "The KaiwoConfig is not in force as it is written; the last valid values are. The message names the "
        "field.",
    ),
    "FailedMount": Meaning(
        "",
        "A volume, a Secret or a ConfigMap that a pod refers to does not exist or cannot be mounted. Create "
        "it, or correct its name.",
    ),
    "FailedAttachVolume": Meaning(
        "", "A volume cannot be attached to the pod's node, mostly since a pod on another node still uses it."
    ),
    "FailedMapVolume": Meaning("", "A block volume of a pod cannot be set up on its node."),
    "FailedCreatePodSandBox": Meaning(
        "", "The node cannot set up a pod, mostly since its network plugin fails or has no addresses left."
    ),
    "Terminating": Meaning(
        "", "The workload is being deleted. The message names the finalizers that it waits for."
    ),
    "Unknown": Meaning("", "Nothing that could be read says why; the warnings name what may not be read."),
}
"""Codes of `kaiwo why` that are no reasons of a status."""

GROUPS: Final[dict[str, Meanings]] = {
    "cannot-run": CANNOT_RUN,
    "waits": WAITS,
    "runs": RUNS,
    "pods": PODS,
    "ended": ENDED,
    "why": WHY,
}

ON_CONDITIONS: Final[dict[str, str]] = {
    "Schedulable": "Pods and GPUs of each are known, and fit.",
    "Applied": "The running object matches the spec; the message lists the fields that are ignored.",
    "Adopted": "The workload was made for an object of a user's, which is not changed. The message says "
    "whether the spec has a copy of it.",
    "NotApplied": "The spec of the workload of an adopted object was changed, without any effect. Edit the "
    "object itself.",
    "Immutable": "The field in the message changed and cannot change now. The running object is untouched.",
    "QueueIsChanging": "The queue system suspends the running object. The change is applied after that.",
    "ContributionNotLoaded": "A plugin that added to the pods is gone. The running object keeps what it has; "
    "the change waits for the plugin.",
    "Bound": "All volumes are there.",
    "WaitForFirstConsumer": "The class makes the volume when its first pod has a node. Nothing is wrong.",
    "VolumeExpanding": "A volume is being enlarged.",
    "VictimsChosen": "Others are ended for the workload. The message names them.",
    "ReportOnly": "Others would be ended for the workload, if `scheduling.preemption` were `Enforce`.",
    "EndedByItself": "Kaiwo was to end it, and it ended by itself before it was stopped.",
    "GpuUtilizationNormal": "Its GPUs are used `lowUtilizationThreshold` or more, see "
    "[monitoring.md](monitoring.md).",
    "MetricsMissing": "The metrics have no sample of some of its GPUs.",
    "MetricsInvalid": "The metrics have values of its GPUs that are not percentages.",
    "MetricsUnreachable": "The metrics endpoint does not answer.",
    "PodsNew": "Its pods keep being replaced, or hold no GPU yet.",
    "NotObserved": "No operator read the metrics for a while; the time until its end begins again.",
    "JobPending": "The download Job has no running pod yet; the message names what it waits for.",
    "JobInProgress": "It downloads, or is about to try again.",
    "JobFailed": "It failed for good; the message has the download program's last line.",
    "JobCompleted": "All downloads are complete. It stays True without the Job: nothing is downloaded twice.",
}
"""Words that stand on conditions of a workload only."""

CONDITIONS: Final[dict[str, str]] = {
    "Schedulable": "Whether the workload can run at all: fields, names, plugins, GPUs, queue.",
    "Admitted": "The admission state in the queue's own words. Absent without a queue.",
    "StorageReady": "Whether the volumes are bound. Absent without volumes.",
    "DownloadJobSucceeded": "Whether all downloads are complete. Absent without downloads.",
    "SpecApplied": "Whether the running object matches the spec. Its message has the warnings. False also "
    "with a reason for which a new workload [cannot run now](#it-cannot-run-now), such as `Forbidden`.",
    "Adopted": "The workload was made for an object that a user made, see [adoption.md](adoption.md).",
    "Preemptable": "`duration` has passed, see [preemption.md](preemption.md). Absent before.",
    "ResourceUnderutilization": "Whether the GPUs are idle, see [monitoring.md](monitoring.md). Absent "
    "where they are not monitored.",
    "WorkloadTerminatedEarly": "Whether Kaiwo ended the workload.",
    "Requeued": "A job that was preempted and is not terminated for it. False: it is held until the other "
    "workload has its GPUs.",
    "PreemptionDecided": "Whether others are ended for the workload. False: they would be, see "
    "[preemption.md](preemption.md).",
}

EVENTS: Final[dict[str, str]] = {
    "NotManagedByQueue": "The workload runs outside quota.",
    "TerminationWarning": "The workload is ended for idle GPUs, at the time in the message, unless it uses "
    "them.",
    "ResourceReplaced": "The created object is replaced because of a change.",
}

OF_CONFIG: Final[dict[str, str]] = {
    "InForce": "The values are in force; the message names deprecated fields.",
    "InvalidValues": "A value is invalid. The message says which values are in force.",
    "NotTheSingleton": "Only the object named `kaiwo` is used; this one is ignored.",
    "Current": "The installed CRDs are what the loaded plugins need.",
    "Drift": "The installed CRDs differ: apply `kaiwo manifests crds --from-cluster` again.",
    "Newer": "The installed CRDs are of a later version of Kaiwo: upgrade the operator.",
    "Forbidden": "The operator lacks rights; the message has the API server's words and what stops. "
    "Apply `kaiwo manifests rbac` again.",
    "NoOperator": "No operator leads the shard that namespaces belong to. The message names both.",
    "UnknownPlugin": "Settings under `plugins` of a plugin that is not loaded, or that has no settings.",
    "StorageClassNotFound": "The default StorageClass does not exist. Recovers when it does.",
    "QueueNotFound": "The default queue is not listed. Recovers when it is.",
    "NoNodeFits": "`ray.headPodMemory` is more than any node has. Recovers when a larger node joins.",
    "UnknownVendor": "A GPU vendor or GPU resource that no loaded plugin knows.",
    "MonitoringOff": "The setting has no effect while the operator does not read the use of GPUs.",
    "SamplesRead": "The metrics endpoint is read.",
    "NoSamples": "The metrics endpoint answers, and has no sample of a pod's GPU.",
    "EndpointFailed": "The metrics endpoint does not answer, or not with metrics. No workload is ended for "
    "idle GPUs meanwhile.",
    "CreatedWithDefaults": "The KaiwoConfig was deleted and has defaults since; the message has the command "
    "that brings the values back.",
    "ConfigMapFailed": "The last specs cannot be kept; the message has the API server's answer.",
    "NodePoolsNotLoaded": "`nodes.addTaintsToGpuNodes` has no effect: the plugin `node_pools` is not loaded.",
}

OF_QUEUES: Final[dict[str, str]] = {
    "Synced": "Kueue's objects are as described.",
    "WithinCapacity": "The quotas of a node pool do not exceed what its nodes have.",
    "KueueNotInstalled": "Kueue is not installed; the queues are created when it is.",
    "NotServed": "This Kueue lacks a kind (Topology in some versions); it is left out.",
    "NotTheSingleton": "Only the object named `kaiwo` is used; this one is ignored.",
    "InvalidSpec": "The spec cannot be read; the message names the field.",
    "NameMissing": "An entry has no name.",
    "DuplicateName": "Two entries have one name; the first counts.",
    "UnknownFlavor": "A queue lists a flavor that does not exist; Kueue keeps the queue inactive.",
    "InvalidQuantity": "A quota is not a quantity; the queue is not written.",
    "TooManyFlavors": "More flavors in a resource group than this Kueue takes (16 or 64).",
    "TooManyNodeLabels": "A flavor has more than the 8 node labels that Kueue takes.",
    "NamespaceNotFound": "A namespace in `namespaces` does not exist. Recovers when it does.",
    "NamespaceNotLabelled": "A namespace could not be labelled for Kueue.",
    "LocalQueueConflict": "A LocalQueue that Kaiwo did not create points to another queue; it stays.",
    "FlavorInUse": "A flavor cannot be replaced or deleted while another queue lists it.",
    "TopologyInUse": "A topology cannot be replaced while a flavor uses it that cannot be replaced either.",
    "Immutable": "An object that Kaiwo did not create cannot be changed; delete it and Kaiwo creates it.",
    "*Replacing": "After the name of a kind: an object that cannot be changed is deleted and created again.",
    "*Terminating": "After the name of a kind: an object is being deleted; the message names what blocks it.",
    "ResourceFlavorReplacing": "A flavor waits for its topology, which is replaced.",
    "QuotaWithoutNodes": "A GPU quota whose flavor has no nodes, or whose nodes do not have the resource.",
    "FractionalGPUs": "A GPU quota is not a whole number.",
    "QueuesInUse": "Queues that are not listed are held until no workload uses them; it counts those.",
    "ExistedBefore": "A ClusterQueue that somebody else created has the name of the default queue.",
    "NoFlavorSelects": "GPU nodes that no flavor of any queue selects; the message names them.",
    "QuotaExceedsNodes": "Queues together have more quota of a node pool than its nodes have. Not an error.",
    "NodesCordoned": "The same, only because nodes of the pool are cordoned; no quota needs to change.",
    "LevelLeftOut": "Some nodes lack a topology label, so that it is no level of the default Topology.",
    "PoolsMerged": "More node pools than Kueue takes flavors; those that differ least were merged.",
    "PoolChangePending": "A node keeps its old pool label while pods that select it are there.",
    "NodePoolsNotLoaded": "Flavors select labels that no node has: the plugin `node_pools` is not loaded.",
    "ChangedBack": "Somebody changes an object back after each write, so it is written ever more rarely.",
    "NotKept": "The API server dropped a field that this version of Kueue may not know.",
    "Refused": "Kueue or the API server refused an object; the message has the answer.",
    "WriteFailed": "An object could not be written; it is tried again.",
}
