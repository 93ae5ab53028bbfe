"""The functions of backends, of contributions to pods and of diagnosis rules."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from types import NoneType
from typing import TYPE_CHECKING, Any, get_args

from kaiwo.api.errors import InvalidWorkload
from kaiwo.api.status_words import Status
from kaiwo.api.workload import Workload
from kaiwo.plugin.backend_base import VariantInput
from kaiwo.plugin.facts import Allocation, Blocked
from kaiwo.plugin.observation import Finding, Observation, Outcome
from kaiwo.plugin.queues import Admission, QueueAssignment
from kaiwo.plugin.rendering import AllocationInput, Rendered, RenderInput, Resolved
from kaiwo.plugin.vendors import GpuVendor, NodeGpus
from kaiwo.testing.builders import NOW
from kaiwo.testing.conformance.documents import Documents, live_object, pod_template
from kaiwo.testing.conformance.probes import Case, Probe
from kaiwo.workload.errors import SpecError
from kaiwo.workload.gpus.nodes import counts, node_fact
from kaiwo.workload.json_access import without_nulls
from kaiwo.workload.metadata import system_labels
from kaiwo.workload.pods.contributions import contributed
from kaiwo.workload.pods.origins import Origins

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic import BaseModel

    from kaiwo.api.plugin_fields import WorkloadKind
    from kaiwo.engine.resource import Object, Resource
    from kaiwo.plugin.backend_base import BackendBase
    from kaiwo.plugin.backends import Backend
    from kaiwo.plugin.diagnosis import DiagnosisRule
    from kaiwo.plugin.registry import LoadedPlugin
    from kaiwo.plugin.rendering import PodContribution
    from kaiwo.testing.sampling import Sampler

_STATUS_WORDS = frozenset(get_args(Status)) - {""}
_KEY = "amd.com/gpu"
_IMAGE = "registry.example/default:1"


def _recognise(node: Object) -> tuple[NodeGpus, ...]:
    count = counts(node, [_KEY]).get(_KEY, 0)
    return (NodeGpus("mi300", count, _KEY),) if count else ()


VENDOR = GpuVendor("amd", (_KEY,), _recognise)
"""A GPU vendor for plugins that have none."""


def backend_probes(plugin: LoadedPlugin, documents: Documents) -> Iterator[Probe]:
    """The methods of every backend that is built, and of its variants."""
    for backend in plugin.backends:
        for form in (backend, *backend.variants):
            code = _loaded(form) if form.built else None
            if code is not None:
                yield from _BackendCases(form, backend, code, documents).probes()


def _loaded(form: Backend) -> BackendBase | None:
    """An instance of a backend's class; None where it does not load, which another check reports."""
    try:
        return form.load()
    except Exception:  # noqa: BLE001  a plugin's class may raise anything
        return None


