"""Restart over many live objects: how long until new work is done, and that nothing else is written.

One KaiwoJob is created while the operator is down. The clock runs from the start of the process,
interpreter and imports included, to the API server's answer to the POST of that KaiwoJob's Job.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING

from bench.access import KAIWO_JOBS, OPERATOR
from bench.process import until
from bench.report import Figure, Target
from bench.subject import kaiwo_job
from bench.subjects import launched_operator

if TYPE_CHECKING:
    from bench.audit import Write
    from bench.server import Server

_LIMIT_SECONDS = 120.0
_AFTERWARDS_SECONDS = 10.0


def run(
    server: Server,
    count: int,
    *,
    limit: float = 4,
    floor: float | None = None,
    memory: float | None = None,
    most: float | None = None,
) -> list[Figure]:
    """Start an operator over `count` live objects; the previous one has ended and given its Lease back.

    Args:
        server: where they are.
        count: of KaiwoJobs.
        limit: seconds until the first new Job, as the target requires.
        floor: seconds that a program needs that only lists them.
        memory: that program's memory, MiB.
        most: MiB that the operator may hold, None without a target.
    """
    body = kaiwo_job(0, "late")
    server.create(KAIWO_JOBS.format(namespace=body["metadata"]["namespace"]), body)
    server.audit.read()
    writes: list[Write] = []

    def served() -> bool:
        writes.extend(write for write in server.audit.read() if write.user.username == OPERATOR)
        return any(write.target == "create jobs" and write.ok for write in writes)

    with launched_operator(server) as (program, _):
        until(served, _LIMIT_SECONDS, program, "the new KaiwoJob served")
        first = next(write for write in writes if write.target == "create jobs" and write.ok)
        took = first.done - program.started
        time.sleep(_AFTERWARDS_SECONDS)
        served()
        held = program.peak_mebibytes()
    own = ("create jobs", "patch kaiwojobs/status")
    mine = body["metadata"]["name"]
    other = Counter(
        write.target
        for write in writes
        if not write.target.endswith((" leases", " events"))
        and not (write.target in own and write.object_ref.name == mine)
    )
    label = f"restart, {count:,} live objects"
    return [
        Figure(f"{label}: start → first new Job", took, "s", floor, Target(limit)),
        Figure(f"{label}: other writes", other.total(), "", 0, Target(0)),
        Figure(f"{label}: peak memory", held, "MiB", memory, Target(most) if most else None),
    ]
