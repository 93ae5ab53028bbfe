"""The functions of vendors, sources, queue systems, controllers, fields and settings."""

from __future__ import annotations

import json
from functools import partial
from itertools import chain
from types import NoneType
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from kaiwo.api.resolved_config import ResolvedConfig
from kaiwo.api.schema import structural
from kaiwo.api.workload import Workload
from kaiwo.engine.resource import Object, Resource
from kaiwo.plugin.facts import Blocked
from kaiwo.plugin.namespace_defaults import DefaultValues
from kaiwo.plugin.queue_relief import QuotaWait, ReliefFacts, ReliefRequest
from kaiwo.plugin.queue_setup import SetupFacts, SetupPlan
from kaiwo.plugin.queue_usage import QueueUsage, UsageFacts
from kaiwo.plugin.queues import Admission, QueueAssignment, QueueFacts
from kaiwo.plugin.sources import SecretReference
from kaiwo.plugin.vendors import RequestedModel
from kaiwo.testing.builders import NOW
from kaiwo.testing.conformance.backend_probes import VENDOR
from kaiwo.testing.conformance.documents import Documents, accepted, live_object, readable
from kaiwo.testing.conformance.probes import Case, Probe
from kaiwo.testing.defaults_contract import defaults_fault
from kaiwo.testing.relief_contract import ReliefAnswers, relief_answers, relief_fault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kaiwo.api.errors import Problem
    from kaiwo.api.plugin_fields import Field
    from kaiwo.plugin.queues import QueueSystem
    from kaiwo.plugin.registry import LoadedPlugin
    from kaiwo.plugin.sources import DownloadSource
    from kaiwo.testing.sampling import Sampler

_NAMES = ("train", "default", "research")


def vendor_probes(plugin: LoadedPlugin, documents: Documents) -> Iterator[Probe]:
    """What recognises GPUs, reads a vendor's tool, and reads entries of ``gpuModels``."""
    for vendor in plugin.vendors:
        where = f"GPU vendor {vendor.name}"
        sample, build = _of_nodes(documents) if vendor.settings is None else _with_settings(documents)
        yield Probe(f"{where}: recognise", sample, build, vendor.recognise, (tuple,), fault=_fault_of_gpus)
        if vendor.tool is not None:
            yield Probe(
                f"{where}: tool.parse", _tool_output, _as_is, vendor.tool.parse, (tuple,), (ValueError,)
            )
        if vendor.requested is not None:
            names = [key.partition("/")[2].rstrip("*") for key in vendor.resource_keys]
            yield Probe(
                f"{where}: requested",
                partial(_model_entry, names),
                lambda case: (case,) if isinstance(case, str) else None,
                vendor.requested,
                (RequestedModel, NoneType),
            )


def _of_nodes(documents: Documents) -> tuple[Callable[[Sampler], Case], Callable[[Case], Any]]:
    return documents.node, _mapping


def _with_settings(documents: Documents) -> tuple[Callable[[Sampler], Case], Callable[[Case], Any]]:
    def sample(sampler: Sampler) -> Case:
        return {"node": documents.node(sampler), "settings": documents.settings(sampler)}

    def build(case: Case) -> tuple[Any, ...] | None:
        node = case.get("node") if isinstance(case, dict) else None
        return (node, documents.read_settings(case)) if isinstance(node, dict) else None

    return sample, build


def source_probes(plugin: LoadedPlugin, documents: Documents) -> Iterator[Probe]:
    """The items of download sources."""
    del documents
    for source in plugin.sources:
        yield from _source_probes(source)


def _source_probes(source: DownloadSource) -> Iterator[Probe]:
    where = f"download source {source.name}"
    schema = structural(source.item)

    def sample(sampler: Sampler) -> Case:
        found = sampler.fitting(schema)
        return found if sampler.chance(0.5) else sampler.changed(found)

    def build_valid(case: Case) -> tuple[Any, ...] | None:
        return (case,) if isinstance(case, dict) and accepted(source.item, case) else None

    def warn(item: Object) -> tuple[object, ...]:
        return tuple(source.warnings(item))

    yield _model_probe(f"{where}: item", source.item)
    yield Probe(f"{where}: secrets", sample, build_valid, source.secrets, (tuple,), fault=_fault_of_secrets)
    yield Probe(f"{where}: warnings", sample, build_valid, warn, (tuple,))


