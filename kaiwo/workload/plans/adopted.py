"""A workload that was made for an object of a user's: it is observed, and nothing of it is written.

The object is never compared with a render: it is as its user wrote it. Without the object there is nothing to
do, since the workload is deleted with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.api.conditions import Condition
from kaiwo.plugin.facts import Blocked
from kaiwo.plugin.observation import Outcome
from kaiwo.workload.adoption import allocation_of
from kaiwo.workload.json_access import is_blank, lenient_map, name_of
from kaiwo.workload.labels import ADOPTED
from kaiwo.workload.metadata import controller_of
from kaiwo.workload.model import Plan

if TYPE_CHECKING:
    from kaiwo.plugin.facts import Allocation
    from kaiwo.workload.model import PlanContext

CONDITION = "Adopted"

ADOPTION_TIMEOUT = 2.0
"""Seconds in which a new workload usually becomes the owner of its object; it gets no status before."""


def plan_unowned(case: PlanContext) -> Plan | Blocked:
    """The plan while the object is not the workload's: it is adopted in a moment, gone, or never was."""
    workload, live = case.workload, case.facts.live
    if workload.status.child_uid:
        return Plan()  # it is deleted in a moment
    uid = lenient_map(lenient_map(live).get("metadata")).get("uid")
    left = ADOPTION_TIMEOUT - (case.facts.now - workload.created).total_seconds()
    what = f"{case.backend.child.kind} {workload.name}"
    adopting = Outcome("PENDING", "Adopting", f"{what} is being adopted")
    if left > 0:
        return Plan(adopting, status_delay=min(left, ADOPTION_TIMEOUT))
    if live is not None and uid == workload.labels.get(ADOPTED) and controller_of(live) is None:
        return Plan(adopting)
    return Blocked(
        "NotAdopted",
        f"label {ADOPTED} names a {case.backend.child.kind} that Kaiwo did not adopt for this "
        f"{workload.kind}; nothing is created for it. Delete it and create it without the label",
    )


def conditions(case: PlanContext) -> tuple[Condition, Condition]:
    """Adopted, and SpecApplied: a changed spec changes nothing."""
    workload, child = case.workload, case.backend.child.kind
    generation, block = workload.generation or None, case.backend.block
    what = f"{child} {name_of(case.facts.live or {}) or workload.name}"
    copy = f"spec.{block} is a copy of it"
    if is_blank(workload.blocks.get(block)):
        copy = f"spec.{block} has no copy of it, which is too large or not allowed in a {workload.kind}"
    text = f"{what} was adopted and runs as written; {copy}"
    adopted = Condition("Adopted", "True", "Adopted", text, generation)
    if workload.generation <= 1:
        return adopted, Condition("SpecApplied", "True", "Adopted", "", generation)
    text = (
        f"spec was changed; changes are not applied to an adopted {child}. Edit the {child} itself, or "
        f"delete the {workload.kind} and submit one of your own"
    )
    return adopted, Condition("SpecApplied", "False", "NotApplied", text, generation)


def deleting(case: PlanContext) -> Outcome:
    """The outcome while the object is being deleted."""
    recorded = case.workload.status
    what = f"{case.backend.child.kind} {case.workload.name}"
    text = f"{what} is being deleted, and its {case.workload.kind} with it"
    return Outcome(recorded.status or "PENDING", "ChildDeleting", text)


def allocation(case: PlanContext) -> Allocation | None:
    """The split of GPUs as the object's pod template requests them."""
    if case.backend.adoption is None:
        return None
    return allocation_of(case.facts.live or {}, case.backend.adoption, case.registry.vendors)
