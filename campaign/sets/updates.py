"""Set B: the specification of a live workload changes, once for each field, or there and back."""

from __future__ import annotations

import asyncio
import json
import random
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from campaign import oracles
from campaign.case import Case
from campaign.children import children, differences, normal_form
from campaign.expected import Planner, unlike
from campaign.leaves import SERVE_CONFIG, Leaf, leaves
from campaign.scenarios import DEFAULT_QUEUE, SCENARIOS
from campaign.violation import ViolationError
from kaiwo.admission.request import read_request
from kaiwo.admission.workloads import WorkloadReviewer
from kaiwo.api.conditions import find_condition
from kaiwo.api.crds import WORKLOADS
from kaiwo.api.workload import Workload
from kaiwo.cli.cluster_context import ExistingObjects
from kaiwo.engine.errors import Invalid
from kaiwo.testing.admission import admission_review
from kaiwo.workload.model import Registry
from kaiwo.workload.plans.diff import immutable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from campaign.arena import Arena, Cluster
    from campaign.scenarios import Scenario
    from kaiwo.engine.resource import Object

SEQUENCES: Final = 200
"""Cases in which a field changes there and back."""

IMMUTABLE: Final = 60
"""Cases in which a field changes that must not."""

_TOGETHER: Final = 8
"""Cases that share a namespace."""

_LIMIT: Final = 90.0
_PAUSE: Final = 0.5
_REST: Final = 1.5

_FOREVER: Final = {"kaiwo-sandbox/forever": "true", "kaiwo-sandbox/ray-job-status": "RUNNING"}
_LONG: Final = {"kaiwo-sandbox/run-time": "30s", "kaiwo-sandbox/ray-run-time": "30s"}
"""For workloads that may have a download, whose pods have the annotations of the workload, too."""

_BACKENDS: Final = {
    "job-plain": "batch_job",
    "rayjob-plain": "ray_job",
    "serve-plain": "deployment",
    "serve-queue": "deployment",
    "rayserve-plain": "ray_service",
    "rayserve-queue": "ray_service",
}
"""The backend of each scenario whose workloads are changed."""

_CHANGED: Final[dict[str, Any]] = {
    "clusterQueue": DEFAULT_QUEUE,
    "dangerous": True,
    "duration": "2h",
    "entrypoint": "python other.py",
    "env.name": "OTHER",
    "env.value": "slow",
    "env.valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}},
    "gpuVendor": "nvidia",
    "gpus": 2,
    "gpusPerReplica": 2,
    "image": "registry.example/program:2",
    "imagePullSecrets.name": "other",
    "podTemplateSpecLabels.{}": "audio",
    "replicas": 2,
    "resources.limits.{}": "2",
    "resources.requests.{}": "250m",
    "secretVolumes.key": "other",
    "secretVolumes.mountPath": "/other",
    "secretVolumes.name": "other",
    "secretVolumes.secretName": "other",
    "secretVolumes.subPath": "other",
    "serveConfigV2": SERVE_CONFIG.replace("chat", "talk"),
    "storage.data.mountPath": "/other",
    "storage.huggingFace.mountPath": "/other",
    "user": "joe",
    "version": "2",
}
"""A second valid value of a field, by its path without the steps into lists."""

_EMBEDDED: Final[dict[str, tuple[Object, Object]]] = {
    "job.metadata": ({"metadata": {"labels": {"team": "a"}}}, {"metadata": {"labels": {"team": "b"}}}),
    "job.spec.activeDeadlineSeconds": (
        {"spec": {"activeDeadlineSeconds": 3600}},
        {"spec": {"activeDeadlineSeconds": 7200}},
    ),
    "job.spec.ttlSecondsAfterFinished": (
        {"spec": {"ttlSecondsAfterFinished": 60}},
        {"spec": {"ttlSecondsAfterFinished": 600}},
    ),
    "job.spec.parallelism": ({"spec": {"parallelism": 1}}, {"spec": {"parallelism": 2}}),
    "job.spec.backoffLimit": ({"spec": {"backoffLimit": 1}}, {"spec": {"backoffLimit": 2}}),
    "rayJob.metadata": ({"metadata": {"labels": {"team": "a"}}}, {"metadata": {"labels": {"team": "b"}}}),
    "rayJob.spec.ttlSecondsAfterFinished": (
        {"spec": {"ttlSecondsAfterFinished": 60}},
        {"spec": {"ttlSecondsAfterFinished": 600}},
    ),
    "rayJob.spec.backoffLimit": ({"spec": {"backoffLimit": 1}}, {"spec": {"backoffLimit": 2}}),
    "deployment.metadata": (
        {"metadata": {"labels": {"team": "a"}}},
        {"metadata": {"labels": {"team": "b"}}},
    ),
    "deployment.spec.minReadySeconds": ({"spec": {"minReadySeconds": 0}}, {"spec": {"minReadySeconds": 1}}),
    "rayService.metadata": (
        {"metadata": {"labels": {"team": "a"}}},
        {"metadata": {"labels": {"team": "b"}}},
    ),
}
"""Two values of an embedded block, by the field in it that differs."""


