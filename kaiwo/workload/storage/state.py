"""The state of a workload's claims: bound, waiting for the first pod, or pending, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.api.conditions import Condition
from kaiwo.engine.resource import PERSISTENT_VOLUME_CLAIM
from kaiwo.plugin.observation import Outcome
from kaiwo.workload.storage.claim_state import ClaimState, claim_state
from kaiwo.workload.storage.volumes import volumes

if TYPE_CHECKING:
    from kaiwo.api.workload import Workload
    from kaiwo.plugin.rendering import Resolved
    from kaiwo.workload.model import Facts


def volume_outcome(workload: Workload, resolved: Resolved, facts: Facts) -> Outcome | None:
    """The state of a workload's volumes, None without volumes; the condition StorageReady has it as well.

    Pending only while a volume is missing for another reason than that no pod uses it yet.
    """
    found = [_claim(volume.claim, facts) for volume in volumes(workload, resolved)]
    if not found:
        return None
    by = {claim.state: [one.text for one in found if one.state == claim.state] for claim in found}
    generation = workload.generation or None
    if "missing" in by:
        condition = Condition("StorageReady", "False", "VolumeMissing", "; ".join(by["missing"]), generation)
    elif "pending" in by:
        condition = Condition("StorageReady", "False", "VolumePending", "; ".join(by["pending"]), generation)
    elif "waits" in by:
        text = "; ".join(by["waits"])
        condition = Condition("StorageReady", "Unknown", "WaitForFirstConsumer", text, generation)
    elif "expanding" in by:
        text = "; ".join(by["expanding"])
        condition = Condition("StorageReady", "True", "VolumeExpanding", text, generation)
    else:
        condition = Condition("StorageReady", "True", "Bound", "all volumes are bound", generation)
    delays = [claim.requeue_after for claim in found if claim.requeue_after is not None]
    return Outcome(
        "PENDING" if condition.status == "False" else "",
        condition.reason,
        condition.message,
        requeue_after=min(delays, default=None),
        needs_events=next((claim.needs_events for claim in found if claim.needs_events is not None), None),
        conditions=(condition,),
    )


def is_new(volumes: Outcome) -> bool:
    """Whether the volumes are only pending because their claims were created a moment ago."""
    return volumes.reason == "VolumePending" and volumes.needs_events is None


def _claim(name: str, facts: Facts) -> ClaimState:
    claim = facts.auxiliaries.get((PERSISTENT_VOLUME_CLAIM, name))
    return claim_state(name, claim, facts.storage_classes, facts.warning_event_of(claim), facts.now)
