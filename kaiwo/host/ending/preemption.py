"""Ends workloads past their duration for others that wait for GPUs: when to decide, and the last checks.

Nothing is polled. A decision is looked for when somebody begins to wait or passes a duration, and at the
moment when somebody has waited for long enough.
"""

from __future__ import annotations

import asyncio
import logging
import time
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING

from kaiwo.api.conditions import Condition, find_condition, merge_conditions
from kaiwo.api.crds import KAIWO_CONFIG, WORKLOADS, workload_kind
from kaiwo.engine.errors import Conflict, EngineError, Forbidden
from kaiwo.engine.repeated_writes import RepeatedWrites
from kaiwo.engine.resource import NODE, POD
from kaiwo.engine.timestamps import format_time
from kaiwo.host.ending.gpu_facts import GpuFacts, cached_workload
from kaiwo.host.ending.gpu_index import GpuIndex
from kaiwo.host.ending.pod_gpus import HeldGpus, used_on
from kaiwo.host.ending.quota_reliefs import all_known
from kaiwo.workload.ending.decision import EndingDecision, EndingVictim
from kaiwo.workload.ending.preemption import Choice, anywhere, choose
from kaiwo.workload.json_access import lenient_maps

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kaiwo.api.resolved_config import ResolvedConfig
    from kaiwo.engine.cached_object import CachedObject
    from kaiwo.engine.manager import Manager
    from kaiwo.host.cluster_facts import ClusterFacts
    from kaiwo.host.ending.endings import Endings
    from kaiwo.host.ending.quota_reliefs import QuotaReliefs
    from kaiwo.host.workload.ownership import PodOwners
    from kaiwo.plugin.queue_relief import QueueRelief
    from kaiwo.workload.ending.preemption import GpuDemand, GpuHolder, NoChoice
    from kaiwo.workload.ending.record import EndingAction, WorkloadIdentity

_log = logging.getLogger(__name__)

GATHER_SECONDS = 1.0
"""Seconds in which changes are gathered before a decision is looked for."""

RETRY_SECONDS = 5.0
"""Seconds until the next look while a decision is carried out, or after something changed meanwhile."""

BACKSTOP_SECONDS = 60.0
"""Most seconds until the next look while somebody waits in vain and others are past their duration: quotas,
nodes and pods change without an event for this index. The first look comes after `RETRY_SECONDS`, since quota
is given back a moment after its holder has ended; each further one after twice as long."""

LONGEST_TIMER = 300.0
"""Seconds; a clock that is set back would else put a timer off by as much."""

MOST_DEMANDS = 50
"""Waiting workloads that are looked at for one decision, those that wait the longest first. Where none of
them can be helped, the next ones follow."""

CONDITION = "PreemptionDecided"
"""The condition of the workload that others are ended for."""

_LONG_AGO = datetime.min.replace(tzinfo=UTC)
_TRIES = 3
_CONFLICT_SECONDS = 0.2
_MAX_EVENT = 1000
_REFUSED, _CHANGED = "refused", "changed"


