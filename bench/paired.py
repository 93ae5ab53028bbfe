"""Two checkouts of the operator beside each other: what a queued job costs this one and another one.

``python -m bench.paired PATH`` runs this tree and the tree at PATH at the same time on one control plane with
Kueue, each with a namespace of its own, and both get the same jobs at the same time. So whatever else runs on
the machine slows down both alike, and a difference of a few percent shows where runs in turn differ by a
third. The two change places after each round. The other tree runs with the libraries of this one.
"""

from __future__ import annotations

import argparse
import re
import sys
import urllib.request
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from bench.access import OPERATOR
from bench.audit import AuditLog
from bench.idle import percentiles
from bench.pending import latencies
from bench.platform import QUEUED, Platform
from bench.process import until
from bench.report import HEADER, Figure
from bench.server import NAMESPACES
from bench.subject import kaiwo_job
from bench.subjects import launched_operator
from kaiwo_sandbox.ports import free_ports

if TYPE_CHECKING:
    from bench.process import Program

_LIMIT_SECONDS = 600.0
_KAIWO_JOBS = "/apis/kaiwo.silogen.ai/v1alpha1/kaiwojobs"
_RECONCILIATIONS = re.compile(
    r'^controller_runtime_reconcile_total\{controller="kaiwojob".*\} (\S+)$', re.MULTILINE
)


@dataclass
class Cost:
    """What the jobs of one namespace cost the operator of one tree.

    Attributes:
        jobs: number of jobs.
        cpu: seconds of CPU.
        switches: how often it waited for something, and how often another program took the core.
        reconciliations: of KaiwoJobs.
        requests: its writes, by verb and resource.
        running: seconds from each pod's readiness to the status RUNNING.
    """

    jobs: int = 0
    cpu: float = 0.0
    switches: tuple[int, int] = (0, 0)
    reconciliations: float = 0.0
    requests: Counter[str] = field(default_factory=Counter)
    running: list[float] = field(default_factory=list)


class _Operator:
    """The operator of one tree, in one namespace."""

    def __init__(self, platform: Platform, tree: Path, namespace: str, programs: ExitStack) -> None:
        self.namespace = namespace
        self._address = f"127.0.0.1:{free_ports(1)[0]}"
        environment = {
            "PYTHONPATH": ":".join(map(str, (tree, *sorted(tree.glob("plugins/*"))))),
            "KAIWO_WATCH_NAMESPACE": namespace,
            "KAIWO_LEADER_ELECTION": "false",
        }
        launched = launched_operator(
            platform, QUEUED, environment, f"operator-{namespace}.log", self._address
        )
        self.program: Program
        self.program, self._ready = programs.enter_context(launched)

    def wait(self) -> None:
        """Wait until it is ready."""
        until(self._ready, _LIMIT_SECONDS, self.program, "ready")

    def used(self) -> Cost:
        """What it has used so far."""
        with urllib.request.urlopen(f"http://{self._address}/metrics", timeout=10) as answer:
            found = _RECONCILIATIONS.findall(answer.read().decode())
        return Cost(
            cpu=self.program.cpu_seconds(),
            switches=self.program.context_switches(),
            reconciliations=sum(map(float, found)),
        )


def _round(
    platform: Platform, trees: tuple[Path, Path], number: int, count: int, run_time: str
) -> list[Cost]:
    """What `count` jobs cost each of two trees."""
    platform.clear()
    places = NAMESPACES[:2] if number % 2 == 0 else NAMESPACES[1::-1]
    with ExitStack() as programs:
        operators = [
            _Operator(platform, tree, namespace, programs)
            for tree, namespace in zip(trees, places, strict=True)
        ]
        for operator in operators:
            operator.wait()
        before = [operator.used() for operator in operators]
        log = AuditLog(platform.directory / "audit.log")
        log.read()
        for index in range(count):
            for namespace in places:
                job = kaiwo_job(index, f"round{number}", run_time)
                job["metadata"]["namespace"] = namespace
                platform.create(f"/apis/kaiwo.silogen.ai/v1alpha1/namespaces/{namespace}/kaiwojobs", job)

        def complete() -> bool:
            found = platform.request("GET", _KAIWO_JOBS)["items"]
            done = sum(item.get("status", {}).get("status") == "COMPLETE" for item in found)
            return bool(done >= 2 * count)

        until(complete, _LIMIT_SECONDS, operators[0].program, f"all {2 * count} complete", interval=2.0)
        after = [operator.used() for operator in operators]
        writes = log.read()
    costs = []
    for operator, old, new in zip(operators, before, after, strict=True):
        own = [write for write in writes if write.object_ref.namespace == operator.namespace]
        costs.append(
            Cost(
                count,
                new.cpu - old.cpu,
                (new.switches[0] - old.switches[0], new.switches[1] - old.switches[1]),
                new.reconciliations - old.reconciliations,
                Counter(write.target for write in own if write.user.username == OPERATOR),
                [milliseconds / 1000 for milliseconds in latencies(own, OPERATOR)],
            )
        )
    return costs


def _sum(costs: list[Cost]) -> Cost:
    return Cost(
        sum(cost.jobs for cost in costs),
        sum(cost.cpu for cost in costs),
        (sum(cost.switches[0] for cost in costs), sum(cost.switches[1] for cost in costs)),
        sum(cost.reconciliations for cost in costs),
        sum((cost.requests for cost in costs), Counter()),
        [seconds for cost in costs for seconds in cost.running],
    )


def _figures(own: Cost, other: Cost) -> list[Figure]:
    mine, theirs = percentiles(own.running), percentiles(other.running)
    requests = [
        Figure(f"{target}, per job", own.requests[target] / own.jobs, "", other.requests[target] / other.jobs)
        for target in sorted(own.requests | other.requests)
    ]
    return [
        Figure("CPU per queued job", own.cpu * 1000 / own.jobs, "ms", other.cpu * 1000 / other.jobs),
        Figure("waits per job", own.switches[0] / own.jobs, "", other.switches[0] / other.jobs),
        Figure(
            "times another program took the core, per job",
            own.switches[1] / own.jobs, "", other.switches[1] / other.jobs,
        ),
        Figure(
            "reconciliations per job", own.reconciliations / own.jobs, "", other.reconciliations / other.jobs
        ),
        *requests,
        Figure("pod ready → RUNNING, p50", mine[0] * 1000, "ms", theirs[0] * 1000),
        Figure("pod ready → RUNNING, p99", mine[1] * 1000, "ms", theirs[1] * 1000),
    ]  # fmt: skip


def main() -> None:
    """Entry point of the process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", type=Path, metavar="PATH", help="another checkout, the floor of the table")
    parser.add_argument("--count", type=int, default=50, help="jobs for each in a round (50)")
    parser.add_argument("--run-time", default="10s", help="how long a job runs (10s)")
    parser.add_argument("--rounds", type=int, default=2, help="how often (2)")
    given = parser.parse_args()
    trees = (Path(__file__).parents[1], given.other.resolve())
    if not (trees[1] / "kaiwo").is_dir():
        sys.exit(f"error: {given.other}: expected a checkout with the folder kaiwo")
    with Platform() as platform:
        rounds = [
            _round(platform, trees, number, given.count, given.run_time) for number in range(given.rounds)
        ]
    own, other = (_sum([costs[index] for costs in rounds]) for index in (0, 1))
    print("\n".join([HEADER, *(figure.row() for figure in _figures(own, other))]))


if __name__ == "__main__":
    main()
