"""What the host relies on in a queue system."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from kaiwo.api.workload import Workload
from kaiwo.plugin.facts import Blocked
from kaiwo.plugin.queue_relief import QuotaWait, ReliefFacts, ReliefRequest
from kaiwo.plugin.queue_usage import QueueUsage, UsageFacts
from kaiwo.plugin.queues import Admission, QueueAssignment, QueueFacts
from kaiwo.testing.assertions import require
from kaiwo.testing.builders import NOW
from kaiwo.testing.observed import CHILD_UID
from kaiwo.testing.pure import pure_result
from kaiwo.testing.relief_contract import ReliefAnswers, relief_answers, relief_fault, relief_loss

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pydantic import BaseModel

    from kaiwo.engine.resource import Object, Resource
    from kaiwo.plugin.queues import QueueSystem

_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?")
_STATES = get_args(get_type_hints(Admission)["state"])
_ODD_STATUSES: tuple[Any, ...] = (
    {},
    None,
    [],
    "text",
    {"conditions": None},
    {"conditions": [None, {}, 7]},
)
_STARTED = {"admitted", "finished"}


def assert_queue_contract(
    queue: QueueSystem,
    workloads: Sequence[Object],
    *,
    objects: Mapping[Resource, Sequence[Object]] | None = None,
    children: Sequence[tuple[Object, str]] = (),
    settings: BaseModel | None = None,
    default_queue: str = "default",
) -> None:
    """Check a queue system with workloads that it can queue.

    Its functions are pure. Every workload gets a queue and labels that an object can have, the declared
    ``queue_label`` among them. A suspended child that nobody looked at is neither admitted nor finished. A
    child whose status makes no sense, kinds that are not served, and objects without content raise nothing.
    What it says of quota that others hold is about the workloads it was asked about, and more of them that
    end never give less.

    Args:
        queue: the queue system.
        workloads: at least one workload that can be queued.
        objects: objects of the kinds in ``reads``, as far as they are needed.
        children: live children, each with the state of its admission (``admitted``).
        settings: settings of the plugin; the defaults without.
        default_queue: the default queue of KaiwoConfig.

    Raises:
        AssertionError: what does not hold, with the workload's name.
    """
    require(workloads, "give at least one workload")
    chosen = settings if settings is not None else queue.settings() if queue.settings else None
    known = {kind: tuple((objects or {}).get(kind, ())) for kind in queue.reads}
    facts = QueueFacts(known, default_queue, chosen, now=NOW)
    nothing = QueueFacts({}, default_queue, chosen, frozenset(queue.reads), now=None)
    empty = {"metadata": {"name": "empty", "namespace": "default", "uid": "uid-of-empty"}}
    odd = QueueFacts(dict.fromkeys(queue.reads, (empty,)), default_queue, chosen, now=NOW)
    for given in workloads:
        workload = Workload.from_object(given)
        for less in (nothing, odd):
            found = pure_result(f"{queue.name}: assign", queue.assign, workload, less)
            require(
                isinstance(found, QueueAssignment | Blocked),
                f"{queue.name}: assign returned {type(found).__name__}, expected QueueAssignment or Blocked",
            )
        _check_assigned(queue, workload, facts, nothing)
    for child, state in children:
        found = _admission(queue, child, facts)
        have = found.state if found else None
        require(
            have == state, f"{queue.name}: admission of {child['metadata']['name']} is {have}, not {state}"
        )
        for status in _ODD_STATUSES:
            for about in (facts, nothing, odd):
                _admission(queue, {**child, "status": status}, about)
    _check_others(queue, facts, nothing, odd)


def _check_assigned(queue: QueueSystem, workload: Workload, facts: QueueFacts, nothing: QueueFacts) -> None:
    where = f"{workload.name}: {queue.name}"
    found = pure_result(f"{where}: assign", queue.assign, workload, facts)
    blocked = f"{found.reason}: {found.message}" if isinstance(found, Blocked) else ""
    require(not blocked, f"{where}: cannot be queued: {blocked}")
    require(
        isinstance(found, QueueAssignment),
        f"{where}: assign returned {type(found).__name__}, expected QueueAssignment or Blocked",
    )
    assigned: QueueAssignment = found
    require(assigned.queue, f"{where}: the assignment names no queue")
    for key, value in assigned.labels.items():
        require(_LABEL_VALUE.fullmatch(str(value)), f"{where}: {key}={value!r} is no label")
    if queue.queue_label:
        require(
            queue.queue_label in assigned.labels,
            f"{where}: the labels lack {queue.queue_label}, its queue_label",
        )
    if not assigned.suspend:
        return
    metadata = {"name": workload.name, "namespace": workload.namespace, "uid": CHILD_UID}
    child = {"metadata": {**metadata, "labels": dict(assigned.labels)}, "spec": {"suspend": True}}
    for about in (facts, nothing):
        admission = _admission(queue, child, about)
        state = admission.state if admission else ""
        require(state not in _STARTED, f"{where}: a new suspended child is {state}")


def _admission(queue: QueueSystem, child: Object, facts: QueueFacts) -> Admission | None:
    found = pure_result(f"{queue.name}: admission", queue.admission, child, facts)
    if not isinstance(found, Admission):
        require(
            found is None,
            f"{queue.name}: admission returned {type(found).__name__}, expected Admission or None",
        )
        return None
    require(found.state in _STATES, f"{queue.name}: {found.state!r} is no state of an admission")
    require("\n" not in found.message, f"{queue.name}: the message of an admission has more than one line")
    return found


def _check_others(queue: QueueSystem, *facts: QueueFacts) -> None:
    """The functions that a queue system may have besides."""

    def check(name: str, types: Any, *arguments: Any) -> None:
        function = getattr(queue, name)
        if function is not None:
            found = pure_result(f"{queue.name}: {name}", function, *arguments)
            require(isinstance(found, types), f"{queue.name}: {name} returned {type(found).__name__}")

    for given in facts:
        check("queues", (frozenset, type(None)), given)
        usage = UsageFacts(
            {kind: given.objects.get(kind, ()) for kind in queue.usage_reads}, now=NOW, namespace="default"
        )
        check("usage", QueueUsage, usage)
        check("usage_paths", tuple, usage)
        for kind in queue.reads:
            check("manages", bool, kind, given)
    for status in _ODD_STATUSES:
        check("waiting", (QuotaWait, type(None)), {"metadata": {"name": "odd"}, "status": status})
    check("is_changing", bool, {"metadata": {"name": "odd"}})
    check("fewest_pods", (int, type(None)), {"metadata": {"name": "odd"}})
    check("merge_live", dict, {"metadata": {"name": "odd"}}, {"metadata": None, "spec": None})
    check("writers", tuple, facts[0].settings)
    check("flavors", dict, ())
    for given in facts:
        _check_relief(queue, given)


def _check_relief(queue: QueueSystem, facts: QueueFacts) -> None:
    """What it says of its objects: some of them wait, and all others could be ended."""
    if queue.relief is None:
        return
    owned = [obj for kind in queue.owned for obj in facts.objects.get(kind, ())]
    others = {kind: found for kind, found in facts.objects.items() if kind not in queue.owned}
    waits = {
        f"uid-{number}": (obj, queue.waiting(obj) if queue.waiting is not None else None)
        for number, obj in enumerate(owned)
    }
    given = ReliefFacts(
        {
            uid: ReliefRequest((obj,), next(iter(sorted(wait.lacks)), "example.com/gpu"))
            for uid, (obj, wait) in waits.items()
            if wait is not None
        },
        {uid: (obj,) for uid, (obj, wait) in waits.items() if wait is None},
        others,
    )
    where = f"{queue.name}: relief"
    answers: ReliefAnswers = pure_result(where, partial(relief_answers, queue.relief), given)
    fault = relief_fault(answers) or relief_loss(answers)
    require(not fault, f"{where} {fault}")
