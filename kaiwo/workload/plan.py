"""The plan: what to create, change and report for one workload, from what is known at this moment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.api.conditions import Condition
from kaiwo.api.errors import InvalidWorkload
from kaiwo.api.workload import Workload, read_status, workload_kind
from kaiwo.plugin.facts import Refusal
from kaiwo.workload import create, replacement, running
from kaiwo.workload.choice import choose
from kaiwo.workload.errors import PluginFailure, SpecError
from kaiwo.workload.model import Case, Plan
from kaiwo.workload.ownership import conflict, is_ours
from kaiwo.workload.refused import refused
from kaiwo.workload.resolve import queue_manages
from kaiwo.workload.shapes import lenient_map
from kaiwo.workload.status import settled

if TYPE_CHECKING:
    from kaiwo.engine.resource import Object
    from kaiwo.workload.model import Facts, Registry

RETRY_SECONDS = 30.0
"""When to look again after a plugin failed: nothing tells when it would not."""


def plan(workload: Workload, registry: Registry, facts: Facts) -> Plan:
    """What to do for a workload now. Pure: equal input gives an equal plan, and nothing is changed.

    Once its writes are done and their answers are among the facts, planning again gives no writes; once its
    last status is written too, it gives nothing at all.
    """
    if workload.deleting:
        return Plan()
    if workload.status.terminal:
        return Plan(statuses=settled(workload))
    try:
        return _plan(workload, registry, facts)
    except SpecError as error:
        return refused(workload, facts, Refusal("InvalidSpec", str(error)))
    except PluginFailure as error:
        return refused(workload, facts, Refusal("PluginError", str(error)), wake_after=RETRY_SECONDS)


def _plan(workload: Workload, registry: Registry, facts: Facts) -> Plan:
    choice = choose(workload, registry, facts.settings, queue_manages(registry, facts))
    if choice.backend is None:
        return refused(
            workload, facts, choice.refusal or Refusal("BackendNotLoaded", "no back end serves it")
        )
    backend = choice.backend
    if replacement.is_asleep(workload, backend):
        return replacement.plan_asleep(Case(workload, registry, facts, backend))
    if facts.live is None:
        return create.plan_absent(Case(workload, registry, facts, backend))
    if not is_ours(facts.live, workload):
        return refused(
            workload, facts, conflict(facts.live, backend.child.kind, workload), backend=backend.name
        )
    return running.plan_live(Case(workload, registry, facts, backend), choice.switched)


def plan_object(obj: Object, registry: Registry, facts: Facts) -> Plan:
    """The plan for an object as it was read; one that cannot be understood gets a status that says why.

    Raises:
        InvalidWorkload: it is no workload at all, or has no name.
    """
    try:
        workload = Workload.from_object(obj)
    except InvalidWorkload as error:
        return plan_invalid(obj, error, facts)
    return plan(workload, registry, facts)


def plan_invalid(obj: Object, error: InvalidWorkload, facts: Facts) -> Plan:
    """The plan for an object whose spec cannot be understood: nothing but a status that names the fields.

    Raises:
        InvalidWorkload: it is no workload at all, or has no name.
    """
    metadata = lenient_map(lenient_map(obj).get("metadata"))
    if not isinstance(metadata.get("name"), str):
        raise error
    kind = workload_kind(lenient_map(obj).get("kind"))
    bare = {name: metadata[name] for name in ("name", "namespace", "uid", "generation") if name in metadata}
    workload = Workload.from_object({"kind": kind, "metadata": bare, "spec": {}, "status": obj.get("status")})
    if metadata.get("deletionTimestamp"):
        return Plan()
    status = read_status(obj.get("status"))
    if status.terminal:
        return Plan(statuses=settled(workload))
    text = str(error)
    if status.child_uid and status.status not in ("", "ERROR"):
        # A child runs: it goes on, and the change is what is refused.
        applied = Condition("SpecApplied", "False", "InvalidSpec", text, workload.generation or None)
        return running.keep(workload, facts, applied)
    return refused(workload, facts, Refusal("InvalidSpec", text))
