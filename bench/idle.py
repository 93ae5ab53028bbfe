"""Latency on an idle server: one KaiwoJob at a time, until it has its Job and its first status.

From the arrival of the user's create request at the API server to the end of its answer to the subject,
both by the audit log, so the API server's own work on all requests is included.
"""

from __future__ import annotations

from statistics import quantiles
from typing import TYPE_CHECKING

from bench.access import LOAD
from bench.fanout import load_command
from bench.process import Program, until
from bench.report import Figure, Target
from bench.subjects import USER, Subject, started

if TYPE_CHECKING:
    from bench.audit import Write
    from bench.server import Server

_PAUSE_SECONDS = 0.05
_LIMIT_SECONDS = 120.0
_P50, _P99 = Target(10), Target(40)


def milliseconds(writes: list[Write], user: str, target: str) -> list[float]:
    """Per KaiwoJob: from its creation to the first write of `user` to `target` about it."""
    born: dict[tuple[str, str], float] = {}
    first: dict[tuple[str, str], float] = {}
    for write in writes:
        key = (write.object_ref.namespace, write.object_ref.name)
        if write.user.username == LOAD:
            born[key] = write.received
        elif write.user.username == user and write.target == target and write.ok:
            first.setdefault(key, write.done)
    return [(first[key] - born[key]) * 1000 for key in born if key in first]


def percentiles(values: list[float]) -> tuple[float, float]:
    """The median, and what one in a hundred exceeds."""
    cuts = quantiles(values, n=100)
    return cuts[49], cuts[98]


def _measure(server: Server, subject: Subject, count: int) -> dict[str, list[float]]:
    server.clear()
    writes: list[Write] = []
    with started(server, subject) as program:
        command = load_command(server, count, "idle", clients=1, pause=_PAUSE_SECONDS)
        with Program(command, server.directory / "load.log") as load:
            load.wait(_LIMIT_SECONDS)

        def done() -> bool:
            writes.extend(server.audit.read())
            return all(len(each) == count for each in latencies().values())

        def latencies() -> dict[str, list[float]]:
            user = USER[subject]
            return {
                "Job": milliseconds(writes, user, "create jobs"),
                "first status": milliseconds(writes, user, "patch kaiwojobs/status"),
            }

        until(done, _LIMIT_SECONDS, program, "every KaiwoJob served")
        result = latencies()
    server.clear()
    return result


def run(server: Server, count: int) -> list[Figure]:
    """Measure `count` single creates, for the floor and for the operator."""
    floor = _measure(server, "floor", count)
    operator = _measure(server, "operator", count)
    figures = []
    for what, values in operator.items():
        for name, value, least, target in zip(
            ("p50", "p99"), percentiles(values), percentiles(floor[what]), (_P50, _P99), strict=True
        ):
            figures.append(Figure(f"idle: create → {what}, {name}", value, "ms", least, target))
    return figures
