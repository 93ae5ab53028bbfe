"""Gives notice, and decides whose idle GPUs are taken back."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from kaiwo.plugin.kit.api_errors import EngineError, Forbidden
from kaiwo.plugin.kit.json_access import lenient_maps
from kaiwo.plugin.kit.kinds import NODE, POD
from kaiwo.plugin.kit.values import format_time, parse_time
from kaiwo.plugin.kit.workload import Condition, find_condition
from kaiwo_gpu_preemption.assessment import DECIDED, PERMITTED
from kaiwo_gpu_preemption.pods import pod_facts
from kaiwo_gpu_preemption.policy import duration_text
from kaiwo_gpu_preemption.pressure import NO_FIT, Rooms, pressure_of, victims_for
from kaiwo_gpu_preemption.tracked import refreshed

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from kaiwo.plugin.controllers import ControllerHost
    from kaiwo.plugin.queue_relief import QueueRelief
    from kaiwo_gpu_preemption.pods import GpuPodFacts
    from kaiwo_gpu_preemption.pressure import Pressure
    from kaiwo_gpu_preemption.quota_pressure import QuotaPressure
    from kaiwo_gpu_preemption.taking import Taking
    from kaiwo_gpu_preemption.tracked import Tracked

_log = logging.getLogger(__name__)

MOST_ENDED: Final = 20
"""Workloads with policy Always that are ended in one pass."""

MOST_WAITING: Final = 50
"""Waiting workloads that a decision is looked for in one pass, those that wait the longest first. Where there
are more, the next pass goes on behind them."""

MOST_ORDERS: Final = 3
"""Workloads in one pass for which the order of their queue is read: all that the queue system holds. Each of
those that wait has its turn, the one that had it the longest ago first."""

_OTHERS: Final = 10.0  # seconds for which pods of namespaces that are not watched are kept


class Decisions:
    """Looks for decisions in one pass after the other."""

    def __init__(
        self,
        host: ControllerHost,
        taking: Taking,
        own_pods: Callable[[], list[GpuPodFacts]],
        gpu_keys: tuple[str, ...],
        quota: QuotaPressure,
        *,
        clock: Callable[[], float],
        now: Callable[[], datetime],
    ) -> None:
        """Set up.

        Args:
            host: the operator around it.
            taking: takes GPUs back.
            own_pods: pods with GPUs of the namespaces that are watched.
            gpu_keys: resource keys of the loaded vendors.
            quota: what the queue would give.
            clock: monotonic seconds.
            now: the time.
        """
        self._host = host
        self._taking = taking
        self._own_pods = own_pods
        self._keys = gpu_keys
        self._quota = quota
        self._clock, self._now = clock, now
        self._others: tuple[float, list[GpuPodFacts] | None] | None = None
        self._blind = False  # whether the last scrape says nothing of GPUs that were idle before
        self._passed = 0  # waiting workloads that earlier passes have looked at
        self._turns: dict[str, float] = {}  # when the order of the queue was read for a workload, by uid

    async def decide(self, found: list[Tracked]) -> None:
        """Give notice, and take decisions: those of policy Always, and one for a workload that waits.

        Args:
            found: workloads that are tracked, without those that are being ended.
        """
        self._blind = any(map(_has_no_figure, found))
        known = [one for one in found if one.entry is not None and not one.root.unreadable]
        ready = [one for one in known if await self._is_ready(one) and not self._taking.is_postponed(one)]
        ready.sort(key=lambda one: (one.due_since or self._now(), str(one)))
        always = [one for one in ready if one.policy.policy == "Always"]
        for one in always[:MOST_ENDED]:
            why = f"its policy is Always, after {duration_text(one.policy.grace_period)}"
            await self._taking.take([one], None, why)
        await self._relieve(found, [one for one in ready if not one.written])

    async def _is_ready(self, one: Tracked) -> bool:
        """Give notice where it is time for that; whether the GPUs may be taken back now."""
        timing = one.timing
        if _has_no_figure(one):
            _keep_condition(one, PERMITTED, DECIDED)
            return False
        if timing is None or not (timing.due or timing.notice_due):
            return False
        try:
            denied = await self._taking.permission(one)
        except EngineError as error:
            _log.warning("whether %s may be deleted cannot be known: %s", one, error)
            _keep_condition(one, PERMITTED, DECIDED)
            return False
        if denied is not None:
            one.conditions.append(denied)
            return False
        if timing.notice_due:
            await self._notify(one)
        if timing.due and one.policy.policy == "Report":
            text = "it would be ended now; nothing is done, its policy is Report"
            one.conditions.append(Condition(DECIDED, "False", "ReportOnly", text))
            return False
        return timing.due and not timing.notice_due

    async def _notify(self, one: Tracked) -> None:
        """Give notice at half of the grace period, once for each idle time."""
        assert one.entry is not None  # noqa: S101  asked before
        grace = duration_text(one.policy.grace_period)
        ends = {
            "Always": f"it is ended after {grace} unless they are used",
            "OnPressure": f"after {grace} it may be ended for a workload that waits for GPUs",
            "Report": f"after {grace} its status says so; nothing is done",
        }[one.policy.policy]
        if parse_time(one.status.get("idleSince")) is None:
            return  # the status is written first, so that the notice is of this idle time
        patch = self._taking.give_notice(one, ends)
        try:
            await self._host.manager.writer.patch(one.entry, patch)
        except EngineError as error:
            _log.warning("%s cannot be written: %s", one.entry, error)
        refreshed(self._host.manager.cache, one)

    async def _relieve(self, found: list[Tracked], ready: list[Tracked]) -> None:
        """Take one decision for the workload that has waited the longest and that it helps."""
        waiting = [
            pressure
            for one in found
            if one.assessment is not None and one.assessment.phase == "PendingGpu"
            if (pressure := pressure_of(one)) is not None
        ]
        if not waiting:
            return
        waiting.sort(key=lambda one: (one.demand.since, str(one.tracked)))
        if len(waiting) > MOST_WAITING:
            start = self._passed % len(waiting)
            self._passed = start + MOST_WAITING
            waiting = waiting[start:] + waiting[:start]
        for one in waiting[MOST_WAITING:]:
            _keep_condition(one.tracked)
        uids = [one.tracked.owner.uid for one in waiting]
        del waiting[MOST_WAITING:]
        self._turns = {uid: self._turns[uid] for uid in uids if uid in self._turns}
        waiting.sort(key=lambda one: self._turns.get(one.tracked.owner.uid, 0.0))
        pods = await self._pods_or_why_not(waiting, ready)
        if pods is None:
            return
        nodes = [node.readable() for node in self._host.manager.cache.list(NODE)]
        rooms = Rooms(nodes, pods, self._host.vendors)
        reliefs = self._quota.reliefs(waiting, ready)
        taken, orders = self._taking.busy, 0
        for one in waiting:
            relief = reliefs.get(one.tracked.owner.uid)
            if relief is None and one.demand.cause == "quota":
                self._says(one.tracked, "QueueHolds")
                continue
            left = [other for other in ready if not other.written]
            places = rooms.of(one.place, one.demand.resource_key)
            victims, why = victims_for(one.demand, left, places, relief)
            if not victims:
                self._says(one.tracked, why)
            elif taken or one.tracked.entry is None or orders == MOST_ORDERS:  # one decision at a time
                _keep_condition(one.tracked)
            elif relief is not None and self._is_behind(one, relief, victims):
                orders += 1
                self._says(one.tracked, "OthersFirst")
            else:
                taken = await self._take(one, victims, relief)

    async def _pods_or_why_not(
        self, waiting: list[Pressure], ready: list[Tracked]
    ) -> list[GpuPodFacts] | None:
        """All pods with GPUs; None where no decision can be taken, which those that wait are told."""
        try:
            pods = await self._all_pods() if ready else None
        except EngineError as error:
            _log.warning("what GPUs are free cannot be known: %s", error)
            for one in waiting:
                _keep_condition(one.tracked)
            return None
        if pods is None:
            for one in waiting:
                self._says(one.tracked, "OtherNamespaces" if ready else "NoCandidates")
        return pods

    def _is_behind(self, one: Pressure, relief: QueueRelief, victims: list[Tracked]) -> bool:
        """Whether the queue would give what becomes free to another one."""
        self._turns[one.tracked.owner.uid] = self._clock()
        return self._quota.served_before(one, relief, victims)

    async def _take(self, one: Pressure, victims: list[Tracked], relief: QueueRelief | None) -> bool:
        """Take a decision for a workload that waits; whether it is taken."""
        demand, tracked = one.demand, one.tracked
        if relief is not None and not await self._still_held(one):
            return False
        where = f" in queue {relief.queue}" if relief is not None else ""
        ended, refused = await self._taking.take(
            victims, demand.workload,
            f"{demand.workload} waits{where} for {demand.gpus} {demand.resource_key} since "
            f"{format_time(demand.since)}",
        )  # fmt: skip
        if not ended:
            _log.info("nobody is ended for %s: %s", tracked, refused)
            return False
        names = ", ".join(str(victim) for victim in victims if victim.owner.uid in ended)
        text = f"{names} ended for it: GPUs were idle; decided at {format_time(self._now())}"
        tracked.conditions.append(Condition(DECIDED, "True", "VictimsChosen", text))
        return True

    async def _still_held(self, one: Pressure) -> bool:
        try:
            return await self._quota.unchanged(one)
        except EngineError as error:
            _log.warning("whether %s still waits cannot be known: %s", one.tracked, error)
            return False

    async def _all_pods(self) -> list[GpuPodFacts] | None:
        """All pods with GPUs, of any namespace; None where the operator may not read them.

        Raises:
            EngineError: they cannot be read now.
        """
        if not self._host.namespaces:
            return self._own_pods()
        if self._others is not None and self._clock() - self._others[0] < _OTHERS:
            return self._others[1]
        found: list[GpuPodFacts] | None = []
        try:
            async for pod in self._host.manager.client.list(POD):
                facts = pod_facts(pod, self._keys)
                if facts is not None and found is not None:
                    found.append(facts)
        except Forbidden:
            found = None
        self._others = (self._clock(), found)
        return found

    def _says(self, one: Tracked, why: str) -> None:
        if self._blind and why in ("NoCandidates", "WouldNotHelp"):
            _keep_condition(one)
            return  # the next scrape may find somebody
        before = _recorded(one, DECIDED)
        if before is not None and before.status == "True" and why in ("NotNeeded", "NoCandidates"):
            one.conditions.append(before)
            return  # what was decided for it becomes free at the moment
        one.conditions.append(Condition(DECIDED, "False", why, NO_FIT[why]))


def _has_no_figure(one: Tracked) -> bool:
    """Whether the GPUs of a workload are idle by an earlier scrape, and the last one does not say."""
    return one.assessment is not None and one.assessment.phase == "Idle" and not one.assessment.current


def _recorded(one: Tracked, condition: str) -> Condition | None:
    """A condition of a workload as it was written last."""
    found = find_condition(lenient_maps(one.status.get("conditions")), condition)
    if found is None:
        return None
    return Condition(condition, found["status"], found["reason"], found["message"])


def _keep_condition(one: Tracked, *conditions: str) -> None:
    """Say of a workload what was said before, by default of a decision: nothing new is known."""
    for condition in conditions or (DECIDED,):
        if (before := _recorded(one, condition)) is not None:
            one.conditions.append(before)
