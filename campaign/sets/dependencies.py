"""Set I: kinds that are not served, come later or go, older releases, and controllers that stand still."""

from __future__ import annotations

import asyncio
import dataclasses
import signal
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from campaign.arena import ADDONS
from campaign.case import StandaloneCase
from campaign.children import children
from campaign.own import BARE, hold, own_control_plane
from campaign.scenarios import SCENARIOS
from campaign.violation import ViolationError
from kaiwo.api.crds import WORKLOADS
from kaiwo.api.status_words import TERMINAL
from kaiwo.engine.resource import CUSTOM_RESOURCE_DEFINITION
from kaiwo.testing.operator import until
from kaiwo_kueue.kinds import GROUP, LOCAL_QUEUE
from kaiwo_sandbox.addon_crds import addon_crd

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from campaign.arena import Arena
    from campaign.scenarios import Scenario
    from kaiwo.engine.resource import Object

_JOB, _SERVICE = SCENARIOS["job-plain"], SCENARIOS["serve-plain"]
_RAY_JOB, _RAY_SERVICE = SCENARIOS["rayjob-plain"], SCENARIOS["rayserve-plain"]
_STILL: Final = 20.0
"""Seconds for which a controller stands still: twice as long as the API server waits for a webhook."""
_SOON: Final = 120.0
"""Seconds until a kind that has come is noticed. Who waits for one asks every half minute."""


@dataclasses.dataclass(frozen=True, slots=True)
class Kinds:
    """Kinds that a cluster may lack.

    Attributes:
        crds: their names.
        plugins: of the operator.
        needs: a workload that waits for them.
        goes_on: one that does not; None where all do.
        reason: of the status of the one that waits; empty where it has none.
    """

    crds: tuple[str, ...]
    plugins: str
    needs: Scenario
    goes_on: Scenario | None
    reason: str = ""

    @property
    def own(self) -> bool:
        """Whether they are Kaiwo's."""
        return self.crds[0].endswith("kaiwo.silogen.ai")


_NEWEST, _OLDER = LOCAL_QUEUE.version, LOCAL_QUEUE.fallbacks[0]
"""Versions of Kueue's kinds."""
_SUCCESS: Final = range(200, 300)
_QUEUES: Final = ("clusterqueues", "localqueues", "resourceflavors", "workloads", "workloadpriorityclasses")
_KUEUE: Final = tuple(f"{name}.kueue.x-k8s.io" for name in (*_QUEUES, "topologies", "cohorts"))
_RAY: Final = f"{BARE},ray_job,ray_service"

KINDS: Final = {
    "kueue": Kinds(_KUEUE, f"{BARE},kueue", _JOB, None, "QueueUnavailable"),
    "ray-jobs": Kinds(("rayjobs.ray.io",), _RAY, _RAY_JOB, _JOB, "BackendUnavailable"),
    "ray-services": Kinds(
        ("rayservices.ray.io", "appwrappers.workload.codeflare.dev"), _RAY, _RAY_SERVICE, _SERVICE,
        "BackendUnavailable",
    ),
    "ray": Kinds(
        ("rayjobs.ray.io", "rayservices.ray.io", "rayclusters.ray.io"), _RAY, _RAY_JOB, _JOB,
        "BackendUnavailable",
    ),
    "kaiwo-jobs": Kinds(("kaiwojobs.kaiwo.silogen.ai",), BARE, _JOB, _SERVICE),
    "kaiwo-services": Kinds(("kaiwoservices.kaiwo.silogen.ai",), BARE, _SERVICE, _JOB),
    "kaiwo-configs": Kinds(("kaiwoconfigs.config.kaiwo.silogen.ai",), BARE, _JOB, None),
}  # fmt: skip
CONTROLLERS: Final = {
    "kueue": SCENARIOS["job-queue"],
    "kuberay": SCENARIOS["rayjob-queue"],
    "appwrapper": SCENARIOS["rayserve-plain"],
}
"""By program, a workload that needs it."""


def cases() -> Iterator[StandaloneCase]:
    """Kinds that come and go, controllers that stand still, and the older releases."""
    for name, kinds in KINDS.items():
        yield StandaloneCase("I", f"{name}-come-later", partial(_later, kinds), plane=True)
        yield StandaloneCase("I", f"{name}-go-and-return", partial(_removed, kinds), plane=True)
    for program, scenario in CONTROLLERS.items():
        for started in (False, True):
            name = f"{program}-still-{'running' if started else 'starting'}"
            yield StandaloneCase("I", name, partial(_still, program, scenario, started=started), plane=True)
        yield StandaloneCase("I", f"{program}-older", partial(_older, scenario), plane=True)
    yield StandaloneCase("I", "kueue-newer-version-served", _newer_version, plane=True)


