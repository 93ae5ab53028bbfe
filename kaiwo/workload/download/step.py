"""The step before a workload's own object is created: downloads it from the requested sources."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kaiwo.api.conditions import Condition, find_condition
from kaiwo.engine.resource import CONFIG_MAP, JOB, PERSISTENT_VOLUME_CLAIM
from kaiwo.engine.timestamps import parse_time
from kaiwo.plugin.observation import Outcome
from kaiwo.workload import plugin_calls
from kaiwo.workload.download import job, requested, state
from kaiwo.workload.download.requested import CONDITION
from kaiwo.workload.json_access import is_deleting, lenient_map
from kaiwo.workload.labels import RESOLVED
from kaiwo.workload.metadata import conflict, is_ours
from kaiwo.workload.model import Apply, Create, Delete, Patch
from kaiwo.workload.namespace_defaults import used_for_downloads
from kaiwo.workload.observe.pod_failure import pod_name
from kaiwo.workload.storage.volumes import DATA, HF, claim_name, requests

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from kaiwo.api.conditions import Truth
    from kaiwo.api.workload import Workload
    from kaiwo.engine.resource import Object, Resource
    from kaiwo.plugin.facts import Blocked
    from kaiwo.plugin.queues import Admission, QueueAssignment
    from kaiwo.plugin.rendering import Rendered, Resolved
    from kaiwo.workload.download.job import Prepared
    from kaiwo.workload.model import Facts, PlanContext, Registry, Write


_VOLUMES = {"data": DATA, "huggingFace": HF}
"""Sections of ``spec.storage``, and the volumes that their downloads fill."""


@dataclass(frozen=True, slots=True)
class Step:
    """The downloads of a workload without a child.

    Attributes:
        outcome: of the downloads while they are not complete; None when the workload's own object may be
            created.
        conditions: the condition of the downloads; empty when the workload requests none.
        writes: what to write for them now.
        rendered: what is created for them; empty when nothing is to be downloaded any more.
        follow: name of the pod that downloads now, empty for none.
    """

    outcome: Outcome | None = None
    conditions: tuple[Condition, ...] = ()
    writes: tuple[Write, ...] = ()
    rendered: tuple[Rendered, ...] = ()
    follow: str = ""

    @property
    def failed(self) -> bool:
        """Whether the downloads failed for good."""
        return self.outcome is not None and self.outcome.status == "FAILED"


def next_step(
    case: PlanContext, resolved: Resolved, queue: QueueAssignment | None, child: Object
) -> Step | Blocked:
    """What the downloads of a workload without a child need now, or why they are impossible.

    Args:
        case: the workload; `missing_source` finds nothing about it.
        resolved: what was resolved for it.
        queue: its queue, None without a queue system.
        child: its own object as rendered.

    Raises:
        SpecError: an item is not what its source takes, or its Secrets cannot be mounted.
        PluginError: a source failed to name its Secrets.
    """
    workload, facts = case.workload, case.facts
    if not requested.wants(workload):
        return Step()
    live, config_map = _live(workload, facts, JOB), _live(workload, facts, CONFIG_MAP)
    fingerprint = requested.fingerprint(workload)
    if (live is None or is_deleting(live)) and _was_downloaded(workload, config_map, fingerprint, facts):
        return Step(conditions=(_finished(workload, fingerprint),))
    for found in (live, config_map):
        if found is not None and not is_ours(found, workload, facts.made):
            return conflict(found, "Job" if found is live else "ConfigMap", workload)
    if live is not None and _fetched(live) == fingerprint and not is_deleting(live):
        outcome = state.observe(workload, live, facts)
        if outcome.status == "COMPLETE":
            return _completed(workload, live, facts, fingerprint)
        if outcome.status == "FAILED":
            return Step(outcome, (_download_condition(workload, "False", "JobFailed", outcome.message),))
        if requested.unserved(workload, case.registry):
            return _in_progress(case, queue, live, (), ())
    if live is not None and _is_current(case, live, config_map):
        # Nothing is rendered: checking and writing thousands of items anew would change nothing.
        return _in_progress(case, queue, live, (), ())
    return _unfinished(case, queue, job.prepare(case, resolved, child), live, config_map)


def _is_current(case: PlanContext, live: Object, config_map: Object | None) -> bool:
    """Whether the Job and its ConfigMap are as they would be made now.

    A Job that has begun keeps the defaults of its namespace that it was made with.
    """
    if is_deleting(live):
        return False
    workload, facts = case.workload, case.facts
    used = used_for_downloads(workload, case.registry, facts.namespace_defaults)
    if used != _defaults(live) and state.has_begun(live, facts):
        used = _defaults(live)
    return _stamp(live) == job.stamp(workload, used) and _is_intact(config_map, workload, used)


def _unfinished(
    case: PlanContext,
    queue: QueueAssignment | None,
    prepared: Prepared,
    live: Object | None,
    config_map: Object | None,
) -> Step:
    """The step while the downloads are not complete: what creates their objects, and their outcome."""
    workload, facts = case.workload, case.facts
    rendered = (prepared.config_map, prepared.job)
    used = _defaults(prepared.job.child)
    config_writes = (
        () if _is_intact(config_map, workload, used) else (Apply(CONFIG_MAP, prepared.config_map.child),)
    )
    if live is None:
        if _has_succeeded(workload) and config_map is not None:
            # The ConfigMap says which download the condition is about: it changes after the condition.
            return _pending(workload, "is being created", (), rendered, requeue_after=0.0)
        if going := _deleting_volume(workload, facts):
            # A Job is younger than the volume that it fills: by that one that was deleted is known.
            return _pending(workload, f"is created when {going} is gone", config_writes, rendered)
        writes = (*config_writes, Create(JOB, prepared.job.child))
        return _pending(workload, "is being created", writes, rendered)
    if is_deleting(live):
        why = f", because {gone}" if (gone := _missing_content(workload, live, facts)) else ""
        return _pending(workload, f"is being deleted; then it is created again{why}", (), rendered)
    if _stamp(live) != _stamp(prepared.job.child):
        return _again(workload, live, "is replaced because what is to be downloaded changed", rendered)
    return _in_progress(case, queue, live, config_writes, rendered)


def _completed(workload: Workload, live: Object, facts: Facts, fingerprint: str) -> Step:
    """The step of a Job that has succeeded: another one, where the volume that it filled is gone."""
    if gone := _missing_volume(workload, facts, state.last_try(live, facts)):
        return _again(workload, live, f"is replaced, because {gone}")
    return Step(conditions=(_finished(workload, fingerprint),))


def _again(workload: Workload, live: Object, text: str, rendered: tuple[Rendered, ...] = ()) -> Step:
    """The step that deletes a Job, so that another one is created.

    Two downloads must not write to one volume: the pods of the Job are gone before it is.
    """
    delete = Delete(JOB, workload.namespace, job.name_of(workload), _uid(live), propagation="Foreground")
    return _pending(workload, text, (delete,), rendered)


def _in_progress(
    case: PlanContext,
    queue: QueueAssignment | None,
    live: Object,
    writes: tuple[Write, ...],
    rendered: tuple[Rendered, ...],
) -> Step:
    """The step while the Job downloads what is wanted."""
    workload, facts = case.workload, case.facts
    admission, running = _admission(case, live), state.running_pod(live, facts)
    outcome = state.observe(workload, live, facts, admission)
    if admission is not None and admission.unqueued and queue is not None:
        # Downloads wait in no queue, unless the cluster lets nothing start without one.
        labels = {"metadata": {"labels": dict(queue.labels)}}
        writes = (*writes, Patch(JOB, workload.namespace, job.name_of(workload), _uid(live), labels))
    reason = "JobInProgress" if state.has_begun(live, facts) else "JobPending"
    condition = _download_condition(workload, "False", reason, outcome.message)
    return Step(outcome, (condition,), writes, rendered, pod_name(running) if running else "")


def _admission(case: PlanContext, live: Object) -> Admission | None:
    """What the queue system says of the Job if it is suspended."""
    queue, known = case.registry.queue, case.facts.download_queue_facts
    suspended = lenient_map(live.get("spec")).get("suspend")
    return plugin_calls.admission(queue, live, known) if queue and known and suspended else None


def missing_source(workload: Workload, registry: Registry, facts: Facts) -> Blocked | None:
    """Why what a workload requests cannot be downloaded; None when it can, or needs no source any more.

    A Job that was created needs no source in the operator: the download program has its own.
    """
    blocked = requested.unserved(workload, registry)
    if blocked is None:
        return None
    live, config_map = _live(workload, facts, JOB), _live(workload, facts, CONFIG_MAP)
    fingerprint = requested.fingerprint(workload)
    if live is not None and not is_deleting(live):
        created = _fetched(live) == fingerprint and is_ours(live, workload, facts.made)
        created = created and not _missing_content(workload, live, facts)
    else:
        created = _was_downloaded(workload, config_map, fingerprint, facts)
    return None if created else blocked


def is_requested(workload: Workload) -> bool:
    """Whether the status says that the workload waits for downloads, which may have ended meanwhile."""
    before = find_condition(workload.status.conditions, CONDITION)
    waits = workload.status.status == "PENDING" and not workload.status.child_uid
    return waits and before is not None and before.get("reason") != "JobFailed"


def finished_condition(workload: Workload, facts: Facts) -> Condition | None:
    """The condition of the downloads of a workload with a child: it exists, so they succeeded."""
    if not requested.wants(workload):
        return None
    before = find_condition(workload.status.conditions, CONDITION)
    if before is not None and before.get("status") == "True":
        message = str(before.get("message", ""))
        return Condition(CONDITION, "True", "JobCompleted", message, workload.generation or None)
    live = _live(workload, facts, JOB)
    return _finished(workload, _fetched(live) if live is not None else requested.fingerprint(workload))


def _live(workload: Workload, facts: Facts, kind: Resource) -> Object | None:
    return facts.auxiliaries.get((kind, job.name_of(workload)))


def _uid(live: Object) -> str:
    return str(lenient_map(live.get("metadata")).get("uid", ""))


def _stamp(live: Object) -> str:
    found = lenient_map(lenient_map(live.get("metadata")).get("annotations")).get(RESOLVED)
    return found if isinstance(found, str) else ""


def _fetched(live: Object) -> str:
    """The hash of what a live Job or ConfigMap of ours is for."""
    return _stamp(live).partition("-")[0]


def _defaults(job_or_config_map: Object) -> str:
    """The hash of what of the namespace's defaults a Job or ConfigMap of ours was made with."""
    return _stamp(job_or_config_map).partition("-")[2].partition("-")[2]