@dataclass(frozen=True, slots=True)
class Change:
    """One field of a workload of a scenario, with two values.

    Attributes:
        scenario: for kind and backend.
        field: that changes, without the steps into lists.
        before: the specification of the live workload.
        after: the changed one.
    """

    scenario: Scenario
    field: str
    before: Object
    after: Object

    @property
    def live(self) -> str:
        """The status of the workload while it runs."""
        return "RUNNING" if self.scenario.kind == "KaiwoJob" else "READY"

    @property
    def backend(self) -> str:
        """Name of the backend."""
        return _BACKENDS[self.scenario.name]

    def __str__(self) -> str:
        """``serve-plain-env.value``."""
        return f"{self.scenario.name}-{self.field.replace('{}', 'item')}"

    def workload(self, name: str) -> Object:
        """The workload before the change."""
        kind = WORKLOADS[self.scenario.kind]
        return {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": {"name": name, "annotations": _LONG if "storage" in self.before else _FOREVER},
            "spec": self.before,
        }


def changes() -> Iterator[Change]:
    """Every change, of every scenario."""
    of_kind: dict[str, list[Leaf]] = {}
    for leaf in leaves():
        of_kind.setdefault(leaf.kind, []).append(leaf)
    for name, backend in _BACKENDS.items():
        scenario = SCENARIOS[name]
        for leaf in of_kind[scenario.kind]:
            field = ".".join(step for step in leaf.path if step != "[]")
            if field in _CHANGED:
                yield _change(scenario, leaf, field)
        block = {"batch_job": "job", "ray_job": "rayJob", "ray_service": "rayService"}.get(backend, backend)
        for field, (before, after) in _EMBEDDED.items():
            if field.partition(".")[0] == block:
                base = _common(scenario)
                yield Change(scenario, field, {**base, block: before}, {**base, block: after})


def _common(scenario: Scenario) -> Object:
    return {"image": "registry.example/program:1", "user": "jane", **scenario.spec}


def _change(scenario: Scenario, leaf: Leaf, field: str) -> Change:
    before = {**_common(scenario), **leaf.spec()}
    if field in ("gpusPerReplica", "replicas"):
        before.pop("gpus", None)
    after: Object = json.loads(json.dumps(before))
    parent, key = leaf.place(after)
    parent[key] = _CHANGED[field]
    return Change(scenario, field, before, after)


def _may(change: Change, registry: Registry) -> bool:
    """Whether the backend declares that the field may change."""
    (backend,) = (backend for backend in registry.backends if backend.name == change.backend)
    return not immutable([change.field], backend)


def cases(cluster: Cluster, seed: int) -> Iterator[Case]:
    """A case for each change, and for random ones there and back."""
    planners: list[asyncio.Task[Planner]] = []

    async def planner() -> Planner:
        if not planners:
            planners.append(asyncio.create_task(Planner.of(cluster)))
        return await planners[0]

    known = Registry.of(Planner.load())
    every = list(changes())
    mutable = [change for change in every if _may(change, known)]
    chosen = random.Random(f"{seed}-B")  # noqa: S311  no secret
    rest = [change for change in every if change not in mutable]
    fixed = chosen.sample(rest, min(IMMUTABLE, len(rest)))
    for index, change in enumerate(mutable):
        yield _case(index, str(change), "once", partial(_once, change, planner))
    for index, change in enumerate(fixed):
        yield _case(index, f"{change}-refused", "refused", partial(_refused, change, planner))
    for index in range(SEQUENCES):
        change, wait = chosen.choice(mutable), chosen.choice((0.0, 0.1, 0.5, 2.0))
        yield _case(index, f"{change}-back-{index:03d}", "back", partial(_there_and_back, change, wait))


def _case(index: int, name: str, group: str, run: Callable[[Arena], Awaitable[None]]) -> Case:
    return Case("B", name, run, group=f"{group}-{index // _TOGETHER}")


async def _live(change: Change, arena: Arena) -> Object:
    """Create the workload, and wait until it runs.

    Returns:
        The workload as it is then.
    """
    name = f"w{len(arena.writes())}"
    kind = WORKLOADS[change.scenario.kind]
    body = change.workload(name)
    body["metadata"]["namespace"] = arena.namespace
    await arena.client.create(kind, body)
    return await _until(change, arena, name, lambda status: status.get("status") == change.live)


async def _until(
    change: Change, arena: Arena, name: str, holds: Callable[[Object], bool], generation: int = 0
) -> Object:
    kind = WORKLOADS[change.scenario.kind]
    for _ in range(int(_LIMIT / _PAUSE)):
        obj = await arena.client.get(kind, arena.namespace, name)
        status = obj.get("status") or {}
        current = status.get("observedGeneration") == (generation or obj["metadata"]["generation"])
        if current and holds(status):
            return {"apiVersion": kind.api_version, "kind": kind.kind, **obj}
        await asyncio.sleep(_PAUSE)
    raise ViolationError("O5", f"not settled within {_LIMIT:g} s: {json.dumps(status):.600}")


