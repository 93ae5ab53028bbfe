"""Random objects that look like what a cluster has: workloads, Nodes, pods, children and their status."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel, ValidationError

from kaiwo.api.errors import InvalidWorkload
from kaiwo.api.kind_models import compose_spec
from kaiwo.api.schema import structural
from kaiwo.api.workload import Workload
from kaiwo.testing import builders
from kaiwo.workload.labels import NAME, RUN_ID, TYPE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaiwo.api.plugin_fields import WorkloadKind
    from kaiwo.engine.resource import Object
    from kaiwo.plugin.backends import Backend
    from kaiwo.plugin.registry import LoadedPlugin
    from kaiwo.testing.sampling import Sampler

CHILD_UID: Final = "22222222-2222-4333-8444-555555555555"
_FIELDS_GIVEN: Final = 0.25
"""Share of a kind's fields that a random workload has."""

_TIME: Final = "2026-01-02T03:04:00Z"


@dataclass(frozen=True)
class Documents:
    """Makes random objects for the functions of one plugin.

    Attributes:
        plugin: the plugin.
        resource_keys: resource keys that Nodes have.
    """

    plugin: LoadedPlugin
    resource_keys: tuple[str, ...]

    @cached_property
    def _specs(self) -> dict[str, Object]:
        return {
            kind: structural(compose_spec(kind, self.plugin.fields()))
            for kind in ("KaiwoJob", "KaiwoService")
        }

    def workload(self, sampler: Sampler, kind: WorkloadKind, backend: Backend | None = None) -> Object:
        """A workload that the host reads, with the backend's own block most of the time."""
        build = builders.job if kind == "KaiwoJob" else builders.service
        given = {
            name: sampler.fitting(part)
            for name, part in self._specs[kind]["properties"].items()
            if sampler.chance(_FIELDS_GIVEN)
        }
        if backend is not None and sampler.chance(0.8):
            given[backend.block] = self._block(sampler, backend, given.get(backend.block))
        if not readable(build(**given)):
            given = {name: value for name, value in given.items() if readable(build(**{name: value}))}
        labels = {"team": "a"} if sampler.chance(0.3) else None
        return build(**given, labels=labels) if readable(build(**given)) else build()

    @staticmethod
    def _block(sampler: Sampler, backend: Backend, sampled: Any) -> Any:
        """What a user embeds: pod templates where the backend expects them, or anything."""
        if sampler.chance(0.2):
            return sampled if sampled is not None else sampler.anything()
        block: Object = {}
        for path in backend.pod_templates:
            if sampler.chance(0.8):
                _put(block, path[1:], pod_template(sampler))
        return sampler.changed(block)

    def node(self, sampler: Sampler) -> Object:
        """A Node, more often than not with GPUs."""
        gpus = {key.removesuffix("*"): 8 for key in self.resource_keys if sampler.chance(0.6)}
        return sampler.changed(builders.node(sampler.one("node-1", "node-2", "node-3"), gpus=gpus))  # type: ignore[no-any-return]

    def child(self, sampler: Sampler, rendered: Object) -> Object:
        """A live child with any status."""
        metadata = {**rendered.get("metadata", {}), "uid": CHILD_UID, "creationTimestamp": _TIME}
        live = {**rendered, "metadata": metadata}
        if sampler.chance(0.9):
            live["status"] = self.status(sampler)
        changed = sampler.changed(live, 2)
        return changed if isinstance(changed, dict) and _has_identity(changed) else live

    @staticmethod
    def status(sampler: Sampler) -> Any:
        """A status as controllers write them, with anything in it."""
        if sampler.chance(0.15):
            return sampler.anything()
        status = sampler.anything()
        conditions = [
            {
                "type": sampler.text(),
                "status": sampler.one("True", "False", "Unknown"),
                "reason": sampler.text(),
                "message": sampler.text(),
                "lastTransitionTime": _TIME,
            }
            for _ in range(sampler.random.randrange(3))
        ]
        return sampler.changed({**(status if isinstance(status, dict) else {}), "conditions": conditions}, 1)

    @staticmethod
    def pod(sampler: Sampler) -> Object:
        """A pod of a workload in any phase."""
        state = sampler.one(
            {"waiting": {"reason": sampler.text(), "message": sampler.text()}},
            {"running": {"startedAt": _TIME}},
            {
                "terminated": {
                    "exitCode": sampler.one(0, 1, 137),
                    "reason": sampler.text(),
                    "startedAt": _TIME,
                }
            },
        )
        status = {"name": "main", "state": state, "ready": sampler.chance(0.5), "restartCount": 0}
        pod: Object = {
            "metadata": {
                "name": "pod-1",
                "uid": "33333333-2222-4333-8444-555555555555",
                "creationTimestamp": _TIME,
                "labels": {RUN_ID: builders.UID, NAME: "train", TYPE: "kaiwojob"},
            },
            "spec": {"containers": [{"name": "main", "image": "registry.example/a:1"}]},
            "status": {
                "phase": sampler.one("Pending", "Running", "Succeeded", "Failed", "Unknown"),
                "containerStatuses": [status],
                "startTime": _TIME,
            },
        }
        changed = sampler.changed(pod)
        return changed if isinstance(changed, dict) else pod

    def pods(self, sampler: Sampler) -> list[Object]:
        """Some pods, or none."""
        return [self.pod(sampler) for _ in range(sampler.random.randrange(4))]

    def settings(self, sampler: Sampler) -> Object:
        """Settings that the plugin's model accepts, as KaiwoConfig has them; empty for the defaults."""
        model = self.plugin.settings_model()
        if model is None:
            return {}
        schema = structural(model)
        for _ in range(5):
            found: Object = sampler.fitting(schema)
            if accepted(model, found):
                return found
        return {}

    def read_settings(self, case: Object) -> BaseModel | None:
        """The settings of a case; None for a plugin without settings."""
        model = self.plugin.settings_model()
        return None if model is None else model.model_validate(case.get("settings", {}))


