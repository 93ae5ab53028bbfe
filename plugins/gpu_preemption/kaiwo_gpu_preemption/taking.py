"""Takes idle GPUs back: hands decisions over, and deletes what was decided about.

A workload of a foreign kind is deleted only after the decision is in the status of its GpuWorkload, so that a
process that stops between the two leaves work that the next one goes on with.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kaiwo.plugin.kit.api_errors import Conflict, EngineError, Forbidden, NotFound
from kaiwo.plugin.kit.controllers import RepeatedWrites, is_allowed
from kaiwo.plugin.kit.endings import Beneficiary, EndingDecision, EndingRecord, EndingVictim, ForeignVictim
from kaiwo.plugin.kit.values import format_time
from kaiwo.plugin.kit.workload import Condition
from kaiwo_gpu_preemption.assessment import PERMITTED
from kaiwo_gpu_preemption.kinds import CRON_JOB, GPU_WORKLOAD
from kaiwo_gpu_preemption.owners import KindNotServed
from kaiwo_gpu_preemption.policy import PREFIX
from kaiwo_gpu_preemption.tracked import NOTICE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kaiwo.plugin.kit.cache import CachedObject
    from kaiwo.plugin.kit.controllers import Manager
    from kaiwo.plugin.kit.kinds import Object, Resource
    from kaiwo_gpu_preemption.dependencies import Dependencies
    from kaiwo_gpu_preemption.owners import OwnerMetadata
    from kaiwo_gpu_preemption.tracked import Tracked

_log = logging.getLogger(__name__)

_ASKED_FOR: Final = 60.0  # seconds for which the answer about a right is kept
_GONE, _REFUSED = "gone", "refused"
REFUSED: Final = "it was decided to end the workload, and it cannot be deleted"
"""The beginning of the message about a workload that the operator may not delete."""


@dataclass(slots=True)
class _Right:
    allowed: bool
    at: float


class DeletionRights:
    """Tells which kinds the operator may delete, before anything is decided."""

    def __init__(self, manager: Manager, clock: Callable[[], float]) -> None:
        """Nothing is known yet.

        Args:
            manager: asks the API server.
            clock: monotonic seconds.
        """
        self._client = manager.client
        self._clock = clock
        self._known: dict[tuple[Resource, str], _Right] = {}

    async def may_delete(self, resource: Resource, namespace: str) -> bool:
        """Whether the operator may delete objects of a kind in a namespace.

        Raises:
            EngineError: that cannot be known now.
        """
        key = (resource, namespace)
        known = self._known.get(key)
        if known is not None and self._clock() - known.at < _ASKED_FOR:
            return known.allowed
        allowed = await is_allowed(self._client, "delete", resource, namespace)
        now = self._clock()
        # Namespaces come and go; nobody asks about those that are gone.
        self._known = {asked: right for asked, right in self._known.items() if now - right.at < _ASKED_FOR}
        self._known[key] = _Right(allowed, now)
        return allowed


class Taking:
    """Takes idle GPUs back."""

    def __init__(self, dependencies: Dependencies) -> None:
        """Set up."""
        self._with = dependencies
        self._rights = DeletionRights(dependencies.manager, dependencies.clock)
        self._refused = RepeatedWrites(dependencies.clock)  # by uid, decisions that were not recorded

    @property
    def busy(self) -> bool:
        """Whether a decision for a waiting workload is still being carried out."""
        return any(record.beneficiary is not None for record in self._with.endings.under_way.values())

    def is_postponed(self, tracked: Tracked) -> bool:
        """Whether a workload is left out for a while, since it could not be ended again and again.

        It would be the first choice for every workload that waits, and keep others from being ended.
        """
        return self._refused.pause(tracked.owner.uid, _REFUSED) > 0

    async def permission(self, tracked: Tracked) -> Condition | None:
        """The condition of a workload that the operator may not delete, None where it may.

        Raises:
            EngineError: that cannot be known now.
        """
        if tracked.is_kaiwo:
            return None
        resource = tracked.owner.resource
        if await self._rights.may_delete(resource, tracked.owner.namespace):
            return None
        return Condition(PERMITTED, "False", "Forbidden", denied_text(tracked.owner))

    def give_notice(self, tracked: Tracked, ends: str) -> Object:
        """Tell the owner of a workload that its GPUs will be taken back; the annotation that records it."""
        text = f"{idle_text(tracked)}; {ends}"
        owner = tracked.owner
        about = {
            "apiVersion": owner.resource.api_version,
            "kind": owner.resource.kind,
            "metadata": {"namespace": owner.namespace, "name": owner.name, "uid": owner.uid},
        }
        self._with.manager.event_recorder.event(about, "Warning", "GpuIdleNotice", text)
        return {"metadata": {"annotations": {NOTICE: format_time(self._with.now())}}}

    async def take(
        self, victims: Sequence[Tracked], beneficiary: Beneficiary | None, why: str
    ) -> tuple[list[str], str]:
        """Hand over one decision.

        Args:
            victims: who ends, together.
            beneficiary: for whom, None for nobody in particular.
            why: the rest of the evidence, one clause.

        Returns:
            The uids of those that are being ended now, and why others are left alone.
        """
        now = self._with.now()
        handed = tuple(self._victim(one, f"{idle_text(one)}; {why}", beneficiary) for one in victims)
        try:
            answer = await self._with.endings.decide(EndingDecision("Idle", handed, now, beneficiary))
        except EngineError as error:
            return [], str(error)
        for uid in answer.refused_uids:
            self._refused.record(uid, _REFUSED)
        ended = [victim.uid for victim in answer.ended]
        for one in victims:
            if one.owner.uid in ended:
                one.written = True
        if answer.refused:
            _log.info("idle GPUs are not taken back: %s", answer.refused)
        return ended, answer.refused

    def _victim(
        self, tracked: Tracked, evidence: str, beneficiary: Beneficiary | None
    ) -> EndingVictim | ForeignVictim:
        owner = tracked.owner
        kind, figures = owner.resource.kind, _figures(tracked)
        if kind in ("KaiwoJob", "KaiwoService") and tracked.is_kaiwo:
            live = self._with.manager.cache.get(owner.resource, owner.namespace, owner.name)
            return EndingVictim(
                "KaiwoJob" if kind == "KaiwoJob" else "KaiwoService",
                owner.namespace, owner.name, owner.uid, evidence,
                resource_version=live.resource_version if live is not None else "",
                figures=figures,
            )  # fmt: skip
        return ForeignVictim(
            kind, owner.namespace, owner.name, owner.uid, evidence,
            refusal=partial(self._refusal, tracked),
            keep=partial(self._keep, tracked, beneficiary),
            figures=figures,
        )  # fmt: skip

    async def _refusal(self, tracked: Tracked) -> str:
        """Why a workload is left alone by what the API server says now, empty to end it."""
        owner, entry = tracked.owner, tracked.entry
        if entry is None:
            return "has no GpuWorkload"
        try:
            live = await self._with.manager.client.get(GPU_WORKLOAD, entry.namespace, entry.name)
        except NotFound:
            return "has no GpuWorkload"
        if live["metadata"]["resourceVersion"] != entry.resource_version:
            return "has changed"
        found = await self._with.owners.fresh(owner.resource, owner.namespace, owner.name, owner.uid)
        if found is None or found.deleting:
            return "is gone"
        return "" if self._with.policy_of(found) == tracked.policy else "has other annotations now"

    async def _keep(self, tracked: Tracked, beneficiary: Beneficiary | None, record: EndingRecord) -> bool:
        """Write a decision into the status of a GpuWorkload; whether it is kept."""
        assert tracked.entry is not None  # noqa: S101  refused before
        status = preempting_status(record)
        written = await self._with.manager.writer.patch_status(tracked.entry, status)
        live = EndingRecord.read(written.live.readable_part("status", "decision"))
        if live is None or live.decision != record.decision:
            return False
        whom = f" for {beneficiary}" if beneficiary is not None else ""
        self._with.manager.event_recorder.event(
            tracked.entry, "Warning", "Preempting", f"{tracked} is ended{whom}: {record.evidence}"
        )
        return True

    async def carry_on(self, entry: CachedObject, owner: OwnerMetadata) -> str:
        """Delete the workload of a GpuWorkload whose status has the decision.

        It is deleted as it is now, in the foreground, if it may still be ended.

        Args:
            entry: the GpuWorkload.
            owner: its root owner, as far as the GpuWorkload names it.

        Returns:
            ``gone`` when it is, ``deleting``, ``withdrawn`` where it may not be ended now, else an error. It
            begins with `REFUSED` where the API server does not let the operator delete the workload.
        """
        record = EndingRecord.read(entry.readable_part("status", "decision"))
        if record is None or record.workload_uid != owner.uid:
            return "withdrawn"
        self._with.endings.resume(record)
        try:
            found = await self._with.owners.fresh(owner.resource, owner.namespace, owner.name, owner.uid)
            if found is None:
                return _GONE
            if found.deleting:
                return "deleting"
            policy = self._with.policy_of(found)
            if policy is None or policy.problems or policy.policy == "Report" or found.owner is not None:
                return "withdrawn"
            await self._with.manager.client.delete(
                owner.resource, owner.namespace, owner.name,
                uid=found.uid, resource_version=found.resource_version, propagation="Foreground",
            )  # fmt: skip
        except (NotFound, KindNotServed):
            return _GONE
        except Conflict:
            return "it changes at the moment"
        except Forbidden as error:
            return f"{REFUSED}: {error.stable_message}"
        _log.warning("%s %s/%s is deleted: %s", record.reason, owner.namespace, owner, record.summary)
        return "deleting"


def denied_text(owner: OwnerMetadata) -> str:
    """Why a workload is not ended that the operator may not delete, and what to do."""
    resource = owner.resource
    text = f"the operator has no right to delete {resource}, so {owner} is not ended"
    if resource == CRON_JOB:
        return (
            f"{text}. Its schedule would end with it: delete the Job of a run by hand, or annotate the "
            f"CronJob with {PREFIX}enabled=false"
        )
    return f"{text}; add the right to the operator's role"


def preempting_status(record: EndingRecord) -> Object:
    """The status of a GpuWorkload while a decision about its workload is carried out."""
    return {
        "phase": "Preempting",
        "preemptedAt": format_time(record.decided_at),
        "preemptedFor": str(record.beneficiary) if record.beneficiary is not None else None,
        "preemptionReason": f"{record.reason}: {record.evidence}",
        "decision": record.document(),
    }


def idle_text(tracked: Tracked) -> str:
    """What is known of idle GPUs, in words."""
    since = tracked.assessment.idle_since if tracked.assessment is not None else None
    gpus = ", ".join(f"{count} {key}" for key, count in sorted(tracked.gpus.items()))
    policy = tracked.policy
    at = f" since {format_time(since)}" if since is not None else ""
    return f"its GPUs ({gpus}) have been used less than {policy.threshold:g} % ({policy.aggregation}){at}"


def _figures(tracked: Tracked) -> dict[str, float]:
    found: dict[str, Any] = {
        "thresholdPercent": tracked.policy.threshold,
        "graceSeconds": tracked.policy.grace_period.total_seconds(),
        "gpusHeld": sum(tracked.gpus.values()),
    }
    if tracked.use is not None and tracked.use.percent is not None:
        found["percent"] = round(tracked.use.percent, 2)
    return found
