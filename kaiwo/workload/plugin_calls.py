"""Asking plugins: what raises or answers nonsense becomes one clear failure."""

from __future__ import annotations

from types import NoneType
from typing import TYPE_CHECKING, Any, get_args

from kaiwo.api.status import Status
from kaiwo.plugin.facts import Allocation, Blocked
from kaiwo.plugin.observation import Outcome
from kaiwo.plugin.queues import Admission, QueueAssignment
from kaiwo.plugin.rendering import Rendered
from kaiwo.plugin.sources import SecretReference
from kaiwo.workload.errors import PluginError, SpecError
from kaiwo.workload.json_access import lenient_map

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kaiwo.api.errors import Problem
    from kaiwo.api.workload import Workload
    from kaiwo.engine.resource import Object, Resource
    from kaiwo.plugin.backends import Backend
    from kaiwo.plugin.observation import Finding, Observation
    from kaiwo.plugin.queues import QueueFacts, QueueSystem
    from kaiwo.plugin.rendering import AllocationInput, RenderInput
    from kaiwo.plugin.sources import DownloadSource
    from kaiwo.workload.model import Registry

_WORDS = frozenset(get_args(Status)) - {""}


def _ask(
    name: str, step: str, kinds: tuple[type, ...], function: Callable[..., Any] | None, *args: object
) -> Any:
    """Call a plugin's function and hold it to the kinds of answer it may give."""
    if function is None:
        raise PluginError(name, step, "it is declared, but not built")
    try:
        answer = function(*args)
    except (SpecError, PluginError):
        raise
    except Exception as error:
        raise PluginError(name, step, error) from error
    if not isinstance(answer, kinds):
        raise PluginError(name, step, f"it answered {str(answer)[:200]}")
    return answer


def problems(backend: Backend, workload: Workload) -> tuple[tuple[str, str], ...]:
    """What the backend finds wrong with a workload, as field path and message."""
    if backend.check is None:
        return ()
    found: tuple[tuple[str, str], ...] = _ask(backend.name, "check", (tuple, list), backend.check, workload)
    return found


def allocation(backend: Backend, inp: AllocationInput) -> Allocation | Blocked:
    """The backend's split of GPUs."""
    answer: Allocation | Blocked = _ask(
        backend.name, "split the GPUs of", (Allocation, Blocked), backend.allocate, inp
    )
    return answer


def rendered(backend: Backend, inp: RenderInput) -> Rendered:
    """The backend's child, checked to be the one object it declared."""
    answer: Rendered = _ask(backend.name, "render", (Rendered,), backend.render, inp)
    child = lenient_map(answer.child)
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
    return answer


def frozen(backend: Backend, child: Object) -> object:
    """The part of a child that cannot change while it exists; None where all may."""
    return _ask(backend.name, "compare", (object,), backend.frozen, child) if backend.frozen else None


def tuned(
    backend: Backend, workload: Workload, secondary: Mapping[Resource, Object]
) -> Mapping[Resource, Object]:
    """The backend's merge patches of what the child's own controller made."""
    if backend.tune is None:
        return {}
    answer: Mapping[Resource, Object] = _ask(backend.name, "tune", (dict,), backend.tune, workload, secondary)
    return answer


def observed(backend: Backend, seen: Observation) -> Outcome:
    """What the backend makes of a live child."""
    answer: Outcome = _ask(backend.name, "read the state of", (Outcome,), backend.observe, seen)
    if answer.status not in _WORDS:
        raise PluginError(backend.name, "read the state of", f"{answer.status!r} is no status")
    return answer


def finding(registry: Registry, seen: Observation) -> Finding | None:
    """The first finding of the diagnosis rules; a rule that raises is passed over."""
    for rule in registry.diagnosis:
        try:
            answer = rule.diagnose(seen)
        except Exception:  # noqa: BLE001, S112 (an explanation that fails explains nothing)
            continue
        if answer is not None:
            return answer
    return None


def secrets(source: DownloadSource, item: Object) -> tuple[SecretReference, ...]:
    """The Secrets that an item of a download source refers to."""
    answer: tuple[SecretReference, ...] = _ask(
        source.name, "name the Secrets of", (tuple, list), source.secrets, item
    )
    for reference in answer:
        if not isinstance(reference, SecretReference):
            raise PluginError(source.name, "name the Secrets of", f"it answered {str(reference)[:200]}")
    return answer


def warnings(source: DownloadSource, items: object) -> tuple[Problem, ...]:
    """What of the items of a download source deserves a warning, with paths below their list."""
    answer: tuple[Problem, ...] = _ask(
        source.name, "warn about", (tuple,), lambda found: tuple(source.warn(found)), items
    )
    return answer


def assignment(queue: QueueSystem, workload: Workload, facts: QueueFacts) -> QueueAssignment | Blocked:
    """The queue system's labels for a workload, or why it cannot be queued."""
    answer: QueueAssignment | Blocked = _ask(
        queue.name, "queue", (QueueAssignment, Blocked), queue.assign, workload, facts
    )
    return answer


def manages(queue: QueueSystem, kind: Resource, facts: QueueFacts) -> bool:
    """Whether the queue system queues objects of a kind by itself; False where it cannot tell."""
    if queue.manages is None:
        return False
    return bool(_ask(queue.name, "queue", (bool,), queue.manages, kind, facts))


def merged(backend: Backend, desired: Object, live: Object) -> Object:
    """The rendered child with what others own inside lists that are replaced as a whole."""
    if backend.merge is None:
        return desired
    answer: Object = _ask(backend.name, "merge", (dict,), backend.merge, desired, live)
    return answer


def admission(queue: QueueSystem, child: Object, facts: QueueFacts) -> Admission | None:
    """What the queue system says of a live child."""
    answer: Admission | None = _ask(
        queue.name, "read the admission of", (Admission, NoneType), queue.admission, child, facts
    )
    return answer