async def _patch(change: Change, arena: Arena, obj: Object, spec: Object) -> Object:
    kind, metadata = WORKLOADS[change.scenario.kind], obj["metadata"]
    patched: Object = await arena.client.merge_patch(
        kind, arena.namespace, metadata["name"], {"spec": spec}, uid=metadata["uid"]
    )
    return {"apiVersion": kind.api_version, "kind": kind.kind, **patched}


def _applied(status: Object) -> Object:
    return find_condition(status.get("conditions") or (), "SpecApplied") or {}


async def _made(arena: Arena, obj: Object) -> list[Object]:
    return await children(arena.client, arena.namespace, uid=obj["metadata"]["uid"])


async def _finished(change: Change, arena: Arena, obj: Object) -> None:
    """Nothing is written at rest, nothing was unexpected, and the workload goes."""
    await oracles.at_rest(arena, _REST)
    if arena.operator:
        oracles.no_traceback(arena.operator)
    await arena.client.delete(WORKLOADS[change.scenario.kind], arena.namespace, obj["metadata"]["name"])


async def _once(change: Change, planner: Callable[[], Awaitable[Planner]], arena: Arena) -> None:
    obj = await _live(change, arena)
    patched = await _patch(change, arena, obj, change.after)
    if patched["metadata"]["generation"] == obj["metadata"]["generation"]:
        raise ViolationError("fault", f"{change.field} did not change")
    expected = (await planner()).expected(patched)
    name = obj["metadata"]["name"]
    for _ in range(int(_LIMIT / _PAUSE)):
        found = unlike(expected, await _made(arena, obj))
        if not found:
            break
        await asyncio.sleep(_PAUSE)
    else:
        raise ViolationError("O1", "; ".join(found[:5]))
    await _until(change, arena, name, lambda status: _applied(status).get("status") == "True")
    await _finished(change, arena, obj)


async def _refused(change: Change, planner: Callable[[], Awaitable[Planner]], arena: Arena) -> None:
    """With the webhook the change is refused; without it the status says why nothing changed."""
    obj = await _live(change, arena)
    await _settled(arena, obj)
    before = normal_form(await _made(arena, obj), arena.namespace)
    _reviewed(change, obj, await planner())
    try:
        await _patch(change, arena, obj, change.after)
    except Invalid as error:
        _readable(change, error.message)
    else:
        name = obj["metadata"]["name"]
        held = await _until(change, arena, name, lambda status: _applied(status).get("status") == "False")
        _readable(change, _applied(held["status"])["message"])
        if held["status"]["status"] != obj["status"]["status"]:
            raise ViolationError("O5", f"{obj['status']['status']} became {held['status']['status']}")
    after = normal_form(await _made(arena, obj), arena.namespace)
    if found := differences(before, after):
        raise ViolationError("O1", "; ".join(found[:5]))
    await _finished(change, arena, obj)


def _reviewed(change: Change, obj: Object, planner: Planner) -> None:
    facts = planner.context.facts(Workload.from_live(obj), planner.plugins, ExistingObjects())
    reviewer = WorkloadReviewer(planner.plugins, planner.registry, lambda: facts)
    new = {**obj, "spec": {**obj["spec"], **change.after}}
    answer = reviewer(read_request(admission_review(new, old=obj)))
    if answer.allowed:
        raise ViolationError("O10", f"the webhook takes {change.field}: {answer.warnings}")
    _readable(change, answer.message)


def _readable(change: Change, message: str) -> None:
    """The message names the field, says that it cannot change, and what to do."""
    if change.field.partition(".")[0] not in message or "immutable" not in message:
        raise ViolationError("O10", f"{change.field} is not named: {message:.500}")
    if "delete the workload" not in message:
        raise ViolationError("O10", f"the next step is not named: {message:.500}")


async def _settled(arena: Arena, obj: Object) -> None:
    await oracles.at_rest(arena, _REST)
    before: dict[str, Any] = {}
    for _ in range(int(_LIMIT / _REST)):
        found = normal_form(await _made(arena, obj), arena.namespace)
        if found == before:
            return
        before = found
        await asyncio.sleep(_REST)


async def _there_and_back(change: Change, wait: float, arena: Arena) -> None:
    obj = await _live(change, arena)
    await _settled(arena, obj)
    before = normal_form(await _made(arena, obj), arena.namespace)
    await _patch(change, arena, obj, change.after)
    await asyncio.sleep(wait)
    restored = await _patch(change, arena, obj, obj["spec"])
    generation = restored["metadata"]["generation"]
    if generation != obj["metadata"]["generation"] + 2:
        raise ViolationError("fault", f"{change.field} did not change there and back")
    await _until(
        change, arena, obj["metadata"]["name"],
        lambda status: _applied(status).get("status") == "True" and status["status"] == change.live,
        generation,
    )  # fmt: skip
    for _ in range(int(_LIMIT / _PAUSE)):
        found = differences(before, normal_form(await _made(arena, obj), arena.namespace))
        if not found:
            break
        await asyncio.sleep(_PAUSE)
    else:
        raise ViolationError("O4", "; ".join(found[:5]))
    await _finished(change, arena, obj)
