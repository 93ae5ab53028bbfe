"""With a thousand jobs waiting in one queue: how long after a pod is ready its KaiwoJob is RUNNING.

All GPUs are taken by a Job of somebody else until every KaiwoJob waits. Then it goes, the first of them
start, and a thousand still wait. The time runs from the end of kwok's request by which a pod became ready to
the end of the one that set its KaiwoJob to RUNNING, both by the audit log. The floor patches the status of
KaiwoJobs that no operator reconciles, while the same Jobs, given to Kueue directly, start.
"""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING

from bench.access import FLOOR, OPERATOR
from bench.fanout import load_command
from bench.following import READY
from bench.idle import percentiles
from bench.platform import GPUS, QUEUED, statuses
from bench.process import Program, until
from bench.report import Figure, Target
from bench.server import NAMESPACES
from bench.subject import queued_job
from bench.subjects import started

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.audit import Write
    from bench.platform import Platform

WAITING = 1000
"""Jobs that still wait when the last of those that are measured starts."""

_LIMIT_SECONDS = 900.0
_KWOK = "kwok"
_BLOCKER = "blocker-00000"


def latencies(writes: list[Write], user: str) -> list[float]:
    """Milliseconds from each pod's readiness to the status RUNNING that a user wrote, in order."""
    ready: dict[tuple[str, str], float] = {}
    found: dict[tuple[str, str], float] = {}
    words = {id(write): word for write, word in statuses(writes, user)}
    for write in writes:
        ref = write.object_ref
        if write.target == "patch pods/status" and write.user_agent.startswith(_KWOK) and write.ok:
            ready.setdefault((ref.namespace, ref.name.rpartition("-")[0]), write.done)
        elif words.get(id(write)) == "RUNNING":
            found.setdefault((ref.namespace, ref.name), write.done)
    return [(at - ready[key]) * 1000 for key, at in found.items() if key in ready]


def _block(platform: Platform) -> str:
    """Take all GPUs until the Job of this path is deleted."""
    job = queued_job(0, _BLOCKER.partition("-")[0])
    job["spec"] |= {"parallelism": GPUS, "completions": GPUS}
    job["spec"]["template"]["metadata"]["annotations"] = {"kaiwo-sandbox/forever": "true"}
    path = f"/apis/batch/v1/namespaces/{NAMESPACES[0]}/jobs"
    platform.create(path, job)
    return f"{path}/{_BLOCKER}"


@contextlib.contextmanager
def _floor(platform: Platform) -> Iterator[Program]:
    log = platform.directory / "ready.log"
    with Program(
        [sys.executable, "-m", "bench.ready", "--access", str(platform.access_file(FLOOR))], log
    ) as it:
        until(lambda: READY.encode() in log.read_bytes(), _LIMIT_SECONDS, it, "ready")
        yield it


def _submit(platform: Platform, count: int, kind: str) -> None:
    command = load_command(platform, count, "waiting", kind=kind)
    with Program(command, platform.directory / "load.log") as load:
        load.wait(_LIMIT_SECONDS)


def _measure(platform: Platform, count: int, *, operator: bool) -> list[float]:
    platform.clear()
    blocker = _block(platform)
    user = OPERATOR if operator else FLOOR
    writes: list[Write] = []

    def seen() -> list[Write]:
        writes.extend(platform.audit.read())
        return writes

    with started(platform, "operator", QUEUED) if operator else _floor(platform) as program:
        total = count + WAITING
        _submit(platform, total, "kaiwojobs")
        if operator:
            waits: set[str] = set()

            def all_wait() -> bool:
                more = platform.audit.read()
                waits.update(w.object_ref.name for w, word in statuses(more, user) if word == "PENDING")
                return len(waits) >= total

            until(all_wait, _LIMIT_SECONDS, program, f"{total} KaiwoJobs PENDING")
        else:
            _submit(platform, total, "jobs")
        platform.audit.read()
        platform.request("DELETE", blocker, {"propagationPolicy": "Background"})
        until(lambda: len(latencies(seen(), user)) >= count, _LIMIT_SECONDS, program, f"{count} RUNNING")
        result = latencies(seen(), user)[:count]
    platform.clear()
    return result


def run(platform: Platform, count: int) -> list[Figure]:
    """Measure the first `count` that start, for the floor and for the operator."""
    floor = percentiles(_measure(platform, count, operator=False))
    own = percentiles(_measure(platform, count, operator=True))
    label = f"{WAITING:,} pending: pod ready → RUNNING"
    return [
        Figure(f"{label}, p50", own[0], "ms", floor[0]),
        Figure(f"{label}, p99", own[1], "ms", floor[1], Target(100)),
    ]