class Preemption:
    """Looks for decisions while this process leads."""

    def __init__(
        self,
        manager: Manager,
        quota: QuotaReliefs,
        endings: Endings,
        *,
        cluster: ClusterFacts,
        owners: PodOwners,
        config: Callable[[], ResolvedConfig],
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Set up; workloads must be watched already.

        Args:
            manager: reads, and records Events.
            quota: what the queue system says.
            endings: takes decisions.
            cluster: the nodes.
            owners: the controllers between pods and children.
            config: the configuration in force.
            clock: monotonic seconds.
            now: the time, UTC.
        """
        self._manager = manager
        self._quota = quota
        self._endings = endings
        self._cluster = cluster
        self._owners = owners
        self._config = config
        self._now = now
        self._held = HeldGpus(manager.cache)
        self._index = GpuIndex(manager.cache, self.changed)
        # By uid, victims that could not be ended, and workloads that had changed when a decision was due for
        # them: every decision would begin with the same one again.
        self._refused = RepeatedWrites(clock)
        self._requeue = asyncio.Event()
        self._passed = 0  # waiting workloads that were looked at in vain, in this round
        self._vain_wait = RETRY_SECONDS
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to look for decisions."""
        self._task = asyncio.create_task(self._run(), name="preemption")

    async def close(self) -> None:
        """Stop."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def changed(self) -> None:
        """Look for a decision in a moment: a workload, or the configuration, changed."""
        self._vain_wait = RETRY_SECONDS
        self._requeue.set()

    async def _run(self) -> None:
        wait: float | None = None
        while True:
            try:
                await asyncio.wait_for(self._requeue.wait(), wait)
                await asyncio.sleep(GATHER_SECONDS)
            except TimeoutError:
                pass
            self._requeue.clear()
            try:
                wait = await self.decide()
            except EngineError as error:
                _log.warning("preemption: %s", error)
                wait = RETRY_SECONDS
            except Exception:  # noqa: BLE001  (a plugin's code may raise anything)
                _log.exception("preemption failed")
                wait = BACKSTOP_SECONDS

    async def decide(self) -> float | None:
        """Look for one decision and take it.

        Returns:
            Seconds after which to look again without a change, None for never.
        """
        config = self._config()
        if config.preemption == "Disabled" or not self._index.waiting or not self._index.overdue:
            return None
        if not self._manager.leading or not self._synced():
            return RETRY_SECONDS
        now, threshold = self._now(), config.pending_threshold_for_preemption
        facts = self._facts()
        longest = sorted(
            self._index.waiting.values(), key=lambda item: (item.queued_since or _LONG_AGO, item.uid)
        )
        start = self._passed if self._passed < len(longest) else 0
        end, self._passed = start + MOST_DEMANDS, 0
        others = end if end < len(longest) else 0
        found = [facts.demand(waiting) for waiting in longest[start:end]]
        demands = sorted(
            (demand for demand in found if demand is not None),
            key=lambda demand: (demand.since, str(demand.workload)),
        )
        if not any(demand.since + threshold <= now for demand in demands):
            if others:
                self._passed = others
                return RETRY_SECONDS
            left = [(demand.since + threshold - now) / timedelta(seconds=1) for demand in demands]
            # Pods that lack something else now may lack GPUs later, which is no change of the index.
            timer = BACKSTOP_SECONDS if start else LONGEST_TIMER
            return min((*left, timer)) if left else self._next_vain_wait()
        holders, protected = self._holders(facts, now, config.preemption_protection)
        if not holders:
            return protected
        if any(record.beneficiary is not None for record in self._endings.under_way.values()):
            return RETRY_SECONDS
        wait = await self._serve(facts, demands, holders)
        if wait is None:
            self._passed = others
            wait = RETRY_SECONDS if others else self._next_vain_wait()
            return wait if protected is None else min(protected, wait)
        return wait

    def _next_vain_wait(self) -> float:
        """Seconds until the next look after one that helped nobody; twice as long each time."""
        wait, self._vain_wait = self._vain_wait, min(2 * self._vain_wait, BACKSTOP_SECONDS)
        return wait

    async def _serve(
        self, facts: GpuFacts, demands: list[GpuDemand], holders: list[GpuHolder]
    ) -> float | None:
        """Take a decision for the first demand that it helps; None where there is no such."""
        latest = self._now() - self._config().pending_threshold_for_preemption
        reserved: set[str] = set()
        for demand, relief in self._in_order(facts, demands, holders):
            if relief is not None and relief.queue in reserved:
                continue
            if self._refused.pause(demand.workload.uid, _CHANGED) > 0:
                continue
            if demand.since > latest:
                # What becomes free would be given to this one, which is before the others in its queue.
                if relief is not None and isinstance(_chosen(facts, demand, relief, holders), Choice):
                    reserved |= relief.sharing
                continue
            choice = await self._choice(facts, demand, relief, holders)
            if choice is not None:
                return await self._take(demand, choice, relief)
        return None

    def _synced(self) -> bool:
        """Whether all that counts is in the cache."""
        needed = (POD, NODE, KAIWO_CONFIG, *WORKLOADS.values())
        return all_known(self._manager, needed) and self._quota.synced

    def _facts(self) -> GpuFacts:
        return GpuFacts(self._manager.cache, self._cluster.nodes, self._quota, self._owners, self._held)

    def _holders(
        self, facts: GpuFacts, now: datetime, protection: timedelta
    ) -> tuple[list[GpuHolder], float | None]:
        """Who may be ended now, and seconds until somebody else may."""
        holders, waits = [], []
        for resource, namespace, name in self._index.overdue.values():
            entry = self._manager.cache.get(resource, namespace, name)
            read = facts.holder(entry) if entry is not None else None
            if read is None:
                continue
            holder, start = read
            left = (max(holder.deadline, start + protection) - now) / timedelta(seconds=1)
            left = max(left, self._refused.pause(holder.uid, _REFUSED))
            if left <= 0:
                holders.append(holder)
            else:
                waits.append(left)
        return holders, min(waits, default=None)

    def _in_order(
        self, facts: GpuFacts, due: list[GpuDemand], holders: list[GpuHolder]
    ) -> list[tuple[GpuDemand, QueueRelief | None]]:
        """The demands with what the queue says of each, in the order in which the queue serves them.

        One that the queue would not serve, whoever ends, is left out.
        """
        reliefs = facts.reliefs(due, holders)
        answers: list[tuple[GpuDemand, QueueRelief | None]] = []
        for demand in due:
            relief = reliefs.get(demand.workload.uid)
            if relief is not None or (demand.cause == "nodes" and not facts.queue_objects(demand.workload)):
                answers.append((demand, relief))
        return sorted(
            answers,
            key=lambda item: (
                -item[1].priority if item[1] is not None else 0,
                (item[1].queued_at if item[1] is not None else None) or item[0].since,
                str(item[0].workload),
            ),
        )

    async def _choice(
        self,
        facts: GpuFacts,
        demand: GpuDemand,
        relief: QueueRelief | None,
        holders: list[GpuHolder],
    ) -> Choice | None:
        """Whom to end for a demand, checked against what the API server says of the nodes now.

        Pods of others hold GPUs, too, and are not in the cache: the nodes of a choice are read before it is
        taken, and it is made again where anything else was found.
        """
        known: dict[str, int] = {}
        for _ in range(_TRIES):
            choice = _chosen(facts, demand, relief, holders, known)
            if not isinstance(choice, Choice):
                _log.debug("nobody is ended for %s: %s", demand.workload, choice)
                return None
            unread = sorted(choice.nodes.keys() - known.keys())
            try:
                for node in unread:
                    known[node] = await used_on(self._manager.client, node, demand.resource_key)
            except Forbidden as error:
                # Whether it would help cannot be known.
                _log.warning("nobody is ended for %s: %s", demand.workload, error)
                return None
            if all(known[node] == facts.used(demand.resource_key, node) for node in unread):
                return choice
        return None

    async def _take(self, demand: GpuDemand, choice: Choice, relief: QueueRelief | None) -> float:
        """Take a decision if the waiting workload still waits, and record it on it too."""
        now = self._now()
        entry = await self._still_waits(demand)
        if entry is None:
            self._refused.record(demand.workload.uid, _CHANGED)
            return RETRY_SECONDS
        victims = tuple(
            EndingVictim(
                kind, victim.namespace, victim.name, victim.uid,
                evidence=_evidence(victim, demand, choice, relief, now),
                resource_version=victim.resource_version,
                figures=_figures(victim, demand, choice, now),
                action=self._action(victim),
            )
            for victim in choice.victims
            if (kind := workload_kind(victim.kind)) is not None
        )  # fmt: skip
        if self._config().preemption == "Report":
            text = (
                f"{_named(victims)} would be ended for it; nothing is done, scheduling.preemption is Report"
            )
            await self._tell(entry, Condition(CONDITION, "False", "ReportOnly", text))
            return BACKSTOP_SECONDS
        decision = EndingDecision("Duration", victims, now, demand.workload)
        answer = await self._endings.decide(decision)
        for uid in answer.refused_uids:
            self._refused.record(uid, _REFUSED)
        if not answer.ended:
            _log.info("nobody is ended for %s: %s", demand.workload, answer.refused)
            return RETRY_SECONDS
        text = (
            f"{_named(answer.ended)} ended by Kaiwo for it: it had waited for {_gpus(demand)} since "
            f"{format_time(demand.since)}; decided at {format_time(now)}"
        )
        await self._tell(entry, Condition(CONDITION, "True", "VictimsChosen", text))
        return RETRY_SECONDS

    def _action(self, victim: GpuHolder) -> EndingAction:
        """What becomes of a victim: only a job whose child Kaiwo made can be run from its beginning again."""
        again = victim.kind == "KaiwoJob" and not victim.adopted
        return self._config().preemption_action if again else "Terminate"

    async def _still_waits(self, demand: GpuDemand) -> CachedObject | None:
        """The waiting workload, if the API server has no newer state of it or of its place in the queue."""
        whom = demand.workload
        entry = cached_workload(self._manager.cache, whom)
        if entry is None or entry.uid != whom.uid:
            return None
        if not await self._quota.unchanged((entry, *self._facts().queue_objects(whom))):
            return None
        return entry

    async def _tell(self, entry: CachedObject, condition: Condition) -> None:
        """Record a decision on the workload that it was taken for, with one event.

        The records of the victims name it too, so a failure here loses nothing.
        """
        for _ in range(_TRIES):
            known = self._manager.cache.get(entry.resource, entry.namespace, entry.name)
            if known is None or known.uid != entry.uid:
                return
            live = lenient_maps(known.readable_part("status", "conditions"))
            before = find_condition(live, CONDITION)
            if before is not None and before.get("message") == condition.message:
                return
            own = merge_conditions([before] if before is not None else [], [condition], self._now())
            try:
                await self._manager.writer.patch_status(
                    known, {"conditions": own}, own_conditions=(CONDITION,)
                )
            except Conflict:
                await asyncio.sleep(_CONFLICT_SECONDS)
                continue
            except EngineError as error:
                _log.info("a decision is not reported on %s: %s", known, error)
                return
            self._manager.event_recorder.event(known, "Normal", CONDITION, condition.message[:_MAX_EVENT])
            return


def _chosen(
    facts: GpuFacts,
    demand: GpuDemand,
    relief: QueueRelief | None,
    holders: list[GpuHolder],
    known: Mapping[str, int] = MappingProxyType({}),
) -> Choice | NoChoice:
    """Whom to end for a demand by the cache, and by what is known of nodes from the API server."""
    own = [
        holder
        for holder in holders
        if holder.uid != demand.workload.uid and (relief is None or holder.uid in relief.members)
    ]
    rooms = facts.rooms(demand.resource_key, known)
    return choose(demand, own, rooms, relief.place if relief is not None else anywhere)


def _evidence(
    victim: GpuHolder, demand: GpuDemand, choice: Choice, relief: QueueRelief | None, now: datetime
) -> str:
    """What was decided from, so that it can be checked again."""
    where = f" in queue {relief.queue}" if relief is not None else ""
    lacks = "quota" if demand.cause == "quota" else "a node"
    others = f" together with {len(choice.victims) - 1} more" if len(choice.victims) > 1 else ""
    nodes = ", ".join(f"{name} ({pods})" for name, pods in list(choice.nodes.items())[:4])
    more = f" and {len(choice.nodes) - 4} more" if len(choice.nodes) > 4 else ""  # noqa: PLR2004
    return (
        f"its duration passed at {format_time(victim.deadline)}, {_words(now - victim.deadline)} earlier; "
        f"{demand.workload} has waited{where} for {_gpus(demand)} since {format_time(demand.since)} for lack "
        f"of {lacks}; ending this one{others} frees {choice.gpus} and gives its pods room on {nodes}{more}"
    )


def _named(victims: Sequence[WorkloadIdentity]) -> str:
    return ", ".join(
        f"{one} (requeued)" if isinstance(one, EndingVictim) and one.action == "Requeue" else str(one)
        for one in victims
    )


def _figures(victim: GpuHolder, demand: GpuDemand, choice: Choice, now: datetime) -> dict[str, float]:
    return {
        "secondsPastDeadline": round((now - victim.deadline).total_seconds()),
        "secondsWaited": round((now - demand.since).total_seconds()),
        "gpusRequested": demand.gpus,
        "gpusPerPod": demand.gpus_per_pod,
        "podsWaiting": demand.pods,
        "gpusHeld": victim.gpus,
        "gpusFreed": choice.gpus,
        "victims": len(choice.victims),
    }


def _gpus(demand: GpuDemand) -> str:
    pods = "1 pod" if demand.pods == 1 else f"{demand.pods} pods"
    return f"{demand.gpus} {demand.resource_key} in {pods}"


def _words(passed: timedelta) -> str:
    seconds = max(0, int(passed.total_seconds()))
    hours, minutes = seconds // 3600, seconds % 3600 // 60
    if hours:
        return f"{hours}h{minutes}m"
    return f"{minutes}m{seconds % 60}s" if minutes else f"{seconds}s"
