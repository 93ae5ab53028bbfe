"""The step before a workload's own object: what it wants downloaded must have been downloaded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kaiwo.api.conditions import Condition, find_condition
from kaiwo.engine.resource import CONFIG_MAP, JOB
from kaiwo.plugin.observation import Finding
from kaiwo.workload.download import job, requested
from kaiwo.workload.download.requested import CONDITION
from kaiwo.workload.download.state import DownloadState, observe
from kaiwo.workload.json_access import lenient_map
from kaiwo.workload.metadata import RESOLVED, conflict, is_ours
from kaiwo.workload.model import Apply, Create, Delete

if TYPE_CHECKING:
    from kaiwo.api.conditions import Truth
    from kaiwo.api.workload import Workload
    from kaiwo.engine.resource import Object, Resource
    from kaiwo.plugin.facts import Blocked
    from kaiwo.plugin.rendering import Rendered, Resolved
    from kaiwo.workload.download.job import Prepared
    from kaiwo.workload.model import Facts, PlanContext, Write


@dataclass(frozen=True, slots=True)
class Step:
    """Where the downloads of a workload without a child stand.

    Attributes:
        writes: what to write for them now.
        rendered: what is created for them; empty when nothing is to be downloaded any more.
        state: what the workload waits for, or why it failed; None when its own object may be created.
        condition: what to tell of the downloads; None when the workload wants none.
        refusal: why they cannot be done now.
    """

    writes: tuple[Write, ...] = ()
    rendered: tuple[Rendered, ...] = ()
    state: DownloadState | None = None
    condition: Condition | None = None
    refusal: Blocked | None = None


def next_step(case: PlanContext, resolved: Resolved, child: Object) -> Step:
    """What the downloads of a workload without a child need now.

    Args:
        case: the workload; loaded sources serve all that it wants.
        resolved: what was resolved for it.
        child: its own object as rendered.

    Raises:
        SpecError: an item is not what its source takes, or its Secrets cannot be mounted.
        PluginFailure: a source failed to name its Secrets.
    """
    workload, facts = case.workload, case.facts
    if not requested.wants(workload):
        return Step()
    live, config_map = _live(workload, facts, JOB), _live(workload, facts, CONFIG_MAP)
    if (live is None or _going(live)) and _remembered(workload):
        return Step(condition=_done(workload, requested.fingerprint(workload)))
    for found in (live, config_map):
        if found is not None and not is_ours(found, workload):
            return Step(refusal=conflict(found, "Job" if found is live else "ConfigMap", workload))
    if live is not None and _fetched(live) == requested.fingerprint(workload) and not _going(live):
        state = observe(workload, live, facts)
        if state.phase == "done":
            return Step(condition=_done(workload, requested.fingerprint(workload)))
        if state.phase == "failed":
            return Step(state=state, condition=_told(workload, "False", "JobFailed", state.finding.message))
    return _begin(case, job.prepare(case, resolved, child), live, config_map)


def _begin(case: PlanContext, prepared: Prepared, live: Object | None, config_map: Object | None) -> Step:
    """The step while the downloads are not done: what makes their objects, and how far they are."""
    workload = case.workload
    rendered = (prepared.config_map, prepared.job)
    if live is None:
        writes = (*_config_map(prepared.config_map, config_map, workload), Create(JOB, prepared.job.child))
        return _waits(
            workload, writes, rendered, DownloadState("waits", _about(workload, "is being created"))
        )
    if _going(live):
        text = "is being deleted; then it is created again"
        return _waits(workload, (), rendered, DownloadState("waits", _about(workload, text)))
    if _stamp(live) != job.stamp(workload):
        # Two downloads must not write to one volume: its pods are gone before it is.
        uid = str(lenient_map(live.get("metadata")).get("uid", ""))
        name = job.name_of(workload)
        gone = Delete(JOB, workload.namespace, name, uid, propagation="Foreground")
        text = "is replaced, because what is to be downloaded changed"
        return _waits(workload, (gone,), rendered, DownloadState("waits", _about(workload, text)))
    writes = _config_map(prepared.config_map, config_map, workload)
    return _waits(workload, writes, rendered, observe(workload, live, case.facts))


def told_of_running(workload: Workload, facts: Facts) -> Condition | None:
    """What is told of the downloads of a workload with a child: it exists, so they succeeded."""
    if not requested.wants(workload):
        return None
    before = find_condition(workload.status.conditions, CONDITION)
    if before is not None and before.get("status") == "True":
        message = str(before.get("message", ""))
        return Condition(CONDITION, "True", "JobCompleted", message, workload.generation or None)
    live = _live(workload, facts, JOB)
    return _done(workload, _fetched(live) if live is not None else requested.fingerprint(workload))


def _live(workload: Workload, facts: Facts, kind: Resource) -> Object | None:
    return facts.auxiliaries.get((kind, job.name_of(workload)))


def _stamp(live: Object) -> str:
    found = lenient_map(lenient_map(live.get("metadata")).get("annotations")).get(RESOLVED)
    return found if isinstance(found, str) else ""


def _fetched(live: Object) -> str:
    """The hash of what a live Job or ConfigMap of ours is for."""
    return _stamp(live).partition("-")[0]


def _going(live: Object) -> bool:
    return bool(lenient_map(live.get("metadata")).get("deletionTimestamp"))


def _remembered(workload: Workload) -> bool:
    """Whether exactly this was downloaded before; the Job that did it may be gone since."""
    before = find_condition(workload.status.conditions, CONDITION)
    if before is None or before.get("status") != "True":
        return False
    return str(before.get("message", "")) == _done(workload, requested.fingerprint(workload)).message


def _done(workload: Workload, fetched: str) -> Condition:
    text = f"Job {job.name_of(workload)} fetched everything (configuration {fetched})"
    return _told(workload, "True", "JobCompleted", text)


def _told(workload: Workload, truth: Truth, reason: str, message: str) -> Condition:
    return Condition(CONDITION, truth, reason, message, workload.generation or None)


def _about(workload: Workload, what: str) -> Finding:
    return Finding("Downloading", f"Job {job.name_of(workload)}, which downloads, {what}")


def _waits(
    workload: Workload, writes: tuple[Write, ...], rendered: tuple[Rendered, ...], state: DownloadState
) -> Step:
    reason = "JobInProgress" if state.began else "JobPending"
    return Step(writes, rendered, state, _told(workload, "False", reason, state.finding.message))


def _config_map(rendered: Rendered, live: Object | None, workload: Workload) -> tuple[Write, ...]:
    """The write that makes the ConfigMap, or restores one that somebody edited.

    What KaiwoConfig said when it was made stays in it.
    """
    if live is not None:
        made = job.config_stamp(requested.fingerprint(workload), live.get("data"))
        if _stamp(live) == made or _going(live):
            return ()
    return (Apply(CONFIG_MAP, rendered.child),)
