"""Set O: random work with random kills for a long time, at a constant number of workloads."""

from __future__ import annotations

import asyncio
import contextlib
import random
import statistics
import sys
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from campaign import oracles
from campaign.case import StandaloneCase
from campaign.children import children
from campaign.own import own_control_plane
from campaign.scenarios import SECRET
from campaign.violation import ViolationError
from kaiwo.api.crds import KAIWO_JOB, KAIWO_SERVICE
from kaiwo.api.status_words import TERMINAL
from kaiwo.engine import errors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from campaign.arena import Arena
    from kaiwo.engine.resource import Object, Resource
    from kaiwo.testing.operator import OperatorProcess

PLUGINS: Final = "batch_job,deployment,kueue,node_pools,gpu_amd,gpu_nvidia"

_WRITERS: Final = 4
_RATE: Final = 20.0
"""Operations a second of all writers together. An operator and a control plane on two cores keep up, and two
hours make more than 100,000."""

_KILLS: Final = (20.0, 60.0)
"""Seconds between two kills of the operator, at least and at most."""

_REPORTED: Final = 60.0
"""Seconds between two lines about the progress: a run of hours that stands still should be seen at once."""

_SAMPLED: Final = 2.0
_WARM: Final = 60.0
"""Seconds of the last process that are not judged: caches fill."""

_MOST_GROWTH: Final = (16 * 2**20, 0.1)
"""Bytes and share of the mean by which the memory of one process may grow; the larger counts."""

_SETTLE: Final = 180.0
_SETTLE_EACH: Final = 0.1
"""Seconds until all has settled, and more for each workload: the queue goes on until nothing fits."""

_REST: Final = 20.0


@dataclass(frozen=True, slots=True)
class SoakSize:
    """How long, and with how many.

    Attributes:
        minutes: length.
        objects: workloads that are kept alive.
    """

    minutes: float
    objects: int

    @property
    def settle(self) -> float:
        """Seconds until all has settled."""
        return _SETTLE + _SETTLE_EACH * self.objects


def cases(seed: int, size: SoakSize) -> Iterator[StandaloneCase]:
    """One case for a seed."""
    seconds = size.minutes * 60 + 4 * size.settle
    run = partial(_run, seed, size)
    yield StandaloneCase("O", f"soak-{seed}", run, exclusive=True, seconds=seconds, plane=True)


async def _run(seed: int, size: SoakSize, directory: Path) -> None:
    async with own_control_plane(directory, ("kueue",)) as arena:
        await _Soak(arena, random.Random(seed), size).run()  # noqa: S311  no secret


_SHAPES: Final[tuple[tuple[Resource, Object, Object], ...]] = (
    (KAIWO_JOB, {"gpus": 1, "entrypoint": "python train.py"}, {}),
    (KAIWO_JOB, {"entrypoint": "python train.py"}, {"kaiwo-sandbox/forever": "true"}),
    (KAIWO_JOB, {"entrypoint": "exit 1"}, {"kaiwo-sandbox/exit-code": "1"}),
    (KAIWO_JOB, {"gpus": 4000, "entrypoint": "python train.py"}, {}),
    (
        KAIWO_JOB,
        {
            "entrypoint": "python train.py",
            "env": [{"name": "KEY", "valueFrom": {"secretKeyRef": {"name": SECRET, "key": "key"}}}],
        },
        {},
    ),
    (KAIWO_SERVICE, {"replicas": 1}, {}),
)
"""Kind, spec and annotations: one that completes, runs, fails, does not fit, has a Secret, serves."""


