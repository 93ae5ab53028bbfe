"""A cluster of facts: two AMD nodes with eight GPUs each, one NVIDIA node with four, the batch backend."""

from __future__ import annotations

import copy
import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

import kaiwo_batch_job.plugin
import kaiwo_gpu_amd.plugin
import kaiwo_gpu_nvidia.plugin
from kaiwo.api.conditions import find_condition
from kaiwo.api.resolved_config import ResolvedConfig
from kaiwo.engine.resource import DEPLOYMENT, PERSISTENT_VOLUME_CLAIM
from kaiwo.testing import job, node, plugins
from kaiwo.testing.builders import NOW
from kaiwo.workload.gpus.nodes import node_fact
from kaiwo.workload.model import Apply, Create, Delete, Facts, Patch, Plan, Registry
from kaiwo.workload.plan import plan_object

if TYPE_CHECKING:
    from datetime import datetime

    from kaiwo.engine.resource import Object, Resource

PRODUCT = {"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM"}
REGISTRY = Registry.of(plugins(kaiwo_batch_job.plugin, kaiwo_gpu_amd.plugin, kaiwo_gpu_nvidia.plugin))
NODES = tuple(
    node_fact(item, REGISTRY.vendors)
    for item in (
        node("amd-1", gpus={"amd.com/gpu": 8}, labels=PRODUCT),
        node("amd-2", gpus={"amd.com/gpu": 8}, labels=PRODUCT),
        node("nvidia-1", gpus={"nvidia.com/gpu": 4}, labels={"nvidia.com/gpu.product": "Tesla-K80"}),
    )
)
FACTS = Facts(now=NOW, config=ResolvedConfig.defaults(), nodes=NODES)


@dataclass
class World:
    """One workload, the facts around it, and an API server in one dictionary that takes every write."""

    obj: Object = field(default_factory=lambda: job(image="image:1", entrypoint="echo hello"))
    registry: Registry = REGISTRY
    facts: Facts = FACTS
    writes: list[Any] = field(default_factory=list)
    events: list[Any] = field(default_factory=list)

    def set(self, **facts: Any) -> None:
        """Change facts."""
        self.facts = dataclasses.replace(self.facts, **facts)

    def at(self, now: datetime) -> None:
        """Let time pass."""
        self.set(now=now)

    def plan(self) -> Plan:
        """Plan once; nothing is executed, and nothing that was given changes."""
        before = copy.deepcopy((self.obj, self.facts.live, self.facts.pods))
        plan = plan_object(self.obj, self.registry, self.facts)
        assert (self.obj, self.facts.live, self.facts.pods) == before
        return plan

    def settle(self) -> Plan:
        """Do what a host does: execute, plan again until nothing is to be written, write the status."""
        for _ in range(3):
            plan = self.plan()
            if not plan.writes:
                break
            for write in plan.writes:
                self.execute(write)
        assert not self.plan().writes
        if plan.statuses:
            self.obj = {**self.obj, "status": plan.statuses[-1]}
        self.events += plan.events
        again = self.plan()
        assert (again.statuses, again.writes, again.events) == ((), (), ())
        return plan

    def execute(self, write: Any) -> None:
        """Let the API server take one write."""
        self.writes.append(write)
        if isinstance(write, Patch):
            assert self.facts.live is not None
            assert write.uid == self.facts.live["metadata"]["uid"]
            live = _merged(self.facts.live, write.body)
            self.set(live=live)
            return
        if isinstance(write, Delete):
            live = self.facts.live
            child = live is not None and write.uid == live["metadata"]["uid"]
            going = live if live is not None and child else self.facts.auxiliaries[write.resource, write.name]
            assert write.uid == going["metadata"]["uid"]
            going = {**going, "metadata": {**going["metadata"], "deletionTimestamp": "2026-01-02T03:04:07Z"}}
            if child:
                self.set(live=going)
                return
            self.set(auxiliaries={**self.facts.auxiliaries, (write.resource, write.name): going})
            return
        obj = copy.deepcopy(write.obj)
        name = obj["metadata"]["name"]
        self.set(made=self.facts.made | {f"uid-of-{name}"})
        obj["metadata"] |= {
            "uid": f"uid-of-{name}",
            "creationTimestamp": "2026-01-02T03:04:06Z",
            "generation": 1,
        }
        if isinstance(write, Create) and name == self.obj["metadata"]["name"]:
            assert self.facts.live is None
            obj["spec"] |= {"completions": 1} if "completions" not in obj["spec"] else {}
            obj["spec"].setdefault("parallelism", 1)
            self.set(live=obj)
        elif write.resource == DEPLOYMENT:
            self.set(live=obj)
        else:
            if write.resource == PERSISTENT_VOLUME_CLAIM:
                obj["status"] = {"phase": "Bound"}
            self.set(auxiliaries={**self.facts.auxiliaries, (write.resource, name): obj})

    @property
    def status(self) -> Object:
        """The workload's status."""
        status: Object = self.obj.get("status", {})
        return status

    def condition(self, kind: str) -> Object:
        """A condition of the workload, empty without it."""
        return find_condition(self.status.get("conditions", []), kind) or {}

    def edit(self, **spec: Any) -> None:
        """Change the workload's spec, as a user does; None removes a field."""
        merged = {**self.obj["spec"], **spec}
        metadata = {**self.obj["metadata"], "generation": self.obj["metadata"]["generation"] + 1}
        self.obj = {
            **self.obj,
            "metadata": metadata,
            "spec": {k: v for k, v in merged.items() if v is not None},
        }

    def live(self, **parts: Any) -> None:
        """Change the live child: ``live(status={...})``."""
        assert self.facts.live is not None
        self.set(live={**self.facts.live, **parts})

    def pod(self, **status: Any) -> Object:
        """A pod of the child with that status."""
        assert self.facts.live is not None
        return {
            "metadata": {
                "name": "train-abc",
                "creationTimestamp": "2026-01-02T03:04:06Z",
                "ownerReferences": [
                    {"kind": "Job", "controller": True, "uid": self.facts.live["metadata"]["uid"]}
                ],
            },
            "spec": {"schedulerName": "kaiwo-scheduler"},
            "status": status,
        }

    def created(self, resource: Resource) -> Object:
        """The object of a kind that was created."""
        for write in self.writes:
            if isinstance(write, Create | Apply) and write.resource == resource:
                obj: Object = write.obj
                return obj
        raise AssertionError(f"no {resource} was created: {self.writes}")


def _merged(target: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merged(merged.get(key), value)
    return merged


@pytest.fixture
def world() -> World:
    """A fresh world with one job."""
    return World()
