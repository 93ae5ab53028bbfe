"""Asking plugins: what raises or answers nonsense becomes one clear failure."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

from kaiwo.api.status import Status
from kaiwo.plugin.backends import Observed, Rendered
from kaiwo.plugin.facts import Allocation, Refusal
from kaiwo.plugin.queues import Admission, QueueAssignment
from kaiwo.workload.errors import PluginFailure, SpecError
from kaiwo.workload.shapes import lenient_map

if TYPE_CHECKING:
    from kaiwo.api.workload import Workload
    from kaiwo.engine.resource import Object
    from kaiwo.plugin.backends import AllocationInput, BackEnd, Finding, Observation, RenderInput
    from kaiwo.plugin.queues import QueueFacts, QueueSystem
    from kaiwo.workload.model import Registry

_WORDS = frozenset(get_args(Status)) - {""}


def problems(backend: BackEnd, workload: Workload) -> tuple[tuple[str, str], ...]:
    """What the back end finds wrong with a workload, as field path and message."""
    if backend.check is None:
        return ()
    try:
        return tuple((str(path), str(text)) for path, text in backend.check(workload))
    except Exception as error:  # noqa: BLE001 (whatever a plugin raises harms only this workload)
        raise PluginFailure(backend.name, "check", error) from error


def allocation(backend: BackEnd, inp: AllocationInput) -> Allocation | Refusal:
    """The back end's split of GPUs."""
    assert backend.allocate is not None  # noqa: S101 (only built back ends are asked)
    try:
        answer = backend.allocate(inp)
    except SpecError:
        raise
    except Exception as error:  # noqa: BLE001
        raise PluginFailure(backend.name, "split the GPUs of", error) from error
    if not isinstance(answer, Allocation | Refusal):
        raise PluginFailure(backend.name, "split the GPUs of", f"it answered {answer!r}")
    return answer


def rendered(backend: BackEnd, inp: RenderInput) -> Rendered:
    """The back end's child, checked to be the one object it declared."""
    assert backend.render is not None  # noqa: S101
    try:
        answer = backend.render(inp)
    except (SpecError, PluginFailure):
        raise
    except Exception as error:  # noqa: BLE001
        raise PluginFailure(backend.name, "render", error) from error
    child = answer.child if isinstance(answer, Rendered) else None
    metadata = lenient_map(lenient_map(child).get("metadata"))
    expected = (
        backend.child.api_version,
        backend.child.kind,
        inp.workload.name,
        inp.workload.namespace or None,
    )
    found = (
        lenient_map(child).get("apiVersion"),
        lenient_map(child).get("kind"),
        metadata.get("name"),
        metadata.get("namespace"),
    )
    if found != expected or not isinstance(answer, Rendered):
        raise PluginFailure(backend.name, "render", f"it returned {found}, not the declared {expected}")
    return answer


def observed(backend: BackEnd, seen: Observation) -> Observed:
    """What the back end makes of a live child."""
    assert backend.observe is not None  # noqa: S101
    try:
        answer = backend.observe(seen)
    except Exception as error:  # noqa: BLE001
        raise PluginFailure(backend.name, "read the state of", error) from error
    if not isinstance(answer, Observed) or answer.status not in _WORDS:
        raise PluginFailure(backend.name, "read the state of", f"it answered {answer!r}")
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


def assignment(queue: QueueSystem, workload: Workload, facts: QueueFacts) -> QueueAssignment | Refusal:
    """The queue system's labels for a workload, or why it cannot be queued."""
    try:
        answer = queue.assign(workload, facts)
    except Exception as error:  # noqa: BLE001
        raise PluginFailure(queue.name, "queue", error) from error
    if not isinstance(answer, QueueAssignment | Refusal):
        raise PluginFailure(queue.name, "queue", f"it answered {answer!r}")
    return answer


def admission(queue: QueueSystem, child: Object, facts: QueueFacts) -> Admission | None:
    """What the queue system says of a live child."""
    try:
        answer = queue.admission(child, facts)
    except Exception as error:  # noqa: BLE001
        raise PluginFailure(queue.name, "read the admission of", error) from error
    if answer is not None and not isinstance(answer, Admission):
        raise PluginFailure(queue.name, "read the admission of", f"it answered {answer!r}")
    return answer
