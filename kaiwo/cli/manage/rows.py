"""The rows of the list: what is shown of a workload, in which order, and what a filter keeps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from kaiwo.cli.terminal import clean
from kaiwo.client import workload_fields
from kaiwo.client.kinds import SHORT
from kaiwo.engine.timestamps import parse_time

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from kaiwo.engine.resource import Object

SEVERITY = {
    "ERROR": 0,
    "FAILED": 0,
    "TERMINATED": 1,
    "PENDING": 2,
    "": 2,
    "STARTING": 3,
    "TERMINATING": 4,
    "RUNNING": 5,
    "READY": 5,
    "COMPLETE": 6,
}
"""Rank of each status word: what needs the user comes first, what has ended well last."""


class RowKey(NamedTuple):
    """Identity of a row: kind, namespace and name of the workload."""

    kind: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class WorkloadRow:
    """One workload as the list shows it; all texts are free of control characters.

    Attributes:
        key: which workload.
        uid: of the object.
        kind: ``job`` or ``service``.
        status: the status word, empty before an operator has observed it.
        reason: one word.
        message: one sentence.
        gpus: in all.
        queue: its queue.
        user: whose it is.
        created: when.
        order: by which rows are sorted.
        text: what a filter is compared with, in lower case.
    """

    key: RowKey
    uid: str
    kind: str
    status: str
    reason: str
    message: str
    gpus: str
    queue: str
    user: str
    created: datetime | None
    order: tuple[int, float, str, str]
    text: str

    @property
    def target(self) -> str:
        """How commands name it: ``job/train``."""
        return f"{self.kind}/{self.key.name}"


def workload_row(obj: Object) -> WorkloadRow:
    """The row of a KaiwoJob or KaiwoService."""
    metadata = obj["metadata"]
    key = RowKey(obj["kind"], clean(metadata.get("namespace") or ""), clean(metadata["name"]))
    status = clean(workload_fields.word(obj))
    created = parse_time(metadata.get("creationTimestamp"))
    reason, queue = workload_fields.reason(obj), clean(workload_fields.queue(obj))
    user = clean(workload_fields.user(obj))
    # An error of last week stands below one of today.
    order = (SEVERITY.get(status, 2), -(created.timestamp() if created else 0.0), key.namespace, key.name)
    words = (SHORT[key.kind], key.namespace, key.name, status, reason, queue, user)
    return WorkloadRow(
        key=key,
        uid=str(metadata.get("uid") or ""),
        kind=SHORT[key.kind],
        status=status,
        reason=reason,
        message=clean(workload_fields.message(obj)),
        gpus=workload_fields.gpus(obj),
        queue=queue,
        user=user,
        created=created,
        order=order,
        text=" ".join(words).lower(),
    )


def chosen_rows(rows: Iterable[WorkloadRow], words: str, user: str | None) -> list[WorkloadRow]:
    """The rows that a filter keeps, those that need the user first.

    Args:
        rows: all rows.
        words: each of them must stand somewhere in a row; upper and lower case are alike.
        user: only this user's; None for everybody's.
    """
    wanted = words.lower().split()
    found = [
        row
        for row in rows
        if all(word in row.text for word in wanted)
        and (user is None or workload_fields.same_user(row.user, user))
    ]
    found.sort(key=lambda row: row.order)
    return found


def counts(rows: Iterable[WorkloadRow]) -> str:
    """How many workloads are in which state, for example ``3 failed, 12 running``; those in need first."""
    found: dict[str, int] = {}
    for row in rows:
        word = row.status or "new"
        found[word] = found.get(word, 0) + 1
    ranked = sorted(found, key=lambda word: (SEVERITY.get(word, 2), word))
    return ", ".join(f"{found[word]} {word.lower()}" for word in ranked)
