"""Set U: an earlier version of the operator, this one, and back, while workloads come and go."""

from __future__ import annotations

import asyncio
import dataclasses
import re
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from campaign import oracles
from campaign.arena import ADDONS
from campaign.case import StandaloneCase
from campaign.children import children
from campaign.earlier import Version, install
from campaign.own import own_control_plane
from campaign.replicas import created_once
from campaign.scenarios import SCENARIOS
from campaign.violation import ViolationError
from kaiwo.api.crds import KAIWO_JOB, WORKLOADS
from kaiwo.engine.resource import POD
from kaiwo.testing.faults import MUTATING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from campaign.arena import Arena
    from campaign.scenarios import Scenario

STAY: Final = tuple(
    SCENARIOS[name] for name in ("serve-plain", "serve-storage", "rayjob-plain", "rayserve-plain")
)
"""Their workloads run from the beginning to the end."""

_PAUSE: Final = 1.0
"""Seconds between two workloads that come."""

_RUNS: Final = {"kaiwo-sandbox/run-time": "4s"}
_DELETED: Final = 3
"""One of so many is deleted while it runs."""

_UNDER_LOAD: Final = 15.0
"""Seconds for which a version works before another one takes its place."""

_SOON: Final = 5.0
"""Seconds within which a version writes what it takes for old."""

_SETTLE: Final = 120.0
_REST: Final = 10.0
_LIMIT: Final = 1500.0
_PHASES: Final = 4


def cases(commit: str) -> Iterator[StandaloneCase]:
    """The operator ends in order, or is killed, each time that another version takes its place.

    Args:
        commit: of the earlier version; empty for the last release, or what counts as one.
    """
    for name, killed in (("stopped", False), ("killed", True)):
        yield StandaloneCase("U", name, partial(_run, commit, killed), seconds=_LIMIT, plane=True)


async def _run(commit: str, killed: bool, directory: Path) -> None:
    earlier = await asyncio.to_thread(install, commit, directory)
    versions = (earlier, Version("this version"))
    async with own_control_plane(directory, ADDONS) as arena:
        load = _Load(arena)
        known: dict[str, Any] = {}
        for phase in range(_PHASES):
            version = versions[phase % 2]
            since, written = len(arena.proxy.records), len(arena.proxy.writes())
            await arena.start_operator(env=version.env, leader_election=True)
            if phase == 0:
                for scenario in STAY:
                    await arena.submit(scenario)
                await _stay(arena)
                known = await _identities(arena)
            else:
                await _stay(arena)
                await _unchanged(arena, known, since, version)
            await load.run(_UNDER_LOAD)
            operator = arena.operator
            if operator is None or not any(
                record.method == "POST" for record in arena.proxy.writes()[written:]
            ):
                raise ViolationError("fault", f"{version.name} created nothing")
            oracles.no_traceback(operator)
            if phase + 1 < _PHASES:
                work = asyncio.create_task(load.run(_UNDER_LOAD))
                await asyncio.to_thread(operator.kill if killed else operator.stop)
                # What came meanwhile is work for the next version.
                await work
        await load.ended()
        await _stay(arena)
        await _unchanged(arena, known, len(arena.proxy.records), versions[(_PHASES - 1) % 2])
        created_once(arena.proxy.records, f"/namespaces/{arena.namespace}/", len(STAY) + load.made)
        await oracles.at_rest(arena, _REST, within=_SETTLE)
        if left := [text for name, text in arena.cluster.left.items() if name.startswith(arena.namespace)]:
            raise ViolationError("O5", f"a terminal status was left: {left[0]}")


@dataclasses.dataclass(slots=True)
class _Load:
    """Workloads that come, and some that go before their end.

    Attributes:
        arena: of the case.
        made: how many came.
        kept: their scenarios, without those deleted.
    """

    arena: Arena
    made: int = 0
    kept: list[Scenario] = dataclasses.field(default_factory=list)

    async def run(self, seconds: float) -> None:
        """Create and delete for some time."""
        for _ in range(int(seconds / _PAUSE)):
            self.made += 1
            name = f"load-{self.made}"
            scenario = dataclasses.replace(SCENARIOS["job-plain"], name=name, annotations=_RUNS)
            await self.arena.submit(scenario)
            self.kept.append(scenario)
            if self.made % _DELETED == 0:
                gone = self.kept.pop(0)
                await self.arena.client.delete(KAIWO_JOB, self.arena.namespace, gone.name)
            await asyncio.sleep(_PAUSE)

    async def ended(self) -> None:
        """Each that was not deleted has completed, and has one Job; of the others nothing is left."""
        for scenario in self.kept:
            await self.arena.reaches(scenario)
            await oracles.truthful(self.arena, scenario)
        wanted = sorted(scenario.name for scenario in self.kept)
        for _ in range(int(_SETTLE)):
            objects = await children(self.arena.client, self.arena.namespace)
            found = sorted(
                obj["metadata"]["name"] for obj in objects if obj["metadata"]["name"].startswith("load-")
            )
            if found == wanted:
                return
            await asyncio.sleep(1.0)
        missing, more = sorted(set(wanted) - set(found)), sorted(set(found) - set(wanted))
        raise ViolationError("O3", f"missing {missing[:5]}, too many {more[:5]}")


async def _stay(arena: Arena) -> None:
    for scenario in STAY:
        await arena.reaches(scenario)
        await oracles.truthful(arena, scenario)


async def _identities(arena: Arena) -> dict[str, Any]:
    """Of what stays: uid and generation of each child, and the uids of its pods."""
    names = tuple(scenario.name for scenario in STAY)
    found: dict[str, Any] = {}
    for obj in await children(arena.client, arena.namespace):
        metadata = obj["metadata"]
        if metadata["name"].startswith(names):
            found[f"{obj['kind']}/{metadata['name']}"] = (metadata["uid"], metadata.get("generation"))
    async for pod in arena.client.list(POD, arena.namespace):
        if pod["metadata"]["name"].startswith(names) and pod["status"].get("phase") == "Running":
            found[f"Pod/{pod['metadata']['name']}"] = pod["metadata"]["uid"]
    if len(found) < len(STAY):
        raise ViolationError("fault", f"no children to compare: {sorted(found)}")
    return found


async def _unchanged(arena: Arena, known: dict[str, Any], since: int, version: Version) -> None:
    """A change of the version writes no child that nobody changed, and starts no pod again."""
    await asyncio.sleep(_SOON)
    names = "|".join(re.escape(scenario.name) for scenario in STAY)
    kinds = "|".join(kind.plural for kind in WORKLOADS.values())
    path = re.compile(rf"/(?!{kinds})[a-z]+/({names})[a-z0-9-]*(/|$)")
    for record in arena.proxy.records[since:]:
        if record.method in MUTATING and "dryRun=All" not in record.query and path.search(record.path):
            what = f"{record.method} {record.path}"
            raise ViolationError("O2", f"{version.name} wrote {what}, which nobody changed")
    found = await _identities(arena)
    if found != known:
        changed = sorted(name for name in known.keys() | found.keys() if known.get(name) != found.get(name))
        raise ViolationError("O2", f"{version.name} changed {changed[:5]}")
