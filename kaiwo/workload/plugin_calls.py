"""Calls into plugins: whatever a plugin raises or returns wrongly becomes one PluginError."""

from __future__ import annotations

from dataclasses import replace
from types import NoneType
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar, get_args

from pydantic import ValidationError

from kaiwo.api.status_words import Status
from kaiwo.plugin.backend_base import BackendBase
from kaiwo.plugin.facts import Allocation, Blocked
from kaiwo.plugin.namespace_defaults import DefaultValues
from kaiwo.plugin.observation import Finding, Outcome
from kaiwo.plugin.queues import Admission, QueueAssignment
from kaiwo.plugin.rendering import Rendered
from kaiwo.plugin.sources import SecretReference
from kaiwo.workload.errors import PluginError, SpecError
from kaiwo.workload.json_access import lenient_map

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from pydantic import BaseModel

    from kaiwo.api.errors import Problem
    from kaiwo.api.workload import Workload
    from kaiwo.engine.resource import Object, Resource
    from kaiwo.plugin.backend_base import VariantInput
    from kaiwo.plugin.backends import Backend
    from kaiwo.plugin.diagnosis import DiagnosisRule
    from kaiwo.plugin.namespace_defaults import NamespaceDefaults
    from kaiwo.plugin.observation import Observation
    from kaiwo.plugin.queues import QueueFacts, QueueSystem
    from kaiwo.plugin.rendering import AllocationInput, RenderInput
    from kaiwo.plugin.sources import DownloadSource

P = ParamSpec("P")
T = TypeVar("T")

_WORDS = frozenset(get_args(Status)) - {""}


def _checked(
    name: str,
    step: str,
    types: tuple[type, ...],
    call: Callable[P, T],
    *args: P.args,
    **kwargs: P.kwargs,
) -> T:
    """The result of a call into a plugin, which must be of one of the types.

    Raises:
        SpecError: the plugin found a field of the workload that cannot be used.
        PluginError: the call raised anything else, or returned something else.
    """
    try:
        result = call(*args, **kwargs)
    except (SpecError, PluginError):
        raise
    except Exception as error:
        raise PluginError(name, step, error) from error
    if not isinstance(result, types):
        raise PluginError(name, step, f"it answered {str(result)[:200]}")
    return result


def _call(
    backend: Backend,
    method: Callable[Concatenate[BackendBase, P], T],
    step: str,
    types: tuple[type, ...],
    *args: P.args,
    **kwargs: P.kwargs,
) -> T:
    """Call a method of a backend's class; ``step`` says in a message what the plugin failed to do."""
    if not backend.built:
        raise PluginError(backend.name, step, "it is declared, but not built")
    try:
        bound = getattr(backend.load(), method.__name__)
    except Exception as error:
        raise PluginError(backend.name, step, error) from error
    result: T = _checked(backend.name, step, types, bound, *args, **kwargs)
    return result


def serves(backend: Backend, workload: Workload) -> bool:
    """Whether the backend runs a workload; one that is not built yet runs those with its own block."""
    if not backend.built:
        return backend.block in workload.blocks
    return _call(backend, BackendBase.serves, "choose", (bool,), workload)


def select_variant(backend: Backend, inp: VariantInput) -> str | None:
    """The name of the variant for a new child; None for the backend itself."""
    return _call(backend, BackendBase.select_variant, "select a form for", (str, NoneType), inp)


def problems(backend: Backend, workload: Workload) -> tuple[tuple[str, str], ...]:
    """What the backend finds wrong with a workload, as field path and message."""
    try:
        _call(backend, BackendBase.validate, "check", (NoneType,), workload)
    except SpecError as error:
        return ((error.path, error.problem),)
    return ()


def allocation(backend: Backend, inp: AllocationInput) -> Allocation | Blocked:
    """The backend's split of GPUs."""
    return _call(backend, BackendBase.allocate, "split the GPUs of", (Allocation, Blocked), inp)


def rendered(backend: Backend, inp: RenderInput) -> Rendered:
    """The backend's child, checked to be the one object it declared."""
    result = _call(backend, BackendBase.render, "render", (Rendered,), inp)
    child = lenient_map(result.child)
    metadata = lenient_map(child.get("metadata"))
    found = (
        child.get("apiVersion"),
        child.get("kind"),
        metadata.get("name"),
        metadata.get("namespace") or "",
    )
    expected = (
        backend.child.api_version,
        backend.child.kind,
        inp.workload.name,
        inp.workload.namespace,
    )
    if found != expected:
        raise PluginError(backend.name, "render", f"it returned {found}, not the declared {expected}")
    return result


