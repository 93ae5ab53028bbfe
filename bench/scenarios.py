"""The benchmarks by name, each from an empty server to an empty server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench import (
    cli_start,
    download,
    fanout,
    idle,
    idle_gpus,
    live,
    logs,
    metrics,
    monitoring,
    objects,
    pending,
    plan,
    preemption,
    queued,
    queued_shards,
    queues,
    raw,
    rest,
    restart,
    run_folder,
    shards,
    webhooks,
    why,
)
from bench.report import Figure, Target
from bench.subjects import started

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.fanout import FanOut
    from bench.platform import Platform
    from bench.server import Server


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured.

    Attributes:
        small: KaiwoJobs of the small fan-out.
        large: KaiwoJobs of the large one, which stay for the measurements at rest and of the restart.
        rounds: how often the small fan-out is repeated; of the large one, at most two.
        raw: objects of each kind for the raw API server.
        singles: KaiwoJobs created one at a time.
        rest: seconds at rest.
        live: KaiwoJobs that are live at the same time, half of them finished.
        queued: jobs given to Kueue, directly and as KaiwoJobs.
        pending: jobs whose start is watched while a thousand wait.
    """

    small: int
    large: int
    rounds: int
    raw: int
    singles: int
    rest: float
    live: int
    queued: int
    pending: int


FULL = Size(
    small=1000, large=5000, rounds=3, raw=2000, singles=200, rest=60, live=10_000, queued=500, pending=300
)
QUICK = Size(small=400, large=1000, rounds=1, raw=400, singles=60, rest=15, live=2000, queued=100, pending=50)
"""The same measurements, smaller. Its targets are those of the full sizes, so read it as a smoke test."""


def _figures(count: int, floor: list[FanOut], operator: list[FanOut], memory: float) -> list[Figure]:
    least, own = fanout.middle(floor), fanout.middle(operator)
    label = f"fan-out of {count:,}"
    events = sum(number for target, number in own.writes.items() if target.endswith(" events")) / count
    return [
        Figure(f"{label}: rate", own.rate, "Jobs/s", least.rate, Target(0.7, "at least", of_floor=True)),
        Figure(f"{label}: CPU per job", own.cpu_ms, "ms", least.cpu_ms, Target(4)),
        Figure(f"{label}: peak memory", own.memory, "MiB", least.memory, Target(memory)),
        Figure(f"{label}: writes per job", own.writes_per_job, "", least.writes_per_job, Target(2)),
        Figure(f"{label}: Events per job", events, ""),
    ]


def small(server: Server, size: Size) -> list[Figure]:
    """Floor and operator in turn; which goes first alternates, because a server slows down as it ages."""
    floor: list[FanOut] = []
    operator: list[FanOut] = []
    for number in range(size.rounds):
        for subject in ("floor", "operator") if number % 2 == 0 else ("operator", "floor"):
            kept = floor if subject == "floor" else operator
            kept.append(fanout.run(server, "floor" if subject == "floor" else "operator", size.small))
    return _figures(size.small, floor, operator, memory=110)


def large(server: Server, size: Size) -> list[Figure]:
    """The large fan-out; its last objects stay, and the operator rests over them and is started again."""
    floor = [fanout.run(server, "floor", size.large)]
    operator = []
    if size.rounds > 1:
        operator.append(fanout.run(server, "operator", size.large))
        floor.append(fanout.run(server, "floor", size.large))
    server.clear()
    with started(server, "operator") as program:
        operator.append(fanout.measure(server, program, "operator", size.large))
        resting = rest.run(server, program, size.large, size.rest)
    restarting = restart.run(server, size.large)
    server.clear()
    return [*_figures(size.large, floor, operator, memory=180), *resting, *restarting]


def evenness(figures: list[Figure], size: Size) -> list[Figure]:
    """How the large fan-out's rate compares with the small one's, when both were measured."""
    rates = {figure.what: figure for figure in figures if figure.what.endswith(": rate")}
    few = rates.get(f"fan-out of {size.small:,}: rate")
    many = rates.get(f"fan-out of {size.large:,}: rate")
    if few is None or many is None or not few.floor or not many.floor:
        return []
    what = f"rate at {size.large:,} beside that at {size.small:,}"
    floor = many.floor / few.floor * 100
    return [Figure(what, many.value / few.value * 100, "%", floor, Target(85, "at least"))]


OFFLINE: dict[str, Callable[[Size], list[Figure]]] = {
    "cli": lambda _: cli_start.run(),
    "plan": lambda _: plan.run(),
    "logs": lambda size: logs.run(quick=size is QUICK),
    "metrics": lambda size: metrics.run(size.live),
    "monitoring": lambda _: monitoring.run(),
    "idle_gpus": lambda _: idle_gpus.run(),
    "queues": lambda size: queues.run(size.live, size.live // 2),
    "preemption": lambda size: preemption.run(size.live),
    "download": lambda size: download.figures(quick=size is QUICK),
}
ON_SERVER: dict[str, Callable[[Server, Size], list[Figure]]] = {
    "why": lambda server, _: why.run(server),
    "raw": lambda server, size: raw.run(server, size.raw),
    "run": lambda server, _: run_folder.run(server),
    "idle": lambda server, size: idle.run(server, size.singles),
    "webhooks": lambda server, size: webhooks.run(server, size.rest / 2),
    "fanout": small,
    "large": large,
    "shards": lambda server, size: shards.run(server, size.small, size.rounds),
    "objects": lambda server, size: objects.run(server, size.small),
    "live": lambda server, size: live.run(server, size.live, size.rest),
}
ON_PLATFORM: dict[str, Callable[[Platform, Size], list[Figure]]] = {
    "queued": lambda platform, size: queued.run(
        platform, size.queued, min(2, size.rounds), queued.WAIT_FOR_GPUS
    ),
    "crowded": lambda platform, size: queued.run(
        platform, size.queued, min(2, size.rounds), queued.WAIT_FOR_MACHINE
    ),
    "pending": lambda platform, size: pending.run(platform, size.pending),
    "queued_shards": lambda platform, size: queued_shards.run(platform, size.queued, min(2, size.rounds)),
}