@dataclass(frozen=True, slots=True)
class _BackendCases:
    """Cases for one backend or variant.

    Attributes:
        form: the backend, or the variant of it.
        backend: the backend.
        code: an instance of its class.
        documents: makes objects.
    """

    form: Backend
    backend: Backend
    code: BackendBase
    documents: Documents

    def probes(self) -> Iterator[Probe]:
        def probe(name: str, sample: Any, build: Any, *returns: type, **more: Any) -> Probe:
            where = f"backend {self.form.name}: {name}"
            return Probe(where, sample, build, getattr(self.code, name), returns, **more)

        refuses = (SpecError,)
        yield probe("serves", self._workload, self._as_workload, bool)
        yield probe("validate", self._workload, self._as_workload, NoneType, allowed=refuses)
        yield probe("select_variant", self._settings, self._as_variant, str, NoneType)
        yield probe("allocate", self._allocation, self._as_allocation, Allocation, Blocked, allowed=refuses)
        yield probe(
            "render", self._render, self._as_render, Rendered, allowed=refuses, fault=self._fault_of_child
        )
        yield probe("observe", self._observe, self._as_observation, Outcome, fault=_fault_of_outcome)
        yield probe("immutable_part", self._child_only, lambda case: (case,), object)
        yield probe("tune_secondary", self._tune, self._as_tune, dict)
        yield probe("merge_live", self._merge, lambda case: (case["desired"], case["live"]), dict)

    def _workload(self, sampler: Sampler) -> Case:
        return {"workload": self.documents.workload(sampler, self.form.kind, self.backend)}

    @staticmethod
    def _as_workload(case: Case) -> tuple[Any, ...] | None:
        workload = _read(case)
        return None if workload is None else (workload,)

    def _settings(self, sampler: Sampler) -> Case:
        return {"settings": self.documents.settings(sampler)}

    def _as_variant(self, case: Case) -> tuple[Any, ...]:
        return (VariantInput(self.documents.read_settings(case), _always),)

    def _allocation(self, sampler: Sampler) -> Case:
        nodes = [self.documents.node(sampler) for _ in range(sampler.random.randrange(3))]
        key = sampler.one("", _KEY)
        facts = {"nodes": nodes, "key": key, "check": sampler.chance(0.7)}
        return self._workload(sampler) | self._settings(sampler) | facts

    def _as_allocation(self, case: Case) -> tuple[Any, ...] | None:
        workload = _read(case)
        if workload is None:
            return None
        nodes = tuple(node_fact(node, (VENDOR,)) for node in case["nodes"] if _named(node))
        settings = self.documents.read_settings(case)
        return (AllocationInput(workload, (VENDOR,), nodes, case["key"], case["check"], settings),)

    def _render(self, sampler: Sampler) -> Case:
        replicas, per_replica = sampler.one(1, 1, 2), sampler.one(0, 0, 1, 8)
        return (
            self._workload(sampler)
            | self._settings(sampler)
            | {"replicas": replicas, "per": per_replica, "queue": sampler.chance(0.5)}
        )

    def _as_render(self, case: Case) -> tuple[Any, ...] | None:
        workload = _read(case)
        settings = self.documents.read_settings(case)
        return None if workload is None else (render_input(workload, case, settings),)

    def _rendered(self, sampler: Sampler) -> tuple[Object, Object]:
        """A workload and its child; a child with nothing in it where it cannot be rendered."""
        case = self._render(sampler)
        given = self._as_render(case)
        with suppress(Exception):  # what rendering raises is the matter of its own probe
            if given is not None:
                return case["workload"], dict(self.code.render(*given).child)
        bare = {
            "apiVersion": self.form.child.api_version,
            "kind": self.form.child.kind,
            "metadata": {"name": case["workload"]["metadata"]["name"], "namespace": "default"},
        }
        return case["workload"], bare

    def _fault_of_child(self, rendered: Rendered) -> str:
        child = rendered.child
        found = (child.get("apiVersion"), child.get("kind"))
        expected = (self.form.child.api_version, self.form.child.kind)
        if found != expected:
            return f"made a child of {found[0]} {found[1]}, expected {expected[0]} {expected[1]}"
        foreign = [str(kind) for kind in rendered.secondary if kind not in self.form.secondary]
        return f"made {', '.join(foreign)}, which `secondary` does not name" if foreign else ""

    def _observe(self, sampler: Sampler) -> Case:
        workload, child = self._rendered(sampler)
        return {
            "workload": workload,
            "child": self.documents.child(sampler, child),
            "secondary": [live_object(sampler, "train") for _ in self.form.secondary],
        } | observed_facts(sampler, self.documents)

    def _as_observation(self, case: Case) -> tuple[Any, ...] | None:
        return observation(case, self.form.secondary, self.documents)

    def _child_only(self, sampler: Sampler) -> Case:
        return self.documents.child(sampler, self._rendered(sampler)[1])

    def _tune(self, sampler: Sampler) -> Case:
        return self._workload(sampler) | {
            "secondary": [live_object(sampler, "train") for _ in self.form.secondary]
        }

    def _as_tune(self, case: Case) -> tuple[Any, ...] | None:
        workload = _read(case)
        return None if workload is None else (workload, _secondary(case, self.form.secondary))

    def _merge(self, sampler: Sampler) -> Case:
        _, desired = self._rendered(sampler)
        return {"desired": desired, "live": self.documents.child(sampler, desired)}


def rule_probes(plugin: LoadedPlugin, documents: Documents) -> Iterator[Probe]:
    """The diagnosis rules."""
    for rule in plugin.diagnosis_rules:
        yield _rule_probe(rule, documents)


def _rule_probe(rule: DiagnosisRule, documents: Documents) -> Probe:
    def sample(sampler: Sampler) -> Case:
        kind = _kind(sampler)
        return {
            "workload": documents.workload(sampler, kind),
            "child": documents.child(sampler, live_object(sampler, "train")),
            "secondary": [],
        } | observed_facts(sampler, documents)

    return Probe(
        f"diagnosis rule {rule.name}: diagnose",
        sample,
        lambda case: observation(case, (), documents),
        rule.diagnose,
        (Finding, NoneType),
        fault=lambda found: "" if found is None else fault_of_words(found.reason, found.message),
    )


def contribution_probes(plugin: LoadedPlugin, documents: Documents) -> Iterator[Probe]:
    """The contributions to pods."""
    for contribution in plugin.contributions:
        yield _contribution_probe(contribution, documents)


