"""GPU-hours reserved, used, idle and waiting, by user, queue or namespace."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Literal

from kaiwo.client import workload_fields
from kaiwo.client.record import Record
from kaiwo.engine.timestamps import format_time
from kaiwo.workload.gpu_hours import GpuHours, gpu_hours

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kaiwo.client.prometheus import PodUse
    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Object
    from kaiwo.plugin.registry import Plugins

GroupBy = Literal["user", "queue", "namespace"]
GROUPS: tuple[GroupBy, ...] = ("user", "queue", "namespace")

_FROM_OBJECTS = "from status and conditions of the workloads that exist"
_DELETED = "workloads that were deleted meanwhile; only those that exist are counted"
_OTHERS = "Jobs and pods that are not of Kaiwo"
_CHANGES = "earlier GPU counts of workloads that were scaled; the present one counts for all of their time"


class ReportRow(Record, frozen=True, kw_only=True):
    """GPU-hours of one user, queue or namespace.

    Attributes:
        group: its name; empty for workloads without one.
        workloads: how many have any of these hours.
        gpu_hours_reserved: GPUs were held, used or not.
        gpu_hours_used: reserved hours times the utilization of the GPUs; null where that is not known.
        gpu_hours_idle: reserved and not used; null where that is not known.
        gpu_hours_waiting: waited for GPUs, for quota, nodes or data.
        gpu_hours_unclear: between the first start and the last admission of evicted workloads, held or not.
    """

    group: str
    workloads: int
    gpu_hours_reserved: float
    gpu_hours_used: float | None
    gpu_hours_idle: float | None
    gpu_hours_waiting: float
    gpu_hours_unclear: float


class ReportSources(Record, frozen=True, kw_only=True):
    """Where the figures come from.

    Attributes:
        reserved: source of `gpuHoursReserved`.
        used: source of `gpuHoursUsed`, or why it is not known.
        idle: source of `gpuHoursIdle`.
        waiting: source of `gpuHoursWaiting` and `gpuHoursUnclear`.
    """

    reserved: str
    used: str
    idle: str
    waiting: str


class GpuReport(Record, frozen=True, kw_only=True):
    """GPU-hours within a window.

    Attributes:
        start: of the window, RFC 3339.
        end: of the window, the time of reading.
        by: what the rows stand for: ``user``, ``queue`` or ``namespace``.
        scope: the namespace that was read, empty for all.
        items: the rows, most reserved hours first.
        total: all rows together.
        used_by_others: GPU-hours that Prometheus has of pods of no workload that exists; null without it.
        sources: where each figure comes from.
        unseen: what the figures cannot show, one text each.
    """

    start: str
    end: str
    by: str
    scope: str
    items: tuple[ReportRow, ...]
    total: ReportRow
    used_by_others: float | None
    sources: ReportSources
    unseen: tuple[str, ...]


async def gpu_report(
    api: Client,
    plugins: Plugins,
    namespace: str | None,
    *,
    since: timedelta,
    by: GroupBy = "user",
    prometheus: str = "",
) -> GpuReport:
    """GPU-hours of the workloads of a namespace, or of all.

    Args:
        api: the cluster.
        plugins: the loaded plugins, whose GPU vendors name their metrics.
        namespace: None for all.
        since: length of the window, which ends now.
        by: what to group by.
        prometheus: URL of a Prometheus server with the metrics of the GPUs; empty for none.

    Raises:
        PrometheusError: the server does not answer.
        InvalidArgument: its URL cannot be used.
        Forbidden: the workloads may not be listed.
        NotInstalled: the cluster does not serve the kinds.
    """
    from kaiwo.client.workloads import list_workloads

    now = datetime.now(UTC)
    workloads = await list_workloads(api, namespace)
    used: PodUse | None = None
    if prometheus:
        from kaiwo.client.prometheus import pod_use

        metrics = [vendor.utilization for vendor in plugins.vendors if vendor.utilization is not None]
        used = await pod_use(prometheus, metrics, now - since, now)
        if namespace is not None:
            used = {key: hours for key, hours in used.items() if key[0] == namespace}
    return report_of(workloads, now - since, now, by=by, scope=namespace or "", used=used)


def report_of(
    workloads: Sequence[Object],
    start: datetime,
    end: datetime,
    *,
    by: GroupBy,
    scope: str = "",
    used: PodUse | None = None,
) -> GpuReport:
    """The report from what was read.

    Args:
        workloads: KaiwoJobs and KaiwoServices.
        start: of the window.
        end: of the window, the time of reading.
        by: what to group by.
        scope: the namespace that was read, empty for all.
        used: GPU-hours by pod; None without Prometheus.
    """
    shares, others = attributed(workloads, used) if used is not None else ({}, None)
    hours: dict[str, GpuHours] = defaultdict(GpuHours)
    use: dict[str, float] = defaultdict(float)
    counts: dict[str, int] = defaultdict(int)
    for obj in workloads:
        found = gpu_hours(obj, start, end, end)
        share = shares.get(_key(obj), 0.0)
        if found == GpuHours() and not share:
            continue
        group = _group(obj, by)
        hours[group] += found
        use[group] += share
        counts[group] += 1
    known = used is not None
    rows = [_row(name, counts[name], hours[name], use[name] if known else None) for name in counts]
    rows.sort(key=lambda row: (-row.gpu_hours_reserved, -row.gpu_hours_waiting, row.group))
    total = _row(
        "total",
        sum(counts.values()),
        sum(hours.values(), GpuHours()),
        sum(use.values()) if known else None,
    )
    unseen = [_DELETED, _OTHERS, _CHANGES]
    if known:
        unseen.append("use by pods whose metrics have no pod and namespace, or whose names were shortened")
    return GpuReport(
        start=format_time(start),
        end=format_time(end),
        by=by,
        scope=scope,
        items=tuple(rows),
        total=total,
        used_by_others=None if others is None else round(others, 3),
        sources=_sources(known=known),
        unseen=tuple(unseen),
    )


def attributed(workloads: Iterable[Object], used: PodUse) -> tuple[dict[tuple[str, str, str], float], float]:
    """GPU-hours by workload, and those of pods that belong to none.

    A pod belongs to the workload whose name, with ``-`` after it, is the longest start of the pod's name.
    """
    names: Mapping[str, dict[str, tuple[str, str, str]]] = defaultdict(dict)
    for obj in workloads:
        key = _key(obj)
        names[key[1]].setdefault(key[2], key)
    found: dict[tuple[str, str, str], float] = defaultdict(float)
    others = 0.0
    for (namespace, pod), hours in used.items():
        known = names.get(namespace, {})
        parts = pod.split("-")
        owner = next(
            (known[name] for end in range(len(parts) - 1, 0, -1) if (name := "-".join(parts[:end])) in known),
            None,
        )
        if owner is None:
            others += hours
        else:
            found[owner] += hours
    return dict(found), others


def _key(obj: Object) -> tuple[str, str, str]:
    metadata = obj["metadata"]
    return str(obj.get("kind") or ""), str(metadata.get("namespace") or ""), str(metadata.get("name") or "")


def _group(obj: Object, by: GroupBy) -> str:
    match by:
        case "user":
            return workload_fields.user(obj)
        case "queue":
            return workload_fields.queue(obj)
        case "namespace":
            return _key(obj)[1]


def _row(group: str, workloads: int, hours: GpuHours, used: float | None) -> ReportRow:
    idle = None if used is None else max(0.0, hours.reserved - used)
    return ReportRow(
        group=group,
        workloads=workloads,
        gpu_hours_reserved=round(hours.reserved, 3),
        gpu_hours_used=None if used is None else round(used, 3),
        gpu_hours_idle=None if idle is None else round(idle, 3),
        gpu_hours_waiting=round(hours.waiting, 3),
        gpu_hours_unclear=round(hours.unclear, 3),
    )


def _sources(*, known: bool) -> ReportSources:
    missing = "not known without --prometheus URL"
    return ReportSources(
        reserved=f"{_FROM_OBJECTS}: from admission to a queue, else from the first start, to the end",
        used="utilization by the metrics of the GPU vendors in Prometheus, times the hours of each GPU"
        if known
        else missing,
        idle="reserved less used" if known else missing,
        waiting=f"{_FROM_OBJECTS}: from creation to admission, else to the first start",
    )