async def _later(kinds: Kinds, directory: Path) -> None:
    """They are not there when the operator starts."""
    async with own_control_plane(directory) as arena:
        crds = await _definitions(arena, kinds)
        if kinds.own:
            await _remove(arena, crds)
        arena.operator = arena.describe_operator(arena.proxy, arena.namespace, plugins=kinds.plugins).start()
        if kinds.goes_on is not None:
            await arena.submit(kinds.goes_on)
            await arena.reaches(kinds.goes_on)
        if kinds.reason:
            await arena.submit(kinds.needs)
            await _says(arena, kinds)
        elif "not served" not in await asyncio.to_thread(_waits, arena):
            raise ViolationError("fault", "the operator misses no kind")
        await _install(arena, crds)
        if not kinds.reason:
            await arena.submit(kinds.needs)
        await _has_child(arena, kinds.needs)
        await _end(arena, kinds, kinds.needs)


async def _removed(kinds: Kinds, directory: Path) -> None:
    """They go while workloads of theirs live, and return."""
    async with own_control_plane(directory) as arena:
        crds = await _definitions(arena, kinds)
        if not kinds.own:
            await _install(arena, crds)
        await arena.start_operator(plugins=kinds.plugins)
        await arena.submit(kinds.needs)
        await _has_child(arena, kinds.needs)
        since = len(arena.proxy.records)
        await _remove(arena, crds)
        if kinds.goes_on is not None:
            await arena.submit(kinds.goes_on)
            await arena.reaches(kinds.goes_on)
        plurals = {name.partition(".")[0] for name in kinds.crds}
        for _ in range(60):
            missed = [record for record in arena.proxy.records[since:] if record.code == 404]  # noqa: PLR2004
            if any(record.path.rpartition("/")[2] in plurals for record in missed):
                break
            await asyncio.sleep(1)
        else:
            raise ViolationError("fault", f"the operator never missed {kinds.crds}")
        await _install(arena, crds)
        second = dataclasses.replace(kinds.needs, name="second")
        await arena.submit(second)
        await _has_child(arena, second)
        if not kinds.own:
            await _recovers(arena, kinds.needs)
        await _end(arena, kinds, second)


async def _still(program: str, scenario: Scenario, directory: Path, *, started: bool) -> None:
    """A controller stands still while a workload starts, or after it did; another one comes afterwards."""
    async with own_control_plane(directory, ADDONS) as arena:
        controller = arena.cluster.sandbox.program(program)
        await arena.start_operator()
        if started:
            await arena.submit(scenario)
            await arena.reaches(scenario)
        if not controller.alive():
            raise ViolationError("fault", f"{program} does not run")
        controller.signal(signal.SIGSTOP)
        try:
            # A webhook that stands still holds up the request until the API server gives up.
            fresh = dataclasses.replace(scenario, name="fresh")
            await arena.submit(fresh)
            await asyncio.sleep(_STILL)
        finally:
            controller.signal(signal.SIGCONT)
        await hold(arena, *([scenario] if started else []), fresh)


async def _older(scenario: Scenario, directory: Path) -> None:
    """The releases of the older generation: Kueue serves v1beta1 only."""
    async with own_control_plane(directory, ADDONS, "older") as arena:
        await arena.start_operator()
        await arena.submit(scenario)
        await hold(arena, scenario)
        if _NEWEST in (used := _kueue_versions(arena)) or _OLDER not in used:
            raise ViolationError("fault", f"versions of Kueue that were answered: {used}")


def _kueue_versions(arena: Arena) -> set[str]:
    """In which versions the operator read or wrote Kueue's kinds."""
    return {
        record.path.split("/")[3]
        for record in arena.proxy.records
        if record.path.startswith(f"/apis/{GROUP}/") and record.code in _SUCCESS
    }


async def _serves_newest(arena: Arena) -> None:
    """Wait until the API server serves the newest version of Kueue's kinds."""
    for _ in range(60):
        await arena.client.find_version(LOCAL_QUEUE)
        if arena.client.in_use(LOCAL_QUEUE).version == _NEWEST:
            return
        await asyncio.sleep(0.5)
    raise ViolationError("fault", f"{_NEWEST} is never served")