def pod_template(sampler: Sampler) -> Object:
    """A pod template as users embed them, with anything in it."""
    container = {"name": "main", "image": "registry.example/a:1", "command": ["python"]}
    template = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [container]}}
    return sampler.changed(template)  # type: ignore[no-any-return]


def live_object(sampler: Sampler, name: str) -> Object:
    """An object of a kind that nothing is known of, as the API server has them."""
    metadata = {
        "name": name,
        "namespace": "default",
        "uid": f"uid-of-{name}",
        "creationTimestamp": _TIME,
        "generation": 1,
        "labels": {sampler.text() or "a": "b"},
    }
    return {"metadata": metadata, "spec": sampler.anything(), "status": Documents.status(sampler)}


def readable(workload: Object) -> bool:
    """Whether the host can read a workload; only such workloads reach plugins."""
    try:
        Workload.from_object(workload)
    except InvalidWorkload:
        return False
    return True


def accepted(model: type[BaseModel], value: Any) -> bool:
    """Whether a model takes a value as users write it."""
    try:
        model.model_validate(value, by_alias=True, by_name=False)
    except ValidationError:
        return False
    return True


def _has_identity(obj: Object) -> bool:
    """Whether an object has what the API server sees to in every object."""
    metadata = obj.get("metadata")
    return (
        isinstance(metadata, dict)
        and metadata.get("uid") == CHILD_UID
        and isinstance(metadata.get("name"), str)
    )


def _put(block: Object, path: Sequence[str], value: object) -> None:
    """Set a value at a path in which ``*`` stands for the items of a list."""
    name, *rest = path
    if not rest:
        block[name] = value
    elif rest[0] == "*":
        item: Object = {}
        _put(item, rest[1:], value)
        block.setdefault(name, []).append(item)
    else:
        _put(block.setdefault(name, {}), rest, value)
