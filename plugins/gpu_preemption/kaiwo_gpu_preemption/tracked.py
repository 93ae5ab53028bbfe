"""One tracked workload in one pass, and its GpuWorkload."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from kaiwo.plugin.kit.json_access import lenient_map, lenient_text
from kaiwo_gpu_preemption.kinds import GPU_WORKLOAD, KAIWO_ROOTS
from kaiwo_gpu_preemption.policy import duration_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from kaiwo.plugin.kit.cache import Cache, CachedObject
    from kaiwo.plugin.kit.kinds import Object
    from kaiwo.plugin.kit.workload import Condition
    from kaiwo_gpu_preemption.assessment import Assessment, Timing
    from kaiwo_gpu_preemption.owners import OwnerMetadata, Root
    from kaiwo_gpu_preemption.pods import GpuPodFacts, WaitingPods
    from kaiwo_gpu_preemption.policy import TrackingPolicy
    from kaiwo_gpu_preemption.utilization import WorkloadUtilization

NOTICE: Final = "kaiwo.silogen.ai/gpu-preemption-notice"
"""Annotation of a GpuWorkload: when its workload was given notice."""

_MAX_NAME: Final = 253
_NAME: Final = re.compile(r"[^a-z0-9.-]")


@dataclass(slots=True)
class Tracked:
    """A workload that is tracked.

    Attributes:
        root: its root owner.
        policy: what holds for it.
        pods: its pods with GPUs that have not ended.
        entry: its GpuWorkload, None while there is none.
        queued: pods that it has not yet, because a queue holds them for lack of GPU quota.
        owner_uids: uids of all owners of its pods, and of the pods.
        use: of the last scrape.
        assessment: what its status is to say.
        timing: when it is given notice, and ended.
        conditions: further conditions.
        written: its status was written in this pass already.
    """

    root: Root
    policy: TrackingPolicy
    pods: list[GpuPodFacts] = field(default_factory=list)
    entry: CachedObject | None = None
    queued: list[WaitingPods] = field(default_factory=list)
    owner_uids: set[str] = field(default_factory=set)
    use: WorkloadUtilization | None = None
    assessment: Assessment | None = None
    timing: Timing | None = None
    conditions: list[Condition] = field(default_factory=list)
    written: bool = False

    @property
    def owner(self) -> OwnerMetadata:
        """Its root owner."""
        return self.root.owner

    @property
    def status(self) -> Mapping[str, Any]:
        """The recorded status."""
        return lenient_map(self.entry.readable_part("status")) if self.entry is not None else {}

    @property
    def is_kaiwo(self) -> bool:
        """Whether it is a KaiwoJob or a KaiwoService."""
        return self.owner.resource in KAIWO_ROOTS

    @property
    def gpus(self) -> dict[str, int]:
        """GPUs that its pods request, or are going to, by resource key."""
        total: Counter[str] = Counter()
        for pod in self.pods:
            total.update(pod.gpus)
        if not total:
            for waiting in self.queued:
                total[waiting.key] += waiting.count * waiting.gpus
        return dict(total)

    @property
    def due_since(self) -> datetime | None:
        """Since when its GPUs may be taken back."""
        return self.timing.since if self.timing is not None else None

    def __str__(self) -> str:
        """``Job team/train``."""
        return f"{self.owner.resource.kind} {self.owner.namespace}/{self.owner.name}"


def gpu_workload_name(owner: OwnerMetadata) -> str:
    """The name of the GpuWorkload of a root owner: ``job-train-1a2b3c4d``."""
    kind, uid = owner.resource.kind.lower(), _NAME.sub("-", owner.uid[:8].lower())
    name = _NAME.sub("-", owner.name.lower())
    longest = _MAX_NAME - len(kind) - len(uid) - 2
    if len(name) > longest:
        digest = hashlib.sha256(name.encode()).hexdigest()[:6]
        name = f"{name[: longest - 7].rstrip('-.')}-{digest}"
    return f"{kind}-{name}-{uid}"


def wanted_spec(tracked: Tracked, before: Mapping[str, Any]) -> Object:
    """The spec of the GpuWorkload.

    Args:
        tracked: the workload.
        before: the spec as it is; the GPUs of one whose pods are gone stay there.
    """
    owner, policy = tracked.owner, tracked.policy
    return {
        "workloadRef": {
            "apiVersion": owner.resource.api_version,
            "kind": owner.resource.kind,
            "name": owner.name,
            "uid": owner.uid,
        },
        "gpuResources": tracked.gpus or lenient_map(before.get("gpuResources")),
        "utilizationThreshold": policy.threshold,
        "gracePeriod": duration_text(policy.grace_period),
        "preemptionPolicy": policy.policy,
        "aggregationPolicy": policy.aggregation,
        "ttlAfterFinished": duration_text(policy.ttl),
    }


def spec_patch(before: Mapping[str, Any], wanted: Object) -> Object:
    """The merge patch that makes one spec of another; resource keys that are gone are removed."""
    gone = set(lenient_map(before.get("gpuResources"))) - set(wanted["gpuResources"])
    return {**wanted, "gpuResources": {**wanted["gpuResources"], **dict.fromkeys(gone)}}


def new_gpu_workload(tracked: Tracked) -> Object:
    """The GpuWorkload of a workload that has none."""
    return {
        "apiVersion": GPU_WORKLOAD.api_version,
        "kind": GPU_WORKLOAD.kind,
        "metadata": {"name": gpu_workload_name(tracked.owner), "namespace": tracked.owner.namespace},
        "spec": wanted_spec(tracked, {}),
    }


def by_workload(entries: Sequence[CachedObject]) -> dict[str, CachedObject]:
    """GpuWorkloads by the uid of their workload, only those with the name that the operator gives them."""
    found: dict[str, CachedObject] = {}
    for entry in entries:
        uid = lenient_text(lenient_map(entry.readable_part("spec", "workloadRef")).get("uid"))
        if uid and entry.name.endswith(_NAME.sub("-", uid[:8].lower())):
            found[uid] = entry
    return found


def refreshed(cache: Cache, tracked: Tracked) -> None:
    """Go on with the GpuWorkload as it is after a write of this process."""
    before = tracked.entry
    if before is None:
        return
    live = cache.get(GPU_WORKLOAD, before.namespace, before.name)
    if live is not None and live.uid == before.uid:
        tracked.entry = live
