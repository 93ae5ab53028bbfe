"""Ten thousand KaiwoJobs, half of them finished: memory, a restart, and no write.

The operator makes their Jobs and statuses; then half of the Jobs are set to complete, and the operator
follows. What is measured afterwards is the operator at rest, and started again. The floor of the restart is a
program that lists the same objects once and keeps their bytes.
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import TYPE_CHECKING, Any

from bench import fanout, rest, restart
from bench.access import FLOOR, JOBS, LOAD, OPERATOR, Access, check, encode
from bench.following import READY
from bench.load import CLIENTS
from bench.process import Program, until
from bench.report import Figure, Target
from bench.subject import kaiwo_job
from bench.subjects import started

if TYPE_CHECKING:
    from bench.server import Server

_USUAL = 10_000
_LIMIT_SECONDS = 600.0
_COMPLETE: dict[str, Any] = {
    "startTime": "2026-01-01T00:00:00Z",
    "completionTime": "2026-01-01T00:01:00Z",
    "succeeded": 1,
    "conditions": [
        {
            "type": kind,
            "status": "True",
            "reason": "CompletionsReached",
            "message": "Reached expected number of succeeded pods",
            "lastProbeTime": "2026-01-01T00:01:00Z",
            "lastTransitionTime": "2026-01-01T00:01:00Z",
        }
        for kind in ("SuccessCriteriaMet", "Complete")
    ],
}


async def _finish(access: Access, count: int) -> None:
    """Set the first Jobs to complete."""
    left = iter(range(count))
    patch = {"Content-Type": "application/merge-patch+json"}
    body = encode({"status": _COMPLETE})
    async with access.session(CLIENTS) as session:

        async def client() -> None:
            for number in left:
                of = kaiwo_job(number, "operator")["metadata"]
                path = f"{JOBS.format(namespace=of['namespace'])}/{of['name']}/status"
                async with session.patch(path, data=body, headers=patch) as response:
                    await check(response)

        await asyncio.gather(*(client() for _ in range(CLIENTS)))


def _complete(server: Server, program: Program, count: int) -> None:
    """Finish that many, and wait until their KaiwoJobs are COMPLETE."""
    server.audit.read()
    asyncio.run(_finish(server.access(LOAD), count))
    completed: set[tuple[str, str]] = set()

    def followed() -> bool:
        for write in server.audit.read():
            if write.user.username == OPERATOR and write.target == "patch kaiwojobs/status" and write.ok:
                completed.add((write.object_ref.namespace, write.object_ref.name))
        return len(completed) >= count

    until(followed, _LIMIT_SECONDS, program, f"{count} KaiwoJobs COMPLETE")


def _floor(server: Server) -> tuple[float, float]:
    """Seconds from the start of the listing program to its end, and its memory."""
    log = server.directory / "listing.log"
    command = [sys.executable, "-m", "bench.listing", "--access", str(server.access_file(FLOOR))]
    with Program(command, log) as program:
        until(lambda: READY.encode() in log.read_bytes(), _LIMIT_SECONDS, program, "listed", interval=0.02)
        return time.time() - program.started, program.peak_mebibytes()


def run(server: Server, count: int, seconds: float) -> list[Figure]:
    """Make `count`, finish half of them, and measure."""
    server.clear()
    most, slowest = (250e6 / 2**20, 10) if count <= _USUAL else (400e6 / 2**20, 15)
    with started(server, "operator") as program:
        fanout.measure(server, program, "operator", count)
        _complete(server, program, count // 2)
        resting = rest.run(server, program, count, seconds)
        memory = program.peak_mebibytes()
    took, least = _floor(server)
    restarting = restart.run(server, count, limit=slowest, floor=took, memory=least, most=most)
    server.clear()
    label = f"{count:,} live, half of them finished: peak memory"
    return [Figure(label, memory, "MiB", least, Target(most)), *resting, *restarting]
