"""Workloads as the client returns them, and lists of them."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from kaiwo.client import workload_fields
from kaiwo.client.kinds import SHORT, WORKLOADS
from kaiwo.client.list_watch import ListScope, ListWatch
from kaiwo.client.record import Record
from kaiwo.engine.timestamps import parse_time

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Object, Resource

STATUSES = (
    "PENDING",
    "STARTING",
    "RUNNING",
    "READY",
    "COMPLETE",
    "FAILED",
    "ERROR",
    "TERMINATING",
    "TERMINATED",
)
"""Every status word that the operator writes."""


class WorkloadRecord(Record, frozen=True, kw_only=True):
    """A workload as it was when it was read.

    Attributes:
        kind: KaiwoJob or KaiwoService.
        name: its name.
        namespace: its namespace.
        uid: its uid; another workload of the same name has another one.
        status: the status word; empty before an operator has observed the workload.
        reason: the reason in one word, a stable code.
        message: the reason in one sentence.
        gpus: GPUs in all, as allocated, else as requested.
        queue: the requested queue, else the assigned one.
        user: whose it is.
        created_at: when it was created.
        started_at: when it started to run; null before.
        completed_at: when it ended; null before.
        object: the whole object as the API server returned it.
    """

    kind: str
    name: str
    namespace: str
    uid: str
    status: str
    reason: str
    message: str
    gpus: int
    queue: str
    user: str
    created_at: datetime | None
    started_at: datetime | None
    completed_at: datetime | None
    object: dict[str, Any]

    def __repr__(self) -> str:
        """Every field but the object, which would fill the page of a notebook."""
        shown = [f"{name}={getattr(self, name)!r}" for name in self.__struct_fields__ if name != "object"]
        return f"WorkloadRecord({', '.join(shown)}, object=...)"

    @property
    def label(self) -> str:
        """The short name: ``job/train``."""
        return f"{SHORT[self.kind]}/{self.name}"


class SubmitRecord(Record, frozen=True, kw_only=True):
    """What became of a workload that was submitted.

    Attributes:
        change: created, configured, unchanged or replaced.
        workload: the workload after it.
        warnings: what is ignored or probably not meant, a text each.
    """

    change: str
    workload: WorkloadRecord
    warnings: tuple[str, ...] = ()


def record(obj: Object) -> WorkloadRecord:
    """The record of a live workload."""
    metadata, status = obj["metadata"], workload_fields.status(obj)
    return WorkloadRecord(
        kind=obj["kind"],
        name=metadata["name"],
        namespace=metadata.get("namespace", ""),
        uid=metadata.get("uid", ""),
        status=workload_fields.word(obj),
        reason=workload_fields.reason(obj),
        message=workload_fields.message(obj),
        gpus=int(workload_fields.gpus(obj)),
        queue=workload_fields.queue(obj),
        user=workload_fields.user(obj),
        created_at=parse_time(metadata.get("creationTimestamp")),
        started_at=parse_time(status.get("startTime")),
        completed_at=parse_time(status.get("completionTime")),
        object=obj,
    )


def wanted(
    obj: Object, *, user: str | None = None, queue: str | None = None, statuses: Collection[str] = ()
) -> bool:
    """Whether a workload passes all filters that are given."""
    return (
        (user is None or workload_fields.same_user(workload_fields.user(obj), user))
        and (queue is None or workload_fields.queue(obj) == queue)
        and (not statuses or workload_fields.word(obj) in statuses)
    )


async def list_workloads(
    api: Client, namespace: str | None, kinds: Sequence[Resource] = WORKLOADS
) -> list[Object]:
    """All workloads, with one list for each kind.

    Args:
        api: the API server.
        namespace: None for all.
        kinds: which.

    Raises:
        NotInstalled: the cluster does not serve a kind.
    """
    return await ListWatch(api, [ListScope(kind, namespace) for kind in kinds]).read()