def _has_succeeded(workload: Workload) -> bool:
    """Whether a download succeeded before; the Job that did it may be gone since."""
    before = find_condition(workload.status.conditions, CONDITION)
    return before is not None and before.get("status") == "True"


def _was_downloaded(workload: Workload, config_map: Object | None, fingerprint: str, facts: Facts) -> bool:
    """Whether exactly this was downloaded before, and the volume is still the same.

    The condition says that a download succeeded. The hash on the ConfigMap says which one: unlike the Job it
    stays.
    """
    if config_map is None or not _has_succeeded(workload) or not is_ours(config_map, workload, facts.made):
        return False
    before = find_condition(workload.status.conditions, CONDITION) or {}
    ended = parse_time(before.get("lastTransitionTime"))
    return _fetched(config_map) == fingerprint and not _missing_volume(workload, facts, ended)


def _missing_content(workload: Workload, live: Object, facts: Facts) -> str:
    """That a volume which a Job has filled is gone; empty while it is there, or the Job is not complete."""
    if state.observe(workload, live, facts).status != "COMPLETE":
        return ""
    return _missing_volume(workload, facts, state.last_try(live, facts))


def _missing_volume(workload: Workload, facts: Facts, filled: datetime | None) -> str:
    """That a volume is not the one that a download filled; empty where it is.

    Args:
        workload: the workload.
        facts: have its claims.
        filled: a time at which the volume that was filled existed.
    """
    for name, claim in _claims(workload, facts):
        made = parse_time(lenient_map(claim.get("metadata")).get("creationTimestamp")) if claim else None
        if claim is None or is_deleting(claim) or (made and filled and made > filled):
            return f"PersistentVolumeClaim {name} was deleted after a download"
    return ""


