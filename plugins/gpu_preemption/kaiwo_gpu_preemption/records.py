"""Writes GpuWorkloads, goes on with what was decided, and keeps the records of workloads that are gone."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from kaiwo.plugin.kit.api_errors import AlreadyExists, Conflict, EngineError
from kaiwo.plugin.kit.endings import EndingRecord
from kaiwo.plugin.kit.json_access import lenient_map, lenient_maps, lenient_text
from kaiwo.plugin.kit.values import format_time
from kaiwo.plugin.kit.workload import Condition, merge_conditions
from kaiwo_gpu_preemption.assessment import OWN_CONDITIONS, PERMITTED, expired, status_change
from kaiwo_gpu_preemption.kinds import GPU_WORKLOAD, KAIWO_ROOTS, kind_of_owner
from kaiwo_gpu_preemption.owners import KindNotServed, OwnerMetadata
from kaiwo_gpu_preemption.policy import Defaults, tracking_policy
from kaiwo_gpu_preemption.taking import REFUSED, preempting_status
from kaiwo_gpu_preemption.tracked import new_gpu_workload, refreshed, spec_patch, wanted_spec

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kaiwo.plugin.kit.cache import CachedObject
    from kaiwo.plugin.kit.kinds import Object
    from kaiwo_gpu_preemption.dependencies import Dependencies
    from kaiwo_gpu_preemption.taking import Taking
    from kaiwo_gpu_preemption.tracked import Tracked

_log = logging.getLogger(__name__)

_PASSES_REMEMBERED = 100
"""Passes after which a warning that did not come up again is forgotten."""


class Records:
    """The GpuWorkloads of one process."""

    def __init__(self, dependencies: Dependencies, taking: Taking) -> None:
        """Set up.

        Args:
            dependencies: what it works with.
            taking: deletes what was decided about.
        """
        self._with = dependencies
        self._taking = taking
        self._written: dict[str, float] = {}
        self._passes = 0
        self._logged: dict[str, int] = {}  # warnings, to the pass in which each came up last

    def end_pass(self, uids: Collection[str]) -> None:
        """Forget what is known of other workloads, and warnings that have not come up for a while."""
        self._written = {uid: at for uid, at in self._written.items() if uid in uids}
        self._passes += 1
        self._logged = {
            text: last for text, last in self._logged.items() if self._passes - last < _PASSES_REMEMBERED
        }

    async def write(self, one: Tracked, interval: float) -> None:
        """Create or update a GpuWorkload: at most one status in an interval."""
        manager = self._with.manager
        try:
            if one.entry is None:
                live = await manager.client.create(GPU_WORKLOAD, new_gpu_workload(one), field_manager="kaiwo")
                manager.cache.assume(GPU_WORKLOAD, live)
                one.entry = manager.cache.get(
                    GPU_WORKLOAD, live["metadata"]["namespace"], live["metadata"]["name"]
                )
            else:
                before = lenient_map(one.entry.readable_part("spec"))
                wanted = wanted_spec(one, before)
                if before != wanted:
                    await manager.writer.patch(one.entry, {"spec": spec_patch(before, wanted)})
                    refreshed(manager.cache, one)
            if one.entry is not None and not one.written:
                await self._write_status(one, one.entry, interval)
        except (AlreadyExists, Conflict) as error:
            _log.debug("%s: %s", one, error)  # the next pass decides from what it is now
        except EngineError as error:
            self.log_once(f"the GpuWorkload of {one} cannot be written: {error.stable_message}")

    async def _write_status(self, one: Tracked, entry: CachedObject, interval: float) -> None:
        assert one.assessment is not None  # noqa: S101  each is assessed
        conditions = (*one.assessment.conditions, *one.conditions)
        assessment = replace(one.assessment, conditions=conditions)
        change = status_change(one.status, assessment, one.use, self._with.now(), chain=one.root.chain)
        clock, uid = self._with.clock(), one.owner.uid
        if not change or clock - self._written.get(uid, -interval) < interval * 0.9:
            return
        self._written[uid] = clock
        await self._with.manager.writer.patch_status(entry, change, own_conditions=OWN_CONDITIONS)

    async def carry_on(self, known: Mapping[str, CachedObject], found: Mapping[str, Tracked]) -> set[str]:
        """Go on with decisions that were recorded; the uids of these workloads."""
        ongoing: set[str] = set()
        for uid, entry in known.items():
            owner = self._owner_named_by(entry)
            if owner is None:
                continue
            if owner.resource in KAIWO_ROOTS:
                if record := self._kaiwo_record(owner):
                    ongoing.add(uid)
                    await self._follow_kaiwo(entry, owner, record, found)
                continue
            if entry.readable_part("status", "phase") != "Preempting":
                continue
            ongoing.add(uid)
            try:
                answer = await self._taking.carry_on(entry, owner)
                await self._carried(entry, uid, answer, pods=uid in found)
            except EngineError as error:
                self.log_once(f"GpuWorkload {entry.namespace}/{entry.name}: {error.stable_message}")
        return ongoing

    async def _carried(self, entry: CachedObject, uid: str, answer: str, *, pods: bool) -> None:
        now = format_time(self._with.now())
        if said := self._permission(entry, answer if answer.startswith(REFUSED) else ""):
            await self._with.manager.writer.patch_status(entry, said, own_conditions=OWN_CONDITIONS)
        elif answer == "gone" and not pods:
            self._with.endings.settle(uid)
            change: Object = {"phase": "Preempted", "finishedAt": now, "idleSince": None}
            await self._with.manager.writer.patch_status(entry, change)
        elif answer == "withdrawn":
            self._with.endings.settle(uid)
            names = ("preemptedAt", "preemptedFor", "preemptionReason", "decision", "idleSince")
            change = {"phase": "Active", **dict.fromkeys(names)}
            await self._with.manager.writer.patch_status(entry, change)
        elif answer not in ("gone", "deleting"):
            self.log_once(f"{entry}: {answer}")

    def _permission(self, entry: CachedObject, refusal: str) -> Object:
        """The conditions with why a workload cannot be deleted, or without; empty without a change."""
        live = lenient_maps(entry.readable_part("status", "conditions"))
        own = [Condition(PERMITTED, "False", "Forbidden", refusal)] if refusal else []
        conditions = merge_conditions(live, own, self._with.now(), drop=() if own else (PERMITTED,))
        return {"conditions": conditions} if conditions != live else {}

    def _kaiwo_record(self, owner: OwnerMetadata) -> EndingRecord | None:
        live = self._with.manager.cache.get(owner.resource, owner.namespace, owner.name)
        if live is None or live.uid != owner.uid:
            return None
        if live.readable_part("status", "status") not in ("TERMINATING", "TERMINATED"):
            return None
        record = EndingRecord.read(live.readable_part("status", "termination"))
        return record if record is not None and record.workload_uid == owner.uid else None

    async def _follow_kaiwo(
        self, entry: CachedObject, owner: OwnerMetadata, record: EndingRecord, found: Mapping[str, Tracked]
    ) -> None:
        """Say in a GpuWorkload what the status of its KaiwoJob or KaiwoService says."""
        live = self._with.manager.cache.get(owner.resource, owner.namespace, owner.name)
        over = live is not None and live.readable_part("status", "status") == "TERMINATED"
        status = lenient_map(entry.readable_part("status"))
        change = preempting_status(record)
        if over and owner.uid not in found:
            finished = status.get("finishedAt") or format_time(self._with.now())
            change |= {"phase": "Preempted", "finishedAt": finished, "idleSince": None}
        try:
            await self._with.manager.writer.patch_status(entry, change)
            await self._expire(entry)
        except EngineError as error:
            _log.debug("%s: %s", entry, error)

    def _owner_named_by(self, entry: CachedObject) -> OwnerMetadata | None:
        reference = lenient_map(entry.readable_part("spec", "workloadRef"))
        names = [lenient_text(reference.get(part)) for part in ("apiVersion", "kind", "name", "uid")]
        resource = kind_of_owner(names[0], names[1])
        if resource is None or not names[2] or not names[3]:
            return None
        return OwnerMetadata(resource, entry.namespace, names[2], names[3], "", {}, None)

    async def finish(self, uid: str, entry: CachedObject) -> None:
        """Keep the record of a workload whose pods are gone, until its time is over."""
        owner = self._owner_named_by(entry)
        status = lenient_map(entry.readable_part("status"))
        try:
            if owner is not None and status.get("phase") not in ("Preempted", "Deleted"):
                try:
                    live = await self._with.owners.known(owner.resource, owner.namespace, owner.name, uid)
                    is_gone = live is None
                except KindNotServed:
                    live, is_gone = None, False  # it may be served again
                if live is not None and self._with.policy_of(live) is None:
                    await self._delete(entry)
                    return
                change: Object = {
                    "phase": "Deleted" if is_gone else "PendingOther",
                    "finishedAt": status.get("finishedAt") or format_time(self._with.now()),
                    "idleSince": None,
                }
                await self._with.manager.writer.patch_status(entry, change)
            await self._expire(entry)
        except EngineError as error:
            _log.debug("%s: %s", entry, error)  # the next pass does it

    async def _expire(self, entry: CachedObject) -> None:
        policy = tracking_policy(
            {"ttl": lenient_text(entry.readable_part("spec", "ttlAfterFinished"))}, {}, Defaults()
        )
        if policy is not None and expired(
            lenient_map(entry.readable_part("status")), policy.ttl, self._with.now()
        ):
            await self._delete(entry)

    async def _delete(self, entry: CachedObject) -> None:
        await self._with.manager.writer.delete(entry)

    def log_once(self, text: str) -> None:
        """Log a warning, unless it came up in one of the last passes; it may come up in each one."""
        if text not in self._logged:
            _log.warning("%s", text)
        self._logged[text] = self._passes
