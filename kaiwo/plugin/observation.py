"""Observation: what a backend gets to read the state of a live child from, and what it returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from pydantic import BaseModel

    from kaiwo.api.conditions import Condition
    from kaiwo.api.workload import Workload
    from kaiwo.engine.resource import Object, Resource
    from kaiwo.plugin.queues import Admission


@dataclass(frozen=True, slots=True)
class Finding:
    """Why something is as it is: a CamelCase reason and a one-line message."""

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
        now: the time of this reconciliation, UTC.
        secondary: live objects of the backend's ``secondary`` kinds that are named like the workload.
        warning_event: reason and message of the newest Warning event about the child. None when there is
            none, or when it was not requested (:attr:`Outcome.needs_events`).
        gone: the last failed pods of a KaiwoJob that no longer exist, as they were. They are kept in memory,
            so there are none after a restart of the operator.
        adopted: the child was made by a user and adopted. Its pods carry no label of Kaiwo's, so ``pods`` is
            empty and the child's own status has to do.
        settings: those of the plugin whose backend or diagnosis rule is called; None for a plugin that has
            none.
        owners: paths among the backend's ``owned_paths`` to the field manager that owns them on the child.
            The API server writes the name that a program gives itself.
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
    adopted: bool = False
    settings: BaseModel | None = None
    owners: Mapping[tuple[str, ...], str] = field(default_factory=dict)

    @property
    def recorded(self) -> Finding:
        """Reason and message of the workload's status, as written last."""
        return Finding(self.workload.status.reason, self.workload.status.message)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a workload has come to, as its status will say.

    A backend returns one from ``observe``. The core adds conditions to it and writes it as the status.

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
        requeue_after: seconds after which to reconcile again without an event, None for never.
        needs_events: a live object, usually the child, whose newest Warning event may name the cause. The
            event is read and the child is observed once more with it. None where the cause is known.
        pod_owner: kind and name of the object that creates the pods on behalf of ``needs_events``; its
            Warning events are read as well. None where there is no such object.
        conditions: conditions to set. Only the core fills them in; a backend leaves them empty.
    """

    status: str
    reason: str
    message: str
    started: datetime | None = None
    run_started: datetime | None = None
    completed: datetime | None = None
    passed: tuple[str, ...] = ()
    requeue_after: float | None = None
    needs_events: Object | None = None
    pod_owner: tuple[str, str] | None = None
    conditions: tuple[Condition, ...] = ()