def field_probes(plugin: LoadedPlugin, documents: Documents) -> Iterator[Probe]:
    """The warnings about fields, and the models of settings and kinds."""
    del documents
    for backend in plugin.backends:
        for field in backend.fields:
            if field.warn is not None:
                yield _warning_probe(field)
    settings = plugin.settings_model()
    if settings is not None:
        yield _model_probe("settings", settings)
    for controller in plugin.controllers:
        for kind in controller.kinds:
            where = f"kind {kind.resource.kind}"
            yield _model_probe(f"{where}: spec", kind.spec)
            if kind.check is not None:
                yield _check_probe(f"{where}: check", kind.spec, kind.check)


def _warning_probe(field: Field) -> Probe:
    reader: TypeAdapter[Any] = TypeAdapter(field.annotation)

    def sample(sampler: Sampler) -> Case:
        return sampler.anything()

    def build(case: Case) -> tuple[Any, ...] | None:
        try:
            reader.validate_python(case)
        except ValidationError:
            return None
        return (case,)

    def warn(value: object) -> tuple[object, ...]:
        return tuple(field.warn(value)) if field.warn else ()

    return Probe(f"field {field.kind}.{'.'.join(field.path)}: warn", sample, build, warn, (tuple,))


def _model_probe(where: str, model: type[BaseModel]) -> Probe:
    """Validation refuses a value or takes it, and raises nothing else."""
    schema = structural(model)

    def sample(sampler: Sampler) -> Case:
        return sampler.changed(sampler.fitting(schema))

    def validate(value: object) -> Any:
        return model.model_validate(value, by_alias=True, by_name=False)

    return Probe(where, sample, _as_is, validate, (model,), (ValidationError,))


def _check_probe(where: str, model: type[BaseModel], check: Callable[[Object], Iterable[Problem]]) -> Probe:
    """What a controller could not use of a spec that its model takes."""
    schema = structural(model)

    def sample(sampler: Sampler) -> Case:
        found = sampler.fitting(schema)
        return found if sampler.chance(0.5) else sampler.changed(found)

    def build(case: Case) -> tuple[Any, ...] | None:
        return (case,) if isinstance(case, dict) and accepted(model, case) else None

    def call(spec: Object) -> tuple[Problem, ...]:
        return tuple(check(spec))

    return Probe(where, sample, build, call, (tuple,))


def controller_probes(plugin: LoadedPlugin, documents: Documents) -> Iterator[Probe]:
    """The labels that controllers are going to give to nodes."""
    for controller in plugin.controllers:
        if controller.node_labels is not None:
            yield Probe(
                f"controller {controller.name}: node_labels",
                lambda sampler: _some(sampler, documents.node),
                lambda case: (_named(case), (VENDOR,), ResolvedConfig.defaults()),
                controller.node_labels,
                (dict,),
            )


def defaults_probes(plugin: LoadedPlugin, documents: Documents) -> Iterator[Probe]:
    """The functions that read defaults for namespaces, with objects near the schema of the kind."""
    del documents
    schemas = {
        kind.resource: structural(kind.spec) for controller in plugin.controllers for kind in controller.kinds
    }
    for defaults in plugin.namespace_defaults:
        schema = schemas.get(defaults.kind)

        def sample(sampler: Sampler, schema: Object | None = schema) -> Case:
            obj = live_object(sampler, "default")
            if schema is not None and sampler.chance(0.9):
                spec = sampler.fitting(schema)
                obj["spec"] = spec if sampler.chance(0.5) else sampler.changed(spec)
            return obj

        where = f"namespace defaults {defaults.name}: read"
        yield Probe(where, sample, _mapping, defaults.read, (DefaultValues,), fault=defaults_fault)


def queue_probes(plugin: LoadedPlugin, documents: Documents) -> Iterator[Probe]:
    """The functions of the queue system."""
    for queue in plugin.queue_systems:
        yield from QueueCases(queue, documents).probes()