def immutable_part(backend: Backend, child: Object) -> object:
    """The part of a child that cannot change while it exists; None where no change replaces it."""
    return _call(backend, BackendBase.immutable_part, "compare", (object,), child)


def tuned(
    backend: Backend, workload: Workload, secondary: Mapping[Resource, Object]
) -> Mapping[Resource, Object]:
    """The backend's merge patches of what the child's own controller made."""
    return _call(backend, BackendBase.tune_secondary, "tune", (dict,), workload, secondary)


def merged(backend: Backend, queue: QueueSystem | None, desired: Object, live: Object) -> Object:
    """The rendered child with what others decide on the live one."""
    found: Object = _call(backend, BackendBase.merge_live, "merge", (dict,), desired, live)
    if queue is None or queue.merge_live is None:
        return found
    return _checked(queue.name, "queue", (dict,), queue.merge_live, found, live)


def observed(backend: Backend, seen: Observation) -> Outcome:
    """What the backend makes of a live child."""
    result = _call(backend, BackendBase.observe, "read the state of", (Outcome,), seen)
    if result.status not in _WORDS:
        raise PluginError(backend.name, "read the state of", f"{result.status!r} is not a status")
    return result


def secrets(source: DownloadSource, item: Object) -> tuple[SecretReference, ...]:
    """The Secrets that an item of a download source refers to."""
    step = "name the Secrets of"
    result = _checked(source.name, step, (tuple, list), source.secrets, item)
    for reference in result:
        if not isinstance(reference, SecretReference):
            raise PluginError(source.name, step, f"it answered {str(reference)[:200]}")
    return result


def item_error(source: DownloadSource, item: Object) -> ValidationError | None:
    """Why a download source does not accept an item; None where it does."""
    types = (ValidationError, NoneType)
    return _checked(source.name, "check the downloads of", types, source.item_error, item)


def warnings(source: DownloadSource, items: object) -> tuple[Problem, ...]:
    """What of the items of a download source deserves a warning, with paths below their list."""
    return _checked(source.name, "warn about", (tuple,), lambda: tuple(source.warn(items)))


def namespace_defaults(declared: NamespaceDefaults, obj: Object) -> DefaultValues:
    """The defaults that an object has for its namespace."""
    return _checked(declared.name, "read the namespace defaults of", (DefaultValues,), declared.read, obj)


def assignment(queue: QueueSystem, workload: Workload, facts: QueueFacts) -> QueueAssignment | Blocked:
    """The queue system's labels for a workload, or why it cannot be queued."""
    types = (QueueAssignment, Blocked)
    return _checked(queue.name, "queue", types, queue.assign, workload, facts)


def queues(queue: QueueSystem, facts: QueueFacts) -> frozenset[str] | None:
    """Names of the queues that workloads can name; None where the queue system does not say."""
    if queue.queues is None:
        return None
    names: frozenset[str] | None = _checked(
        queue.name, "list queues", (frozenset, type(None)), queue.queues, facts
    )
    return names


def manages(queue: QueueSystem, kind: Resource, facts: QueueFacts) -> bool:
    """Whether the queue system queues objects of a kind by itself; False where it does not say."""
    decide = queue.manages
    return decide is not None and _checked(queue.name, "queue", (bool,), decide, kind, facts)


def fewest_pods(queue: QueueSystem | None, child: Object) -> int | None:
    """With how many pods, at least, the queue system starts an object; None where nobody says."""
    if queue is None or queue.fewest_pods is None:
        return None
    return _checked(queue.name, "queue", (int, NoneType), queue.fewest_pods, child)


def is_changing(queue: QueueSystem, child: Object) -> bool:
    """Whether the queue system is in the middle of changing a live child; False where it does not say."""
    decide = queue.is_changing
    return decide is not None and _checked(queue.name, "queue", (bool,), decide, child)


def findings(
    rules: Iterable[DiagnosisRule], seen: Observation, settings: Mapping[str, BaseModel]
) -> Iterator[tuple[str, Finding]]:
    """What diagnosis rules find, each with the rule's name; a rule that raises is passed over.

    Args:
        rules: of the loaded plugins.
        seen: what was observed.
        settings: by name of the plugin.
    """
    for rule in rules:
        try:
            answer = rule.diagnose(replace(seen, settings=settings.get(rule.plugin)))
        except Exception:  # noqa: BLE001, S112 (an explanation that fails explains nothing)
            continue
        if isinstance(answer, Finding):
            yield rule.name, answer


def admission(queue: QueueSystem, child: Object, facts: QueueFacts) -> Admission | None:
    """What the queue system says of a live child."""
    types = (Admission, NoneType)
    return _checked(queue.name, "read the admission of", types, queue.admission, child, facts)