def _deleting_volume(workload: Workload, facts: Facts) -> str:
    """The claim of a volume to download to that is being deleted; empty where none is."""
    for name, claim in _claims(workload, facts):
        if claim is not None and is_deleting(claim):
            return f"PersistentVolumeClaim {name}, which is being deleted,"
    return ""


def _claims(workload: Workload, facts: Facts) -> Iterator[tuple[str, Object | None]]:
    """The claims of the volumes to download to, by name; None for one that is not there."""
    sections = {request.path[0] for request in requests(workload)}
    for section, volume in _VOLUMES.items():
        if section in sections:
            name = claim_name(workload, volume)
            yield name, facts.auxiliaries.get((PERSISTENT_VOLUME_CLAIM, name))


def _finished(workload: Workload, fetched: str) -> Condition:
    text = f"Job {job.name_of(workload)} fetched everything (configuration {fetched})"
    return _download_condition(workload, "True", "JobCompleted", text)


def _download_condition(workload: Workload, truth: Truth, reason: str, message: str) -> Condition:
    return Condition(CONDITION, truth, reason, message, workload.generation or None)


def _pending(
    workload: Workload,
    what: str,
    writes: tuple[Write, ...],
    rendered: tuple[Rendered, ...],
    requeue_after: float | None = None,
) -> Step:
    """The step while there is no Job that could be observed."""
    text = f"download Job {job.name_of(workload)} {what}"
    outcome = Outcome("PENDING", state.DOWNLOADING, text, requeue_after=requeue_after)
    return Step(outcome, (_download_condition(workload, "False", "JobPending", text),), writes, rendered)


def _is_intact(live: Object | None, workload: Workload, defaults: str) -> bool:
    """Whether the ConfigMap is there with these defaults of the namespace, and nobody edited it.

    What KaiwoConfig contained at its creation stays in it.
    """
    if live is None:
        return False
    made = job.config_stamp(requested.fingerprint(workload), live.get("data"), defaults)
    return _stamp(live) == made or is_deleting(live)
