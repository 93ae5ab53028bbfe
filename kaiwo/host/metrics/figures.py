"""What one workload counts for in metrics, read once from its cached object."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NamedTuple

from kaiwo.api.status_words import TERMINAL
from kaiwo.engine.timestamps import parse_time
from kaiwo.host.metrics.reason_classes import reason_class
from kaiwo.workload.gpu_hours import gpus_of, holds_gpus
from kaiwo.workload.json_access import lenient_map, lenient_maps

if TYPE_CHECKING:
    from datetime import datetime

    from kaiwo.engine.cached_object import CachedObject
    from kaiwo.engine.resource import Object

UNIT = 1000
"""Utilization is counted in thousandths of a GPU: whole numbers can be added and taken away exactly."""


class Figures(NamedTuple):
    """What one workload adds to the counts.

    Attributes:
        status: of the workload.
        reason_class: class of its reason.
        queue: its queue, empty without one.
        user: its user.
        pending: GPUs that it waits for.
        reserved: GPUs that it holds.
        used: the same times its utilization, in thousandths; None where that is not known.
    """

    status: str
    reason_class: str
    queue: str
    user: str
    pending: int
    reserved: int
    used: int | None


def figures_of(entry: CachedObject) -> Figures:
    """The figures of a workload; whatever is malformed counts as absent."""
    status = lenient_map(entry.readable_part("status"))
    word = sys.intern(str(status.get("status") or ""))
    kind_of_reason = reason_class(str(status.get("reason") or ""))
    allocation = lenient_map(status.get("allocation"))
    user = entry.readable_part("spec", "user")
    reserved = pending = 0
    used = None
    if word not in TERMINAL and kind_of_reason != "stopped" and (gpus := _gpus(entry, status)):
        if holds_gpus(status):
            reserved, used = gpus, _used(status, gpus)
        else:
            pending = gpus
    return Figures(
        word, kind_of_reason, sys.intern(str(allocation.get("queue") or "")),
        sys.intern(user) if isinstance(user, str) else "", pending, reserved, used,
    )  # fmt: skip


def download_seconds(before: CachedObject, after: CachedObject) -> float | None:
    """How long the downloads took that ended between two versions of a workload, None where none did."""
    ended = _download(after)
    if ended is None or ended[0] != "True":
        return None
    began = _download(before)
    if began is None or began[0] == "True":
        return None
    return max(0.0, (ended[1] - began[1]).total_seconds())


def _download(entry: CachedObject) -> tuple[str, datetime] | None:
    """Status and time of the condition about downloads."""
    for condition in lenient_maps(entry.readable_part("status", "conditions")):
        if condition.get("type") == "DownloadJobSucceeded":
            since = parse_time(condition.get("lastTransitionTime"))
            return (str(condition.get("status")), since) if since is not None else None
    return None


def _gpus(entry: CachedObject, status: Object) -> int:
    if "allocation" in status:
        found = gpus_of({"status": status})
        if found:
            return found
    return gpus_of({"status": status, "spec": entry.readable_part("spec")})


def _used(status: Object, gpus: int) -> int | None:
    """Utilization in thousandths of a GPU, None where there is none or an absurd one."""
    percent = lenient_map(status.get("utilization")).get("percent")
    if isinstance(percent, bool) or not isinstance(percent, int | float) or not 0 <= percent <= 100:  # noqa: PLR2004  percent
        return None
    return round(gpus * percent * UNIT / 100)