async def _newer_version(directory: Path) -> None:
    """Kueue's kinds are served in v1beta1, and later in v1beta2 as well."""
    kinds = KINDS["kueue"]
    async with own_control_plane(directory) as arena:
        crds = await _definitions(arena, kinds)
        older = [_serving(crd, newest=False) for crd in crds]
        await _install(arena, older)
        await arena.start_operator(plugins=kinds.plugins)
        await arena.submit(_JOB)
        await _has_child(arena, _JOB)
        if _NEWEST in (used := _kueue_versions(arena)) or _OLDER not in used:
            raise ViolationError("fault", f"versions of Kueue that were answered: {used}")
        await _install(arena, [_serving(crd, newest=True) for crd in crds])
        await _serves_newest(arena)
        second = dataclasses.replace(_JOB, name="second")
        await arena.proxy.cut_watches(60.0)
        await arena.submit(second)
        await _has_child(arena, second)
        await _end(arena, kinds, second)


def _serving(crd: Object, *, newest: bool) -> Object:
    """A definition that serves v1beta1, and the newest version only where that is wanted."""
    versions = [
        {**version, "served": version["name"] == _OLDER or newest} for version in crd["spec"]["versions"]
    ]
    return {**crd, "spec": {**crd["spec"], "versions": versions}}


async def _end(arena: Arena, kinds: Kinds, scenario: Scenario) -> None:
    """What can end here has ended; without controllers a workload of Ray, or in a queue, only begins."""
    ends = [kinds.goes_on] if kinds.goes_on else []
    await hold(arena, *([*ends, scenario] if kinds.own else ends))


async def _has_child(arena: Arena, scenario: Scenario) -> None:
    kind = WORKLOADS[scenario.kind]

    def made(obj: Object | None) -> bool:
        return bool(((obj or {}).get("status") or {}).get("childUID"))

    try:
        await until(arena.client, kind, arena.namespace, scenario.name, made, timeout=_SOON)
    except AssertionError as error:
        raise ViolationError("O1", f"no child: {error}") from None


async def _recovers(arena: Arena, scenario: Scenario) -> None:
    """A workload whose child went with its kind has one again, or has ended."""
    status: Object = {}
    for _ in range(int(_SOON)):
        obj = await arena.client.get(WORKLOADS[scenario.kind], arena.namespace, scenario.name)
        status = obj.get("status") or {}
        made = await children(arena.client, arena.namespace, obj["metadata"]["uid"])
        if status.get("status") in TERMINAL or any(
            child["metadata"]["uid"] == status.get("childUID") for child in made
        ):
            return
        await asyncio.sleep(1)
    raise ViolationError("O5", f"the child of this status does not exist: {status}")


async def _says(arena: Arena, kinds: Kinds) -> None:
    """The status names what is missing."""
    kind = WORKLOADS[kinds.needs.kind]

    def there(obj: Object | None) -> bool:
        return ((obj or {}).get("status") or {}).get("reason") == kinds.reason

    try:
        await until(arena.client, kind, arena.namespace, kinds.needs.name, there, timeout=_SOON)
    except AssertionError as error:
        raise ViolationError("O10", f"the reason is not {kinds.reason}: {error}") from None


def _waits(arena: Arena) -> str:
    """The line in which the operator says which kind is not served."""
    if arena.operator is None:
        return ""
    try:
        return arena.operator.wait_log("is not served by the API server", 60)[0]
    except AssertionError:
        return ""


async def _definitions(arena: Arena, kinds: Kinds) -> list[Object]:
    """The definitions of kinds, as their projects have them, without webhooks."""
    found = []
    for name in kinds.crds:
        crd: Any = (
            await arena.client.get(CUSTOM_RESOURCE_DEFINITION, None, name) if kinds.own else addon_crd(name)
        )
        if crd is None:
            raise ViolationError("fault", f"no addon in the cache has the CRD {name}")
        spec = {key: value for key, value in crd["spec"].items() if key != "conversion"}
        head = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
        found.append({**head, "metadata": {"name": name}, "spec": spec})
    return found


async def _install(arena: Arena, crds: list[Object]) -> None:
    """Install definitions, and wait until they are served."""
    for crd in crds:
        await asyncio.to_thread(arena.cluster.sandbox.api.apply, _path(crd), crd)
    for crd in crds:
        name = crd["metadata"]["name"]
        await until(arena.client, CUSTOM_RESOURCE_DEFINITION, None, name, _established)


def _established(crd: Object | None) -> bool:
    conditions = ((crd or {}).get("status") or {}).get("conditions") or ()
    return any(item["type"] == "Established" and item["status"] == "True" for item in conditions)


async def _remove(arena: Arena, crds: list[Object]) -> None:
    for crd in crds:
        name = crd["metadata"]["name"]
        await arena.client.delete(CUSTOM_RESOURCE_DEFINITION, None, name)
        await until(arena.client, CUSTOM_RESOURCE_DEFINITION, None, name, lambda found: found is None)


def _path(crd: Object) -> str:
    return f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{crd['metadata']['name']}"
