"""What a status says about the use of GPUs, and when a workload that leaves them idle is ended."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from kaiwo.api.conditions import Condition, find_condition
from kaiwo.engine.timestamps import format_time, parse_time
from kaiwo.workload.model import PlannedEvent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaiwo.api.resolved_config import ResolvedConfig
    from kaiwo.engine.resource import Object
    from kaiwo.workload.monitoring.history import GpuUse

UNDERUSE: Final = "ResourceUnderutilization"
"""Type of the condition. Its last transition is the clock of `terminateUnderutilizedAfter`."""

MEASURED: Final = ("RUNNING", "READY")
"""Status words under which GPUs are measured."""

STEP: Final = 10
"""Points by which a figure must have moved before the status is written."""

NOTICE: Final = timedelta(minutes=10)
"""How long before its end a workload is warned for the last time, half of the time where that is less."""

_WARNING: Final = "TerminationWarning"

_WORDS: Final = {
    "MetricsUnreachable": "the metrics endpoint does not answer",
    "MetricsMissing": "the metrics have no sample of some of its GPUs",
    "MetricsInvalid": "the metrics have values of its GPUs that are not percentages",
    "PodsNew": "its pods keep being replaced",
    "NotObserved": "nobody read the metrics for a while; the time begins again",
}


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the status is to say, and whether the workload is to be ended.

    Attributes:
        condition: the condition, None for none.
        utilization: ``status.utilization``, empty for none.
        events: of what changed.
        evidence: why the workload is to be ended now, empty where it is not.
    """

    condition: Condition | None = None
    utilization: Object | None = None
    events: tuple[PlannedEvent, ...] = ()
    evidence: str = ""

    def differs(self, conditions: Sequence[Object], utilization: Object) -> bool:
        """Whether the status says something else."""
        found = find_condition(conditions, UNDERUSE)
        said = (found.get("status"), found.get("reason"), found.get("message")) if found else None
        mine = self.condition
        says = (mine.status, mine.reason, mine.message) if mine else None
        return said != says or utilization != (self.utilization or {})


def is_monitored(namespace: str, config: ResolvedConfig) -> bool:
    """Whether workloads of a namespace are monitored."""
    return namespace in config.target_namespaces if config.target_namespaces else namespace != "kube-system"


def judge(
    conditions: Sequence[Object],
    utilization: Object,
    use: GpuUse | None,
    config: ResolvedConfig,
    *,
    gpus: int,
    now: datetime,
    monotonic: datetime,
) -> Judgement:
    """What to say about a workload that runs and is monitored.

    Args:
        conditions: its conditions, as recorded.
        utilization: its ``status.utilization``, as recorded.
        use: what is known, None while nothing was read.
        config: the configuration in force.
        gpus: GPUs that it was given.
        now: the time.
        monotonic: the time by a clock that is not set while the process runs. The earlier of the two decides
            about its end, so that a clock that is set forward ends nothing.
    """
    found = find_condition(conditions, UNDERUSE)
    kept = recorded_condition(found)
    if use is None:
        return Judgement(kept, utilization)
    idle = kept is not None and kept.status == "True"
    if use.state == "unknown":
        return _unknown(kept, use.problem, config)
    if use.interrupted and idle and use.state != "normal":
        return _unknown(kept, "NotObserved", config)
    if use.state == "undecided" or (use.early and not idle):
        return Judgement(kept, utilization)
    low = use.state == "low"
    condition = _condition(low=low, config=config)
    changed = kept is None or kept.status != condition.status
    figures = _figures(utilization, use, gpus, config.low_utilization_threshold, exact=changed)
    if changed:
        return Judgement(condition, figures, _event(kept, condition))
    since = parse_time((found or {}).get("lastTransitionTime"))
    if not low or not config.terminate_underutilized or since is None:
        return Judgement(condition, figures)
    times, events, evidence = _schedule(utilization, config, since, min(now, monotonic), current=use.current)
    return Judgement(condition, figures | times, events, evidence)


def recorded_condition(found: Object | None) -> Condition | None:
    """The condition as a status has it, None for none."""
    if found is None:
        return None
    return Condition(
        UNDERUSE,
        found.get("status", "Unknown"),
        str(found.get("reason", "")),
        str(found.get("message", "")),
        found.get("observedGeneration"),
    )


