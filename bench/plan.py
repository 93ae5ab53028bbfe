"""Deciding and rendering alone: the pure ``plan`` without API server, cache or network.

The floor is the same Job put together by hand from a template. What lies between is what deciding costs:
reading the workload, splitting its GPUs, merging pod and resources, labels, conditions, and comparing with
what is there.
"""

from __future__ import annotations

import copy
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from bench.report import Figure
from bench.server import node
from bench.subject import PLUGINS, finished_job, kaiwo_job
from kaiwo.api.resolved_config import ResolvedConfig
from kaiwo.plugin.loader import load
from kaiwo.plugin.selection import PluginSelection
from kaiwo.workload.gpus.nodes import node_fact
from kaiwo.workload.model import Create, Facts, Registry
from kaiwo.workload.plan import plan_object

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaiwo.workload.model import Plan

_SECONDS = 2.0
_DISTINCT = 500


def _per_second(do: Callable[[int], object]) -> float:
    """How often `do` can be called in a second, with numbers that go round."""
    for number in range(_DISTINCT):
        do(number)
    count, began = 0, time.perf_counter()
    while (spent := time.perf_counter() - began) < _SECONDS:
        for number in range(100):
            do((count + number) % _DISTINCT)
        count += 100
    return count / spent


def _submitted(number: int) -> dict[str, Any]:
    """A KaiwoJob as the API server returns it, defaults included."""
    obj = kaiwo_job(number, "plan")
    obj["metadata"] |= {
        "uid": f"00000000-0000-4000-8000-{number:012d}",
        "generation": 1,
        "resourceVersion": str(number),
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
    obj["spec"] |= {"gpuVendor": "amd", "replicas": 1, "ray": False, "dangerous": False}
    return obj


def _live(planned: Plan, number: int) -> dict[str, Any]:
    """The Job as the API server would return it after the plan's POST."""
    write = next(write for write in planned.writes if isinstance(write, Create))
    job = copy.deepcopy(write.obj)
    job["metadata"] |= {
        "uid": f"10000000-0000-4000-8000-{number:012d}",
        "resourceVersion": "1",
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
    return job


def run() -> list[Figure]:
    """Plans a second: of a new workload up to its Job, and of one that is at rest."""
    registry = Registry.of(load(PluginSelection(names=PLUGINS)))
    nodes = tuple(node_fact(node(f"gpu-{number}"), registry.vendors) for number in range(4))
    now = datetime(2026, 1, 1, tzinfo=UTC)
    facts = Facts(now=now, config=ResolvedConfig.defaults(), nodes=nodes)
    new = [_submitted(number) for number in range(_DISTINCT)]
    resting: list[tuple[dict[str, Any], Facts]] = []
    for number, obj in enumerate(new):
        live = _live(plan_object(obj, registry, facts), number)
        made = frozenset({live["metadata"]["uid"]})
        with_child = Facts(now=now, config=facts.config, nodes=nodes, live=live, made=made)
        answer = plan_object(obj, registry, with_child)
        if answer.child is None or answer.child.uid not in made:
            raise RuntimeError(f"the child of {obj['metadata']['name']} is not its own")
        resting.append(({**obj, "status": answer.statuses[-1]}, with_child))
    by_hand = _per_second(
        lambda number: finished_job(f"plan-{number}", "team-a", new[number]["metadata"]["uid"])
    )
    return [
        Figure(
            "plan + render of a new workload",
            _per_second(lambda n: plan_object(new[n], registry, facts)),
            "/s",
            by_hand,
        ),
        Figure(
            "plan of a workload at rest",
            _per_second(lambda n: plan_object(resting[n][0], registry, resting[n][1])),
            "/s",
        ),
    ]