class QueueCases:
    """Cases for one queue system."""

    def __init__(self, queue: QueueSystem, documents: Documents) -> None:
        self._queue = queue
        self._documents = documents

    def probes(self) -> Iterator[Probe]:
        """Every function that it has."""
        queue = self._queue

        def probe(name: str, sample: Any, build: Any, *returns: type) -> Iterator[Probe]:
            function = getattr(queue, name)
            if function is not None:
                yield Probe(f"queue system {queue.name}: {name}", sample, build, function, returns)

        yield from probe("assign", self._workload, self._as_workload, QueueAssignment, Blocked)
        yield from probe("admission", self.child, self.as_child, Admission, NoneType)
        yield from probe("manages", self._facts, self._as_kind, bool)
        yield from probe("is_changing", self.child, lambda case: (case["child"],), bool)
        yield from probe("fewest_pods", self.child, lambda case: (case["child"],), int, NoneType)
        yield from probe("merge_live", self.child, lambda case: (case["child"], case["child"]), dict)
        yield from probe("queues", self._facts, lambda case: (self._read(case),), frozenset, NoneType)
        yield from probe("writers", self._settings, self._as_settings, tuple)
        yield from probe("usage", self._usage, self._as_usage, QueueUsage)
        yield from probe("usage_paths", self._usage, self._as_usage, tuple)
        yield from probe("waiting", self._waiting, lambda case: (case,), QuotaWait, NoneType)
        yield from probe("flavors", self._flavors, lambda case: (_named(case),), dict)
        if queue.relief is not None:
            yield Probe(
                f"queue system {queue.name}: relief",
                self._relief,
                self._as_relief,
                partial(relief_answers, queue.relief),
                (ReliefAnswers,),
                fault=relief_fault,
            )
        if queue.setup is not None:
            yield Probe(
                f"queue system {queue.name}: setup.plan",
                self._setup,
                self._as_setup,
                queue.setup.plan,
                (SetupPlan,),
            )

    def _settings(self, sampler: Sampler) -> Case:
        return {"settings": self._documents.settings(sampler)}

    def _as_settings(self, case: Case) -> tuple[Any, ...]:
        return (self._documents.read_settings(case),)

    def _facts(self, sampler: Sampler) -> Case:
        objects = _objects(sampler, self._queue.reads)
        pods = self._documents.pods(sampler)
        missing = [sampler.chance(0.1) for _ in self._queue.reads]
        now = sampler.chance(0.8)
        return {"objects": objects, "pods": pods, "missing": missing, "now": now} | self._settings(sampler)

    def _read(self, case: Case) -> QueueFacts:
        reads = self._queue.reads
        (settings,) = self._as_settings(case)
        return QueueFacts(
            objects=_by_kind(reads, case["objects"]),
            default_queue="research",
            settings=settings,
            missing=frozenset(kind for kind, gone in zip(reads, case["missing"], strict=False) if gone),
            pods=_named(case["pods"]),
            now=NOW if case["now"] else None,
        )

    def _workload(self, sampler: Sampler) -> Case:
        kind: Any = sampler.one("KaiwoJob", "KaiwoService")
        return self._facts(sampler) | {"workload": self._documents.workload(sampler, kind)}

    def _as_workload(self, case: Case) -> tuple[Any, ...] | None:
        if not isinstance(case.get("workload"), dict) or not _is_workload(case["workload"]):
            return None
        return Workload.from_object(case["workload"]), self._read(case)

    def child(self, sampler: Sampler) -> Case:
        """A live child, and what is known beside it."""
        child = self._documents.child(sampler, live_object(sampler, "train"))
        if self._queue.queue_label and sampler.chance(0.7):
            child["metadata"]["labels"] = {self._queue.queue_label: sampler.one(*_NAMES)}
        return self._facts(sampler) | {"child": child}

    def as_child(self, case: Case) -> tuple[Any, ...] | None:
        """The child and the facts of such a case; None where the child has no name."""
        return (case["child"], self._read(case)) if _named([case["child"]]) else None

    def _as_kind(self, case: Case) -> tuple[Any, ...]:
        return Resource("batch", "v1", "Job", "jobs"), self._read(case)

    def _usage(self, sampler: Sampler) -> Case:
        kinds = self._queue.usage_reads
        hidden = [sampler.chance(0.1) for _ in kinds]
        return {"objects": _objects(sampler, kinds), "hidden": hidden}

    def _as_usage(self, case: Case) -> tuple[Any, ...]:
        kinds = self._queue.usage_reads
        hidden = frozenset(kind for kind, gone in zip(kinds, case["hidden"], strict=False) if gone)
        objects = {k: found for k, found in _by_kind(kinds, case["objects"]).items() if k not in hidden}
        return (UsageFacts(objects=objects, now=NOW, namespace="default", hidden=hidden),)

    @staticmethod
    def _waiting(sampler: Sampler) -> Case:
        return live_object(sampler, sampler.one(*_NAMES))

    @property
    def _shared_kinds(self) -> tuple[Resource, ...]:
        """The kinds whose objects belong to no single workload."""
        queue = self._queue
        kinds = dict.fromkeys((*queue.reads, *queue.flavor_reads))
        return tuple(kind for kind in kinds if kind not in queue.owned)

    def _relief(self, sampler: Sampler) -> Case:
        uids = [f"uid-of-workload-{number}" for number in range(4)]
        owned = {uid: list(chain.from_iterable(_objects(sampler, self._queue.owned))) for uid in uids}
        waiting = sampler.random.randrange(len(uids))
        return {
            "waiting": {uid: owned[uid] for uid in uids[:waiting]},
            "held": {uid: owned[uid] for uid in uids[waiting:]},
            "objects": _objects(sampler, self._shared_kinds),
            "missing": [sampler.chance(0.1) for _ in self._shared_kinds],
            "resource": sampler.one(*VENDOR.resource_keys, "cpu"),
            "labels": {sampler.text() or "a": ["b"]} if sampler.chance(0.3) else {},
        }

    def _as_relief(self, case: Case) -> tuple[Any, ...]:
        labels = {key: frozenset(values) for key, values in case["labels"].items()}
        objects = _by_kind(self._shared_kinds, case["objects"])
        gone = {kind for kind, gone in zip(self._shared_kinds, case["missing"], strict=False) if gone}
        return (
            ReliefFacts(
                {
                    uid: ReliefRequest(_named(found), case["resource"], labels)
                    for uid, found in case["waiting"].items()
                },
                {uid: _named(found) for uid, found in case["held"].items()},
                {kind: found for kind, found in objects.items() if kind not in gone},
            ),
        )

    @staticmethod
    def _flavors(sampler: Sampler) -> Case:
        return _some(sampler, lambda s: live_object(s, s.one(*_NAMES)))

    def _setup(self, sampler: Sampler) -> Case:
        assert self._queue.setup is not None  # noqa: S101  for the type checker; `probes` asked
        nodes = _some(sampler, self._documents.node)
        return {"nodes": nodes, "objects": _objects(sampler, self._queue.setup.reads)}

    def _as_setup(self, case: Case) -> tuple[Any, ...]:
        reads = self._queue.setup.reads if self._queue.setup else ()
        nodes = _named(case["nodes"])
        return (SetupFacts(nodes, (VENDOR,), ResolvedConfig.defaults(), _by_kind(reads, case["objects"])),)


