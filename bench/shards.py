"""Fan-out with one operator, and with two that share the namespaces; what each costs, and the API server.

What counts is CPU: an operator is one thread, so the jobs for which it has CPU in a second are what it can
serve at most. Whether two reach twice the rate depends on the cores and on the API server.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import TYPE_CHECKING

from bench import fanout
from bench.process import until
from bench.report import Figure
from bench.server import NAMESPACES
from bench.subject import PLUGINS
from bench.subjects import launched_operator
from kaiwo.api.config_names import SHARD_LABEL, SHARD_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from bench.process import Program
    from bench.server import Server

_READY_SECONDS = 60.0
_HALF = len(NAMESPACES) // 2
_OTHER = "other"


@dataclass(frozen=True, slots=True)
class SharedFanOut:
    """One fan-out to one operator or two.

    Attributes:
        rate: Jobs per second, of the wall clock.
        operators: CPU of each, per job of all, in milliseconds.
        api_server: likewise of the API server.
        writes: writes per job.
        memory: peak memory of the first operator, MiB.
    """

    rate: float
    operators: tuple[float, ...]
    api_server: float
    writes: float
    memory: float


def run(server: Server, count: int, rounds: int) -> list[Figure]:
    """Alternate between one operator, which is the floor here, and two."""
    found: dict[int, list[SharedFanOut]] = {1: [], 2: []}
    share_namespaces(server)
    for number in range(rounds):
        for shards in (1, 2) if number % 2 == 0 else (2, 1):
            found[shards].append(_measured(server, count, shards))

    def figure(what: str, unit: str, read: Callable[[SharedFanOut], float]) -> Figure:
        two, one = (median(read(each) for each in found[shards]) for shards in (2, 1))
        return Figure(f"fan-out of {count:,}, two shards: {what}", two, unit, one)

    return [
        figure("rate", "Jobs/s", lambda each: each.rate),
        figure("CPU of both per job", "ms", lambda each: sum(each.operators)),
        figure("CPU of the busier one per job", "ms", lambda each: max(each.operators)),
        figure("Jobs for which the busier one has CPU", "/s", lambda each: 1000 / max(each.operators)),
        figure("CPU of the API server per job", "ms", lambda each: each.api_server),
        figure("writes per job", "", lambda each: each.writes),
        figure("peak memory of the first one", "MiB", lambda each: each.memory),
    ]


def share_namespaces(server: Server) -> None:
    """Give half of the namespaces to a second shard, which has no meaning for an operator without shards."""
    for namespace in NAMESPACES[_HALF:]:
        path = f"/api/v1/namespaces/{namespace}"
        obj = server.request("GET", path)
        obj["metadata"]["labels"][SHARD_LABEL] = _OTHER
        server.request("PUT", path, obj)


@contextmanager
def operators(server: Server, shards: int, plugins: Sequence[str] = PLUGINS) -> Iterator[list[Program]]:
    """Run one operator, or two that share the namespaces, ready to take work.

    Args:
        server: what they work on.
        shards: 1 or 2.
        plugins: what they run with.
    """
    with ExitStack() as stack:
        programs = []
        for shard in ("main", _OTHER) if shards > 1 else ("",):
            environment = {SHARD_VARIABLE: shard} if shard else {}
            launched = launched_operator(server, plugins, environment, f"operator-{shard}.log")
            program, ready = stack.enter_context(launched)
            until(ready, _READY_SECONDS, program, "ready")
            programs.append(program)
        for program in programs if shards > 1 else ():
            until(partial(_serves, program), _READY_SECONDS, program, "serving")
        yield programs


def _serves(program: Program) -> bool:
    """Whether an operator has taken its namespaces."""
    return b": takes " in program.log.read_bytes()


def _measured(server: Server, count: int, shards: int) -> SharedFanOut:
    """One fan-out from an empty server to an empty server."""
    server.clear()
    with operators(server, shards) as programs:
        everything = (*programs, server.api_server)
        before = [program.cpu_seconds() for program in everything]
        result = fanout.measure(server, programs[0], "operator", count)
        *used, api_server = (
            (program.cpu_seconds() - start) * 1000 / count
            for program, start in zip(everything, before, strict=True)
        )
    server.clear()
    return SharedFanOut(result.rate, tuple(used), api_server, result.writes_per_job, result.memory)