def _condition(*, low: bool, config: ResolvedConfig) -> Condition:
    limit = f"{config.low_utilization_threshold:g} %"
    if low:
        return Condition(UNDERUSE, "True", "GpuUtilizationLow", f"its GPUs are used less than {limit}")
    return Condition(UNDERUSE, "False", "GpuUtilizationNormal", f"its GPUs are used {limit} or more")


def _unknown(kept: Condition | None, reason: str, config: ResolvedConfig) -> Judgement:
    if kept is not None and kept.status == "Unknown" and kept.reason != "NotObserved":
        return Judgement(kept, {})  # another cause is no news
    ends = "; it is not ended meanwhile" if config.terminate_underutilized else ""
    condition = Condition(UNDERUSE, "Unknown", reason, f"{_WORDS[reason]}{ends}")
    return Judgement(condition, {}, _event(kept, condition))


def _event(before: Condition | None, after: Condition) -> tuple[PlannedEvent, ...]:
    """One event for each change of the condition; none for GPUs that are used from the beginning."""
    if before is None and after.status == "False":
        return ()
    if before is not None and before.status == after.status:
        return ()
    return (PlannedEvent("Warning" if after.status == "True" else "Normal", after.reason, after.message),)


def _figures(utilization: Object, use: GpuUse, gpus: int, threshold: float, *, exact: bool) -> Object:
    """The figures: new ones where they moved by `STEP`, or to the other side of the threshold."""
    known = utilization if utilization.get("gpus") == gpus else {}
    figures: Object = {"gpus": gpus}
    percent = _moved(known.get("percent"), use.percent, threshold, exact=exact)
    if percent is not None:
        figures["percent"] = percent
    memory = _moved(known.get("memoryPercent"), use.memory, 0, exact=exact)
    if memory is not None:
        figures["memoryPercent"] = memory
    figures["mostGpusUsed"] = min(gpus, max(use.busy, _integer(known.get("mostGpusUsed")) or 0))
    since = known.get("observedSince") if parse_time(known.get("observedSince")) else None
    if since is None and use.since is not None:
        since = format_time(use.since)
    if since is not None:
        figures["observedSince"] = since
    return figures


def _moved(recorded: Any, figure: float | None, threshold: float, *, exact: bool) -> int | None:
    """A figure as it is to be written: rounded down, and the recorded one while it has not moved much."""
    written = _integer(recorded)
    if figure is None:
        return written
    if exact or written is None or abs(figure - written) >= STEP:
        return int(figure)
    return int(figure) if (figure < threshold) != (written < threshold) else written


def _integer(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _schedule(
    recorded: Object, config: ResolvedConfig, since: datetime, now: datetime, *, current: bool
) -> tuple[Object, tuple[PlannedEvent, ...], str]:
    """Warn, or end, a workload whose GPUs have been idle since a time.

    Args:
        recorded: ``status.utilization`` as recorded.
        config: the configuration in force.
        since: when the GPUs became idle.
        now: the time that counts.
        current: whether the last scrape found them idle as well.

    Returns:
        The times for ``status.utilization``, the warning, and the evidence where the workload is to be ended.
    """
    after = config.terminate_underutilized_after
    notice = min(NOTICE, after / 2)
    first, last = (parse_time(recorded.get(name)) for name in ("firstWarningTime", "lastWarningTime"))
    if last is not None and since + after - now > 2 * notice:
        last = None  # the time was made longer; it is warned again
    end = since + after
    warned = False
    if last is not None:
        end = max(end, last + notice)
        if now >= end and current:
            return _warned(first, last, end), (), _evidence(config, since)
    elif current and now >= end - notice:
        first, last, warned = first or now, now, True
        end = max(end, now + notice)
    elif current and now >= since + after / 2 and first is None:
        first, warned = now, True
    return _warned(first, last, end), (_warning(config, since, end),) if warned else (), ""


def _warned(first: datetime | None, last: datetime | None, end: datetime) -> Object:
    times = {"firstWarningTime": first, "lastWarningTime": last, "terminationTime": end if first else None}
    return {name: format_time(moment) for name, moment in times.items() if moment is not None}


def _warning(config: ResolvedConfig, since: datetime, end: datetime) -> PlannedEvent:
    text = f"{_evidence(config, since)}; it is ended at {format_time(end)} unless they are used"
    return PlannedEvent("Warning", _WARNING, text)


def _evidence(config: ResolvedConfig, since: datetime) -> str:
    limit = f"{config.low_utilization_threshold:g} %"
    return f"its GPUs have been used less than {limit} since {format_time(since)}"