def _objects(sampler: Sampler, kinds: Sequence[Resource]) -> list[list[Object]]:
    """Some objects of each kind."""
    return [_some(sampler, lambda s: live_object(s, s.one(*_NAMES))) for _ in kinds]


def _by_kind(kinds: Sequence[Resource], objects: Sequence[Any]) -> dict[Resource, tuple[Object, ...]]:
    return {kind: _named(found) for kind, found in zip(kinds, objects, strict=False)}


def _some(sampler: Sampler, make: Any) -> list[Object]:
    return [make(sampler) for _ in range(sampler.random.randrange(4))]


def _named(objects: Any) -> tuple[Object, ...]:
    """Those that have what every object of the API server has."""
    return tuple(
        obj
        for obj in (objects if isinstance(objects, list) else ())
        if isinstance(obj, dict)
        and isinstance(obj.get("metadata"), dict)
        and isinstance(obj["metadata"].get("name"), str)
    )


def _is_workload(value: Object) -> bool:
    return value.get("kind") in ("KaiwoJob", "KaiwoService") and readable(value)


def _as_is(case: Case) -> tuple[Any, ...]:
    return (case,)


def _mapping(case: Case) -> tuple[Any, ...] | None:
    return (case,) if isinstance(case, dict) else None


def _model_entry(names: Sequence[str], sampler: Sampler) -> Case:
    """What a user may write as a model: a text, the name of a resource, or one after the other."""
    name = f"{sampler.one(*names)}{sampler.text()}"
    return sampler.one(sampler.text(), name, f"{sampler.text()}-{name}")


def _tool_output(sampler: Sampler) -> Case:
    """What a program may write: JSON, lines, or nothing of use."""
    match sampler.random.randrange(3):
        case 0:
            return json.dumps(sampler.anything())
        case 1:
            rows = (", ".join(sampler.text() for _ in range(sampler.random.randrange(6))) for _ in range(3))
            return "\n".join(rows)
    return sampler.text()


def _fault_of_gpus(found: tuple[Any, ...]) -> str:
    for gpus in found:
        if type(getattr(gpus, "count", None)) is not int or gpus.count < 0:
            return f"returned {gpus!r}, expected NodeGpus with a count from 0"
    return ""


def _fault_of_secrets(found: tuple[Any, ...]) -> str:
    foreign = [each for each in found if not isinstance(each, SecretReference)]
    return f"returned {foreign[0]!r}, expected SecretReferences" if foreign else ""
