"""The configuration in force follows the object, and survives it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import pytest
from prometheus_client import CollectorRegistry
from pydantic import BaseModel, field_validator

from kaiwo.api.crds import KAIWO_CONFIG
from kaiwo.engine.cached_object import Projection
from kaiwo.engine.errors import ChangedBack, NotFound
from kaiwo.engine.store import Cache
from kaiwo.engine.workqueue import Key
from kaiwo.host.config_history import SPEC, ConfigHistory
from kaiwo.host.config_warnings import ConfigFacts
from kaiwo.host.crd_check import CrdReport
from kaiwo.host.kaiwoconfig import KEY, ConfigController, LiveConfig
from kaiwo.testing.builders import NOW

if TYPE_CHECKING:
    from kaiwo.engine.cached_object import CachedObject
    from kaiwo.engine.resource import Object


class Wrap(BaseModel):
    """Settings of a plugin."""

    wrap: Literal["always", "never"] = "always"


class Needy(BaseModel):
    """Settings without a default."""

    endpoint: str


class Odd(BaseModel):
    """Settings whose validator has a defect."""

    mode: str = "a"

    @field_validator("mode")
    @classmethod
    def known(cls, mode: str) -> str:
        """Look the mode up; an unknown one raises KeyError."""
        return {"a": "a", "b": "b"}[mode]


class World:
    """A cache with KaiwoConfigs in it."""

    def __init__(self) -> None:
        self.cache = Cache()
        self.store = self.cache.register(KAIWO_CONFIG, Projection(owned_fields=(SPEC,)))
        self.version = 0
        self.spec: Any = None
        self.changes = 0
        self.live = LiveConfig(self.cache, {"ray": Wrap, "needy": Needy, "odd": Odd}, "research")
        self.queued = LiveConfig(self.cache, {}, "research", has_queue=True)
        self.live.on_change(self.changed)

    def changed(self) -> None:
        """Count."""
        self.changes += 1

    def see(self, spec: Any, *, name: str = "kaiwo", event: str = "MODIFIED", status: Any = None) -> None:
        """A watch event."""
        self.version += 1
        self.spec = spec
        metadata = {
            "name": name,
            "uid": name,
            "resourceVersion": str(self.version),
            "generation": self.version,
            "managedFields": [
                {"manager": "kubectl", "operation": "Update", "fieldsType": "FieldsV1",
                 "fieldsV1": {"f:spec": {"f:defaultClusterQueueName": {}}}}
            ],
        }  # fmt: skip
        obj = {"metadata": metadata, "spec": spec, "status": status or {}}
        self.store.observe(event, self.store.decode(msgspec.json.encode(obj)))


@pytest.fixture
def world() -> World:
    """Without any KaiwoConfig yet."""
    return World()


def test_without_an_object_the_documented_defaults_are_in_force(world: World) -> None:
    """The queue's name is the process setting."""
    assert world.live.current.default_cluster_queue_name == "research"
    assert world.live.current.kube_scheduler_name == "kaiwo-scheduler"
    assert world.live.settings == {"ray": Wrap(), "odd": Odd()}


def test_an_edit_takes_effect_at_once_and_is_reported_once(world: World) -> None:
    """Whoever waits is woken by a change of value, not by a change of the object's metadata or status."""
    world.see({"scheduling": {"kubeSchedulerName": "mine"}})
    assert world.live.current.kube_scheduler_name == "mine"
    assert world.changes == 1