def _contribution_probe(contribution: PodContribution, documents: Documents) -> Probe:
    def sample(sampler: Sampler) -> Case:
        return {
            "workload": documents.workload(sampler, _kind(sampler)),
            "template": pod_template(sampler),
            "settings": documents.settings(sampler),
        }

    def build(case: Case) -> tuple[Any, ...] | None:
        # The host drops nulls of embedded templates before plugins add to them.
        workload, template = _read(case), without_nulls(case["template"])
        if workload is None or not _sound(template):
            return None
        labels = {"metadata": {"labels": system_labels(workload)}}
        return render_input(workload, case, documents.read_settings(case)), {**template, **labels}

    def call(given: RenderInput, template: Object) -> Object:
        return contributed(
            replace(given, contributions=(contribution,)), template, "spec.template", Origins()
        )

    return Probe(f"pod contribution {contribution.name}: contribute", sample, build, call, (dict,))


def _sound(template: object) -> bool:
    """Whether the host gives such a pod template to contributions."""
    spec = template.get("spec") if isinstance(template, dict) else None
    if not isinstance(spec, dict):
        return False
    groups = (spec.get("containers"), spec.get("initContainers", []))
    return bool(groups[0]) and all(
        isinstance(group, list) and all(isinstance(each, dict) for each in group) for group in groups
    )


def observed_facts(sampler: Sampler, documents: Documents) -> Object:
    """What is known of a child beside itself."""
    admission = {
        "state": sampler.one("pending", "admitted", "evicted", "finished", "unmanaged"),
        "reason": "Queued",
        "message": sampler.text(),
    }
    return {
        "pods": documents.pods(sampler),
        "gone": documents.pods(sampler) if sampler.chance(0.2) else [],
        "admission": admission if sampler.chance(0.5) else None,
        "queued": sampler.chance(0.5),
        "event": {"reason": "FailedCreate", "message": sampler.text()} if sampler.chance(0.3) else None,
        "adopted": sampler.chance(0.1),
        "settings": documents.settings(sampler),
    }


def observation(case: Case, secondary: tuple[Resource, ...], documents: Documents) -> tuple[Any, ...] | None:
    """The observation of a case; None for one without a child."""
    workload = _read(case)
    pods, gone = (tuple(pod for pod in case[name] if isinstance(pod, dict)) for name in ("pods", "gone"))
    if workload is None or not isinstance(case["child"], dict):
        return None
    return (
        Observation(
            workload=workload,
            child=case["child"],
            pods=() if case["adopted"] else pods,
            admission=Admission(**case["admission"]) if case["admission"] else None,
            queued=case["queued"],
            now=NOW,
            secondary=_secondary(case, secondary),
            warning_event=Finding(**case["event"]) if case["event"] else None,
            gone=gone,
            adopted=case["adopted"],
            settings=documents.read_settings(case),
        ),
    )


def render_input(workload: Workload, case: Case, settings: BaseModel | None) -> RenderInput:
    """The render input of a case."""
    per_replica = case.get("per", 0)
    key = _KEY if per_replica else ""
    replicas = case.get("replicas", 1)
    allocation = Allocation(
        "amd" if per_replica else "", key, replicas=replicas, gpus_per_replica=per_replica, pods=replicas
    )
    assignment = QueueAssignment("research", {"example.com/queue": "research"})
    return RenderInput(
        workload=workload,
        resolved=Resolved(allocation, default_image=_IMAGE, vendor_keys=(_KEY,)),
        queue=assignment if case.get("queue") else None,
        settings=settings,
    )


def _secondary(case: Case, kinds: tuple[Resource, ...]) -> dict[Resource, Object]:
    return {kind: obj for kind, obj in zip(kinds, case["secondary"], strict=False) if isinstance(obj, dict)}


def _read(case: Case) -> Workload | None:
    try:
        return Workload.from_object(case["workload"])
    except (InvalidWorkload, KeyError, ValueError):
        return None


def _kind(sampler: Sampler) -> WorkloadKind:
    kind: WorkloadKind = "KaiwoJob" if sampler.chance(0.5) else "KaiwoService"
    return kind


def _named(node: object) -> bool:
    return isinstance(node, dict) and isinstance(node.get("metadata"), dict) and "name" in node["metadata"]


def _always(kind: Resource) -> bool:
    del kind
    return True


def _fault_of_outcome(outcome: Outcome) -> str:
    if outcome.status not in _STATUS_WORDS:
        return f"returned the status {outcome.status!r}, expected one of {', '.join(sorted(_STATUS_WORDS))}"
    # A child's own reason is passed on as it is.
    if not str(outcome.reason or "").strip():
        return "returned no reason, expected a word"
    return _fault_of_message(outcome.message)


def fault_of_words(reason: object, message: object) -> str:
    """What is wrong with a reason and its message; empty for nothing."""
    if not isinstance(reason, str) or not reason.isidentifier():
        return f"returned the reason {reason!r}, expected one CamelCase word"
    return _fault_of_message(message)


def _fault_of_message(message: object) -> str:
    right = isinstance(message, str) and "\n" not in message
    return "" if right else f"returned the message {message!r}, expected one line of text"
