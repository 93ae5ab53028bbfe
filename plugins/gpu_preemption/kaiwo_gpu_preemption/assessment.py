"""What the status of a GpuWorkload becomes, and when its GPUs may be taken back. Pure, without a clock."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from kaiwo.plugin.kit.json_access import lenient_map, lenient_maps, lenient_text
from kaiwo.plugin.kit.values import format_time, parse_time
from kaiwo.plugin.kit.workload import Condition, find_condition, merge_conditions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from kaiwo.plugin.kit.kinds import Object
    from kaiwo_gpu_preemption.models import Phase
    from kaiwo_gpu_preemption.pods import GpuPodFacts
    from kaiwo_gpu_preemption.policy import TrackingPolicy
    from kaiwo_gpu_preemption.utilization import WorkloadUtilization

UNKNOWN: Final = "UtilizationUnknown"
POLICY_VALID: Final = "PolicyValid"
OWNER_READABLE: Final = "OwnerReadable"
PERMITTED: Final = "DeletionPermitted"
DECIDED: Final = "PreemptionDecided"
OWN_CONDITIONS: Final = (UNKNOWN, POLICY_VALID, OWNER_READABLE, PERMITTED, DECIDED)

STEP: Final = 1.0
"""Points by which a figure must have moved before the status is written."""

_WORDS: Final = {
    "MetricsUnreachable": "the metrics endpoint does not answer",
    "NoEndpoint": "no metrics endpoint is set; see GPU_PREEMPTION_METRICS_ENDPOINT",
    "MetricsMissing": "the metrics have no sample of some of its GPUs",
    "MetricsInvalid": "the metrics have values of its GPUs that are not percentages",
    "PodsNew": "its pods have just started",
    "NotObserved": "nobody read the metrics for a while; the time begins again",
    "OwnerUnreadable": "an owner of pods that may be its own cannot be read; the operator's log names it",
}


@dataclass(frozen=True, slots=True)
class UseReading:
    """What is known of the use of a workload's GPUs now.

    Attributes:
        utilization: of the last scrape, None where no pod runs or there was no scrape.
        current: the last scrape was usable; nothing is ended otherwise.
        missing: there has been no usable one for so long that nothing is known any more.
        interrupted: nobody read for so long before this scrape.
        problem: why nothing is known.
    """

    utilization: WorkloadUtilization | None
    current: bool = False
    missing: bool = False
    interrupted: bool = False
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Assessment:
    """What the status is to say.

    Attributes:
        phase: the phase.
        idle_since: since when the GPUs are idle, None while they are not.
        conditions: conditions of the plugin that hold.
        current: the figures are of the last scrape, so a decision may be taken from them.
    """

    phase: Phase
    idle_since: datetime | None
    conditions: tuple[Condition, ...]
    current: bool = False


def assess(
    status: Mapping[str, Any],
    pods: Sequence[GpuPodFacts],
    reading: UseReading,
    policy: TrackingPolicy,
    now: datetime,
    *,
    held: bool = False,
    unreadable_owner: str = "",
) -> Assessment:
    """Phase and conditions of a workload that is tracked.

    Args:
        status: as recorded.
        pods: its pods with GPUs that have not ended.
        reading: what is known of their use.
        policy: what holds for it.
        now: the time.
        held: a queue holds it for lack of GPU quota.
        unreadable_owner: an owner above its root that cannot be read, in words.
    """
    conditions = [_policy_condition(policy)] if policy.problems else []
    if unreadable_owner:
        text = f"{unreadable_owner}. The workload is not ended meanwhile"
        conditions.append(Condition(OWNER_READABLE, "False", "OwnerUnreadable", text))
    if held or any(pod.lacks for pod in pods):
        return Assessment("PendingGpu", None, tuple(conditions))
    if not any(pod.running for pod in pods):
        return Assessment("PendingOther", None, tuple(conditions))
    recorded = parse_time(status.get("idleSince")) if status.get("phase") == "Idle" else None
    use = reading.utilization
    if use is not None and use.busy and reading.current:
        return Assessment("Active", None, tuple(conditions), current=True)
    if use is not None and use.percent is not None and reading.current:
        if reading.interrupted:
            recorded = None
        idle = use.percent < policy.threshold
        since = None if not idle else _earlier(recorded, now)
        return Assessment("Idle" if idle else "Active", since, tuple(conditions), current=True)
    return _without_figure(status, reading, recorded, tuple(conditions))


def _without_figure(
    status: Mapping[str, Any],
    reading: UseReading,
    recorded: datetime | None,
    conditions: tuple[Condition, ...],
) -> Assessment:
    """Phase of a workload that runs and of whose GPUs the last scrape does not say enough."""
    if recorded is not None and not reading.missing and not reading.interrupted:
        return Assessment("Idle", recorded, (*conditions, *_kept_unknown(status)))  # a scrape that failed
    kept = _kept_unknown(status)
    if kept:
        return Assessment("Active", None, (*conditions, *kept))  # another cause is no news
    if reading.missing or recorded is not None:
        use = reading.utilization
        problem = reading.problem or (use.problem if use is not None else "") or "MetricsMissing"
        if recorded is not None and reading.interrupted:
            problem = "NotObserved"
        text = _WORDS.get(problem, "nothing is known of the use of its GPUs")
        unknown = Condition(UNKNOWN, "True", problem, f"{text}. It is not ended meanwhile")
        conditions = (*conditions, unknown)
    return Assessment("Active", None, conditions)


def _kept_unknown(status: Mapping[str, Any]) -> tuple[Condition, ...]:
    found = find_condition(lenient_maps(status.get("conditions")), UNKNOWN)
    if found is None or found.get("status") != "True":
        return ()
    return (Condition(UNKNOWN, "True", str(found.get("reason")), str(found.get("message"))),)


def _policy_condition(policy: TrackingPolicy) -> Condition:
    text = "; ".join(policy.problems)
    return Condition(
        POLICY_VALID, "False", "InvalidAnnotation", f"{text}. The workload is not ended meanwhile"
    )


def _earlier(recorded: datetime | None, now: datetime) -> datetime:
    """The start of the idle time; one in the future comes from another clock."""
    return now if recorded is None else min(recorded, now)


@dataclass(frozen=True, slots=True)
class Timing:
    """When a workload is given notice, and ended.

    Attributes:
        notice_due: it is given notice now.
        due: its GPUs may be taken back now.
        since: since when that is so.
        wait: seconds until the next of both, None for none.
    """

    notice_due: bool = False
    due: bool = False
    since: datetime | None = None
    wait: float | None = None


def timing(
    assessment: Assessment,
    policy: TrackingPolicy,
    notice: datetime | None,
    now: datetime,
    monotonic: datetime,
) -> Timing:
    """When a workload whose GPUs are idle is given notice, and when they may be taken back.

    Nothing is ended without a notice that is half of the grace period old, whoever was not running when it
    was due. The earlier one of two clocks counts, so that a clock that is set forward ends nothing.

    Args:
        assessment: of the workload.
        policy: what holds for it.
        notice: when it was given notice in this idle time, None while it was not.
        now: the time.
        monotonic: the time by a clock that is not set while the process runs.
    """
    since = assessment.idle_since
    if assessment.phase != "Idle" or since is None or policy.problems:
        return Timing()
    passed, half = min(now, monotonic), policy.grace_period / 2
    if notice is not None and notice < since:
        notice = None  # of an earlier idle time
    if notice is None:
        left = (since + half - passed) / timedelta(seconds=1)
        if left > 0 or not assessment.current:
            return Timing(wait=max(left, 0.0))
        if policy.grace_period > timedelta():
            return Timing(notice_due=True, wait=half.total_seconds())
        return Timing(notice_due=True, due=True, since=since)
    end = max(since + policy.grace_period, notice + half)
    left = (end - passed) / timedelta(seconds=1)
    if left > 0 or not assessment.current:
        return Timing(wait=max(left, 0.0))
    return Timing(due=True, since=end)


def status_change(
    status: Mapping[str, Any],
    assessment: Assessment,
    use: WorkloadUtilization | None,
    now: datetime,
    *,
    chain: str,
) -> Object:
    """The fields of the status that are to be written; empty where nothing is worth a write.

    Figures are written when one has moved by more than `STEP`, or the phase has changed; the conditions
    when one has changed.

    Args:
        status: as recorded.
        assessment: what it is to say.
        use: of the last scrape, None where there was none or no pod runs.
        now: when the samples were read.
        chain: from a pod up to the root owner.
    """
    wanted: Object = {
        "phase": assessment.phase,
        "idleSince": format_time(assessment.idle_since) if assessment.idle_since is not None else None,
        "finishedAt": None,
        "ownerChain": chain,
    }
    live = lenient_maps(status.get("conditions"))
    dropped = {name for name in OWN_CONDITIONS if name not in {one.type for one in assessment.conditions}}
    conditions = merge_conditions(live, assessment.conditions, now, drop=dropped)
    changed = {name: value for name, value in wanted.items() if status.get(name) != value}
    if conditions != live:
        changed["conditions"] = conditions
    if use is not None and assessment.current and (changed or figures_moved(status, use)):
        at = format_time(now)
        changed["trackedPods"] = use.documents(at)
        changed["podsLeftOut"] = use.left_out or None
        changed["aggregatedUtilization"] = round(use.percent, 2) if use.percent is not None else None
        changed["lastMetricsUpdate"] = at
    return changed


def figures_moved(status: Mapping[str, Any], use: WorkloadUtilization) -> bool:
    """Whether a figure differs from the recorded one by more than `STEP`, or pods or GPUs came or went."""
    if _moved(status.get("aggregatedUtilization"), use.percent):
        return True
    recorded = {
        lenient_text(pod.get("podName")): {
            lenient_text(gpu.get("gpuId")): gpu.get("utilization")
            for gpu in lenient_maps(pod.get("gpuMetrics"))
        }
        for pod in lenient_maps(status.get("trackedPods"))
    }
    found = {name: dict(gpus) for name, gpus in use.pods}
    if {name: set(gpus) for name, gpus in recorded.items()} != {
        name: set(gpus) for name, gpus in found.items()
    }:
        return True
    return any(
        _moved(recorded[name][gpu], value) for name, gpus in found.items() for gpu, value in gpus.items()
    )


def _moved(recorded: Any, value: float | None) -> bool:
    if not isinstance(recorded, int | float) or isinstance(recorded, bool):
        return value is not None
    return value is None or abs(recorded - value) > STEP


def expired(status: Mapping[str, Any], ttl: timedelta, now: datetime) -> bool:
    """Whether a GpuWorkload has been kept for long enough after its workload."""
    finished = parse_time(lenient_map(status).get("finishedAt"))
    return ttl > timedelta() and finished is not None and now - finished >= ttl