def test_a_listener_that_fails_keeps_no_other_one_from_an_edit(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """The controller of a plugin raises; all others work with the new values, and the log says so."""

    def fail() -> None:
        raise RuntimeError("no endpoint")

    later: list[str] = []
    world.live.on_settings_change(fail)
    world.live.on_change(fail)
    world.live.on_change(lambda: later.append(world.live.current.kube_scheduler_name))
    world.see({"scheduling": {"kubeSchedulerName": "mine"}, "plugins": {"odd": {"mode": "b"}}})
    assert (world.changes, later) == (1, ["mine"])
    assert caplog.text.count("RuntimeError: no endpoint") == 2


@pytest.mark.parametrize(
    "nonsense",
    [
        {"ray": {"headPodMemory": "banana"}},
        {"nodes": []},
        {"resourceMonitoring": {"terminateUnderutilizedAfter": "soon"}},
        {"plugins": {"ray": {"wrap": "sometimes"}}},
        {"plugins": "all"},
        [],
        "text",
        5,
    ],
)
def test_nonsense_leaves_the_last_good_values_in_force(world: World, nonsense: Any) -> None:
    """A value that a stale CRD allows is reported with its field, and has no other effect."""
    world.see({"scheduling": {"kubeSchedulerName": "mine"}})
    world.see(nonsense)
    assert world.live.current.kube_scheduler_name == "mine"
    assert world.live.problem
    world.see({"scheduling": {"kubeSchedulerName": "next"}})
    assert world.live.current.kube_scheduler_name == "next"
    assert world.live.problem == ""


def test_a_validator_that_fails_leaves_the_last_good_settings_in_force(world: World) -> None:
    """The section is named; a defect of a plugin does not stop the operator from following KaiwoConfig."""
    world.see({"plugins": {"odd": {"mode": "a"}}})
    world.see({"plugins": {"odd": {"mode": "z"}}, "scheduling": {"kubeSchedulerName": "mine"}})
    assert world.live.settings["odd"] == Odd(mode="a")
    assert world.live.current.kube_scheduler_name == "kaiwo-scheduler"
    assert world.live.problem == "spec.plugins.odd: plugin odd failed to check its settings: KeyError: 'z'"


def test_an_invalid_setting_is_reported_with_its_field(world: World) -> None:
    """Plugin and field are in the path; what was in force stays so."""
    world.see({"plugins": {"ray": {"wrap": "sometimes"}}})
    assert world.live.problem.startswith("spec.plugins.ray.wrap: ")
    assert world.live.settings["ray"] == Wrap()


def test_deletion_and_other_names_change_nothing(world: World) -> None:
    """The last known values stay in force while the object is created again."""
    world.see({"scheduling": {"kubeSchedulerName": "mine"}})
    world.see({"scheduling": {"kubeSchedulerName": "other"}}, name="other")
    world.see({"scheduling": {"kubeSchedulerName": "mine"}}, event="DELETED")
    assert world.live.current.kube_scheduler_name == "mine"
    assert world.changes == 1


def test_settings_of_plugins_are_validated_and_given_to_them(world: World) -> None:
    """A plugin whose settings have no default gets them as soon as they are written."""
    world.see({"plugins": {"ray": {"wrap": "never"}, "needy": {"endpoint": "http://x"}}})
    assert world.live.settings == {
        "ray": Wrap(wrap="never"),
        "needy": Needy(endpoint="http://x"),
        "odd": Odd(),
    }


def test_a_queue_system_that_was_in_force_and_is_not_loaded_is_missing(world: World) -> None:
    """By the status of the KaiwoConfig; workloads that wait are planned again when that is removed."""
    world.see({}, status={"queuePlugin": "kueue"})
    assert (world.live.missing_queue, world.queued.missing_queue) == ("kueue", "")
    assert world.changes == 1
    world.see({})
    assert world.live.missing_queue == ""
    assert world.changes == 2


KEPT = {
    "scheduling": {"kubeSchedulerName": "mine", "preemption": "Report"},
    "plugins": {"ray": {"wrap": "never"}},
}
NONSENSE = {"ray": {"headPodMemory": "banana"}, "scheduling": {"preemption": "Enforce"}}


def test_an_object_that_is_invalid_from_the_start_ends_nobody(world: World) -> None:
    """An administrator who had switched preemption off must not get the default by a restart."""
    assert world.live.current.preemption == "Enforce"
    world.see(NONSENSE)
    assert world.live.current.preemption == "Report"
    assert world.live.current.gpu_preemption.default_policy == "Report"
    assert not world.live.current.terminate_underutilized
    assert world.live.health() == (False, f"{world.live.problem}. {world.live.fallback}")
    assert "No valid values are known" in world.live.fallback


def test_kept_values_are_in_force_until_the_object_is_valid(world: World) -> None:
    """With the settings of plugins; listeners hear of both changes; an invalid edit changes nothing."""
    world.see(NONSENSE)
    assert world.live.recover(KEPT)
    assert (world.live.current.kube_scheduler_name, world.changes) == ("mine", 1)
    assert world.live.settings["ray"] == Wrap(wrap="never")
    assert world.live.health()[0]
    assert "kept in ConfigMap kaiwo-config-history, are in force" in world.live.health()[1]
    world.see({**NONSENSE, "nodes": []})
    assert world.live.current.kube_scheduler_name == "mine"
    world.see({"scheduling": {"kubeSchedulerName": "next"}})
    assert (world.live.current.kube_scheduler_name, world.changes) == ("next", 2)
    assert world.live.health() == (True, "in force")
    world.see(NONSENSE)
    assert world.live.fallback == "The last valid values stay in force"
    assert world.live.health()[0]


def test_kept_values_replace_neither_valid_ones_nor_are_used_when_invalid(world: World) -> None:
    """What the object said since the start is newer; what this process cannot read is of no use."""
    assert not world.live.recover(KEPT)
    world.see(NONSENSE)
    assert not world.live.recover(NONSENSE)
    assert world.live.current.preemption == "Report"
    world.see({"scheduling": {"kubeSchedulerName": "next"}})
    world.see(NONSENSE)
    assert not world.live.recover(KEPT)
    assert world.live.current.kube_scheduler_name == "next"


@dataclass
class Reports:
    """What a controller of KaiwoConfig writes, and the CRDs that it finds.

    Attributes:
        world: has the KaiwoConfig.
        crds: how the CRDs compare now.
        reads: how often that was asked.
        seconds: the time.
        refusal: of a status, None where it is taken.
    """

    world: World
    crds: CrdReport = field(default_factory=CrdReport)
    reads: int = 0
    seconds: float = 0.0
    refusal: Exception | None = None

    def controller(self, history: Any = None) -> ConfigController:
        """A controller of an operator without plugins."""
        manager: Any = SimpleNamespace(
            cache=self.world.cache, writer=self, unreadable={},
            on_unreadable_change=lambda _: None,
            client=SimpleNamespace(failing_writes=SimpleNamespace(on_change=lambda _: None, messages={})),
            event_recorder=SimpleNamespace(event=lambda *_: None),
            metrics=SimpleNamespace(registry=CollectorRegistry()),
        )  # fmt: skip
        nothing_kept = SimpleNamespace(
            begin=lambda: None,
            read=self.nothing,
            keep=self.nothing,
            latest_of=lambda _: None,
            is_recreated=lambda _: False,
        )
        plugins: Any = SimpleNamespace(queue_plugin="", states=(), labels_nodes=True, backends=())
        return ConfigController(
            manager, self.world.live, plugins,
            now=lambda: NOW, crd_report=self.report,
            history=history or nothing_kept, facts=lambda _: ConfigFacts(), clock=lambda: self.seconds,
        )  # fmt: skip

    async def nothing(self, *_: Any) -> None:
        """Nothing is kept."""

    async def report(self) -> CrdReport:
        """Compare the CRDs."""
        self.reads += 1
        return self.crds

    async def patch_status(self, _: CachedObject, status: Object, **__: Any) -> None:
        """Take a status."""
        if self.refusal is not None:
            raise self.refusal
        self.world.see(self.world.spec, status=status)

    @property
    def current(self) -> str:
        """Reason of the condition about the CRDs."""
        entry = self.world.cache.get(KAIWO_CONFIG, None, "kaiwo")
        assert entry is not None
        [found] = [one for one in entry.part("status", "conditions") if one["type"] == "CRDsCurrent"]
        reason: str = found["reason"]
        return reason


async def test_crds_that_are_updated_at_rest_are_noticed() -> None:
    """Nobody edits the KaiwoConfig meanwhile; what comes in between costs no comparison."""
    world = World()
    reports = Reports(world, CrdReport(("an old field",)))
    world.see({})
    controller = reports.controller()
    again = await controller.reconcile(KEY)
    assert (reports.current, reports.reads) == ("Drift", 1)
    assert again is not None
    reports.crds = CrdReport()
    reports.seconds = again / 2
    await controller.reconcile(KEY)
    assert (reports.current, reports.reads) == ("Drift", 1)
    reports.seconds = again
    await controller.reconcile(KEY)
    assert (reports.current, reports.reads) == ("Current", 2)


async def test_a_status_that_another_installation_replaces_is_tried_again_when_it_may() -> None:
    """The one in force and one of another name alike; nothing of it is an error."""
    world = World()
    reports = Reports(world, refusal=ChangedBack("somebody replaces the status of KaiwoConfig kaiwo", 64.0))
    world.see({})
    controller = reports.controller()
    assert await controller.reconcile(KEY) == 64.0
    world.see({}, name="other")
    assert await controller.reconcile(Key("", "other")) == 64.0


class ConfigMaps:
    """An API server that holds the ConfigMap with the last specs."""

    def __init__(self) -> None:
        self.found: Object | None = None

    async def get(self, *_: Any) -> Object:
        """The ConfigMap."""
        if self.found is None:
            raise NotFound(404, "NotFound", "no such ConfigMap")
        return self.found

    async def apply(self, _: Any, obj: Object, **__: Any) -> None:
        """Write it."""
        self.found = obj


async def test_specs_that_another_process_kept_stay() -> None:
    """It led meanwhile: this one does not go on from what it knew before."""
    world, maps = World(), ConfigMaps()
    first, second = (ConfigHistory(maps, "system", "kaiwo") for _ in range(2))  # type: ignore[arg-type]
    leads, other = (Reports(world).controller(history) for history in (first, second))
    for number, process in enumerate((leads, other, leads)):
        world.see({"defaultClusterQueueName": f"queue-{number}"})
        stop = asyncio.Event()
        term = asyncio.create_task(process.controller.run(world.cache, stop))
        await asyncio.sleep(0)
        while len(process.controller.queue) or process.controller.queue.active:
            await asyncio.sleep(0)
        stop.set()
        await term
    assert maps.found is not None
    kept = [text.split("defaultClusterQueueName: ")[1].strip() for text in maps.found["data"].values()]
    assert kept == ["queue-2", "queue-1", "queue-0"]
