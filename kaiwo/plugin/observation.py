"""Observation: what a backend gets to read the state of a live child from, and what it returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from kaiwo.api.workload import Workload
    from kaiwo.engine.resource import Object, Resource
    from kaiwo.plugin.queues import Admission


@dataclass(frozen=True, slots=True)
class Finding:
    """One sentence of reason: a CamelCase word and a line of text."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Observation:
    """What is known of a live child.

    Attributes:
        workload: the user's workload, its last status included.
        child: the live child.
        pods: live pods of this run.
        admission: what the queue system says; None when none is loaded or nothing is known yet.
        queued: the child carries a queue's labels.
        now: the moment of looking, UTC.
        secondary: live objects of the backend's ``secondary`` kinds that are named like the workload.
        warning_event: reason and message of the newest Warning event about the child; None when there is
            none, or when nobody asked for it (:attr:`Outcome.needs_events`).
        gone: the last failed pods of a KaiwoJob that exist no more, as they were; an operator that was
            started later knows of none.
    """

    workload: Workload
    child: Object
    pods: tuple[Object, ...]
    admission: Admission | None
    queued: bool
    now: datetime
    secondary: Mapping[Resource, Object] = field(default_factory=dict)
    warning_event: Finding | None = None
    gone: tuple[Object, ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a live child means for its workload.

    Attributes:
        status: one of the documented status words.
        reason: one CamelCase word.
        message: one line.
        started: earliest ``running.startedAt`` (or ``terminated.startedAt``) of a container of the
            current run.
        run_started: when the current run began (a Job's ``startTime``, new after each resumption), None if
            unknown; an earlier start time belongs to a run that was evicted.
        completed: when it ended, None while it has not.
        passed: status words that recorded facts prove it passed through before ``status``, in order.
        requeue_after: seconds after which to look again though nothing happened, None for never.
        needs_events: neither the child nor its pods say why it does not go on, but an event about it may:
            the newest warning is read, and the child is observed once more with it.
        pod_owner: kind and name of the object that makes the pods on behalf of the child, whose warnings are
            read, too; None where the child makes them itself.
    """

    status: str
    reason: str
    message: str
    started: datetime | None = None
    run_started: datetime | None = None
    completed: datetime | None = None
    passed: tuple[str, ...] = ()
    requeue_after: float | None = None
    needs_events: bool = False
    pod_owner: tuple[str, str] | None = None