@dataclass(slots=True)
class _Soak:
    """One run.

    Attributes:
        alive: names and kinds of workloads.
        steps: operations that were carried out.
        kills: of the operator.
        memory: operations and resident bytes, of the last process.
    """

    arena: Arena
    chance: random.Random
    size: SoakSize
    alive: list[tuple[str, Resource]] = field(default_factory=list)
    steps: int = 0
    kills: int = 0
    made: int = 0
    memory: list[tuple[float, float]] = field(default_factory=list)

    async def run(self) -> None:
        """Work, then check what has to hold afterwards."""
        await self.arena.start_operator(plugins=PLUGINS)
        began = time.monotonic()
        end = began + self.size.minutes * 60
        async with asyncio.TaskGroup() as tasks:
            for _ in range(_WRITERS):
                tasks.create_task(self._write(end))
            tasks.create_task(self._kill(began + self.size.minutes * 40, end))
            tasks.create_task(self._report(began, end))
        await self._check()
        self._say(time.monotonic() - began)

    async def _write(self, end: float) -> None:
        next_step = time.monotonic()
        while next_step < end:
            await asyncio.sleep(next_step - time.monotonic())
            next_step = max(next_step + _WRITERS / _RATE, time.monotonic())
            try:
                await self._step()
            except (errors.NotFound, errors.Conflict):
                continue  # a workload that ended and was deleted meanwhile
            except (errors.ConnectionBroken, errors.ServerUnavailable, errors.TooManyRequests):
                continue  # a control plane that is late once in hours
            self.steps += 1

    async def _step(self) -> None:
        client, namespace, chance = self.arena.client, self.arena.namespace, self.chance
        few = len(self.alive) < self.size.objects
        what = chance.random()
        if few or not self.alive:
            kind, spec, annotations = chance.choice(_SHAPES)
            self.made += 1
            name = f"w{self.made}"
            await client.create(kind, _workload(kind, namespace, name, spec, annotations))
            self.alive.append((name, kind))
        elif what < 0.5:  # noqa: PLR2004  as often as a deletion
            name, kind = chance.choice(self.alive)
            await client.merge_patch(kind, namespace, name, _change(kind, chance), field_manager="soak")
        else:
            index = chance.randrange(len(self.alive))
            self.alive[index], self.alive[-1] = self.alive[-1], self.alive[index]
            name, kind = self.alive.pop()
            await client.delete(kind, namespace, name)

    async def _kill(self, last: float, end: float) -> None:
        """Kill the operator again and again until `last`; then follow the memory of the one that stays."""
        while time.monotonic() + _KILLS[1] < last:
            await asyncio.sleep(self.chance.uniform(*_KILLS))
            operator = self._operator()
            operator.kill()
            oracles.no_traceback(operator)
            self.kills += 1
            self.arena.proxy.records.clear()  # hours of requests, of which nobody reads any
            await self.arena.start_operator(plugins=PLUGINS)
        warm = time.monotonic() + min(_WARM, (end - time.monotonic()) / 2)
        while time.monotonic() < end:
            await asyncio.sleep(_SAMPLED)
            if time.monotonic() > warm:
                self.memory.append((float(self.steps), _resident(self._operator().pid)))

    async def _report(self, began: float, end: float) -> None:
        while time.monotonic() + _REPORTED < end:
            await asyncio.sleep(_REPORTED)
            self._say(time.monotonic() - began)

    def _say(self, seconds: float) -> None:
        resident = 0.0
        with contextlib.suppress(OSError):  # it was killed, and the next one has not started yet
            resident = _resident(self._operator().pid) / 2**20
        sys.stdout.write(
            f"O/soak {seconds / 60:.0f} min: {self.steps} operations, {self.kills} kills,"
            f" {len(self.alive)} workloads, operator {resident:.0f} MiB\n"
        )
        sys.stdout.flush()

    def _operator(self) -> OperatorProcess:
        if self.arena.operator is None:
            raise ViolationError("fault", "no operator runs")
        return self.arena.operator

    async def _check(self) -> None:
        operator = self._operator()
        if not self.kills:
            raise ViolationError("fault", "the operator was not killed; make the soak longer")
        wrong, until = ["nothing was read"], time.monotonic() + self.size.settle
        while wrong and time.monotonic() < until:
            await asyncio.sleep(1.0)
            wrong = await self._wrong()
        if wrong:
            raise ViolationError(
                "O3", f"after {self.steps} steps and {self.kills} kills: {'; '.join(wrong[:5])}"
            )
        if left := [
            what for name, what in self.arena.cluster.left.items() if name.startswith(self.arena.namespace)
        ]:
            raise ViolationError("O5", f"a terminal status was left: {left[0]}")
        # The queue goes on until it is as empty as it gets.
        await oracles.at_rest(self.arena, _REST, within=self.size.settle)
        await oracles.queue_empty(self.arena)
        oracles.no_traceback(operator)
        await oracles.no_secret_shown(self.arena.cluster, self.arena.namespace, operator.log)
        self._check_memory()

    async def _wrong(self) -> list[str]:
        """What does not hold yet: a status of the present generation, and one child where one has to be."""
        client, namespace = self.arena.client, self.arena.namespace
        owners: dict[str, list[str]] = {}
        for child in await children(client, namespace):
            for owner in child["metadata"].get("ownerReferences", ()):
                if owner["kind"] in {KAIWO_JOB.kind, KAIWO_SERVICE.kind} and child["kind"] in {
                    "Job",
                    "Deployment",
                }:
                    owners.setdefault(owner["uid"], []).append(child["metadata"]["name"])
        found = []
        for kind in (KAIWO_JOB, KAIWO_SERVICE):
            async for workload in client.list(kind, namespace):
                metadata, status = workload["metadata"], workload.get("status") or {}
                made = owners.pop(metadata["uid"], [])
                word = status.get("status", "")
                if status.get("observedGeneration") != metadata["generation"]:
                    found.append(f"{metadata['name']} has no status of its generation, but {word or 'none'}")
                elif len(made) > 1 or (not made and word not in {*TERMINAL, "ERROR"}):
                    found.append(f"{metadata['name']}, {word}, has {len(made)} children")
        found += [f"{name} is left of a workload that is gone" for names in owners.values() for name in names]
        return found

    def _check_memory(self) -> None:
        """O8: memory does not grow with what was done."""
        if len(self.memory) < 2:  # noqa: PLR2004  a line needs two points
            raise ViolationError("fault", "the memory was not sampled; make the soak longer")
        steps, resident = zip(*self.memory, strict=True)
        growth = statistics.linear_regression(steps, resident).slope * (steps[-1] - steps[0])
        absolute, share = _MOST_GROWTH
        if growth > max(absolute, share * statistics.mean(resident)):
            raise ViolationError(
                "O8", f"memory grew by {growth / 2**20:.0f} MiB in {steps[-1] - steps[0]:g} steps"
            )


def _workload(kind: Resource, namespace: str, name: str, spec: Object, annotations: Object) -> Object:
    inside = {"metadata": {"annotations": dict(annotations)}}
    embedded = {"deployment": {}} if kind == KAIWO_SERVICE else {"job": {"spec": {"template": inside}}}
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"image": "registry.example/program:1", "user": "jane", **spec, **embedded},
    }


def _change(kind: Resource, chance: random.Random) -> dict[str, Any]:
    if kind == KAIWO_SERVICE:
        return {"spec": {"replicas": chance.randint(1, 3)}}
    return {"spec": {"duration": f"{chance.randint(24, 96)}h"}}


def _resident(pid: int) -> float:
    """Resident bytes of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    return float(pages * 4096)
