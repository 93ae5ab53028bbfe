"""The controller that tracks workloads with GPUs. Each pass reads everything again from caches.

One key stands for all workloads: whether GPUs are taken back depends on all of them.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from kaiwo.plugin.kit.api_errors import AlreadyExists, Conflict, EngineError
from kaiwo.plugin.kit.cache import Cache, Projection
from kaiwo.plugin.kit.controllers import Controller, Key, Watch
from kaiwo.plugin.kit.endings import EndingRecord
from kaiwo.plugin.kit.json_access import lenient_map, lenient_text
from kaiwo.plugin.kit.kinds import NAMESPACE, NODE, POD
from kaiwo.plugin.kit.monitoring import longest_gap, settling_time
from kaiwo.plugin.kit.values import format_time, parse_time
from kaiwo.plugin.kit.workload import Condition
from kaiwo_gpu_preemption.assessment import (
    DECIDED,
    OWN_CONDITIONS,
    Reading,
    assess,
    expired,
    status_change,
    timing,
)
from kaiwo_gpu_preemption.environment import ProcessSettings
from kaiwo_gpu_preemption.kinds import GPU_WORKLOAD, KAIWO_ROOTS, kind_of_owner
from kaiwo_gpu_preemption.owners import NoRoot, OwnerMetadata, OwnerReader, Root
from kaiwo_gpu_preemption.pods import POD_PROJECTION, read_pod, requested_gpus
from kaiwo_gpu_preemption.policy import Defaults, own_annotations, tracking_policy
from kaiwo_gpu_preemption.pressure import NO_FIT, demand_of, rooms_for, victims_for
from kaiwo_gpu_preemption.queued import QueuedWorkloads
from kaiwo_gpu_preemption.taking import Taking, preempting_status
from kaiwo_gpu_preemption.tracked import (
    NOTICE,
    Tracked,
    by_workload,
    new_gpu_workload,
    spec_patch,
    wanted_spec,
)
from kaiwo_gpu_preemption.utilization import read_utilization

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kaiwo.plugin.controllers import ControllerHost
    from kaiwo.plugin.kit.cache import CachedObject
    from kaiwo.plugin.kit.endings import Endings
    from kaiwo.plugin.kit.kinds import Object, Resource
    from kaiwo.plugin.kit.monitoring import GpuSamples, Scrape
    from kaiwo_gpu_preemption.pods import GpuPodFacts
    from kaiwo_gpu_preemption.policy import TrackingPolicy

_log = logging.getLogger(__name__)

KEY: Final = Key("", "gpu-workloads")
MOST_ENDED: Final = 20
"""Workloads with policy Always that are ended in one pass."""

_AT_ONCE: Final = 25  # workloads that are worked on before the event loop does its other work
_UNUSED: Final = 600.0  # seconds after which an owner that nobody asks for is forgotten
_RETRY: Final = 2.0  # seconds until a deletion is looked at again
_TIMEOUT: Final = 600.0
_NODE_PROJECTION: Final = Projection(
    keep=(("spec", "unschedulable"), ("spec", "taints"), ("status", "allocatable"), ("status", "capacity"))
)


def build(host: ControllerHost) -> None:
    """Add the plugin's controller to the host's manager, unless the process settings leave it off."""
    settings = ProcessSettings.read(os.environ)
    if not settings.enabled:
        _log.info(
            "GPU preemption is off; GPU_PREEMPTION_ENABLED or GPU_PREEMPTION_METRICS_ENDPOINT turns it on"
        )
        return
    host.manager.add(GpuWorkloadController(host, settings).controller)


class GpuWorkloadController:
    """Tracks workloads with GPUs, and has idle GPUs taken back.

    Attributes:
        controller: what the manager runs.
    """

    def __init__(
        self,
        host: ControllerHost,
        settings: ProcessSettings,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Follow pods, nodes and namespaces of a host's manager.

        Args:
            host: the operator around it.
            settings: of the process.
            clock: monotonic seconds.
            now: the time.
        """
        self._host = host
        self._settings = settings
        self._clock, self._now = clock, now
        self._began = (clock(), now())
        self._keys = tuple(key for vendor in host.vendors for key in vendor.resource_keys)
        manager = host.manager
        self._pods = Cache()
        self._pods.register(POD, POD_PROJECTION, namespaces=host.namespaces, keeps=self._has_gpus)
        manager.follow("gpu_preemption", self._pods)
        self._owners = OwnerReader(manager.client, self._cached_owner, clock)
        endings: Endings = host.endings
        self._taking = Taking(manager, endings, self._owners, self._policy_of, clock=clock, now=now)
        self._endings = endings
        watches = [
            Watch(GPU_WORKLOAD, namespaces=host.namespaces),
            Watch(NAMESPACE, projection=Projection(keep=(("metadata", "annotations"),))),
            Watch(NODE, projection=_NODE_PROJECTION),
        ]
        self.controller = Controller(
            "gpu-preemption", watches, self.reconcile, workers=1, timeout=_TIMEOUT, initial=lambda: [KEY]
        )
        self._queued = QueuedWorkloads(manager.cache)
        samples: GpuSamples = host.gpu_samples
        self._endpoint = samples.follow(self._on_scrape, settings.endpoint, settings.interval)
        self._interval = self._endpoint or settings.interval
        self._scrape: Scrape | None = None
        self._usable: dict[str, float] = {}
        self._written: dict[str, float] = {}
        self._facts: dict[str, tuple[int, GpuPodFacts | None]] = {}
        self._logged: set[str] = set()

    # -- what it reads

    def _has_gpus(self, pod: CachedObject) -> bool:
        spec = {name: pod.readable_part("spec", name) for name in ("containers", "initContainers")}
        return bool(requested_gpus(spec, self._keys))

    def _cached_owner(self, resource: Resource, namespace: str, name: str) -> CachedObject | None:
        return self._host.manager.cache.get(resource, namespace, name) if resource in KAIWO_ROOTS else None

    def _on_scrape(self, scrape: Scrape) -> None:
        if self._scrape is not None and self._scrape.interrupted:
            scrape = replace(scrape, interrupted=True)
        self._scrape = scrape
        self.controller.enqueue(KEY)

    def _defaults(self) -> Defaults:
        section = self._host.config().gpu_preemption
        named = {
            "threshold": section.default_threshold,
            "grace-period": section.default_grace_period,
            "policy": section.default_policy,
            "aggregation": section.default_aggregation,
            "ttl": section.default_ttl,
        }
        config = {name: str(value) for name, value in named.items() if value is not None}
        return Defaults(config, self._settings.defaults)

    def _policy_of(self, owner: OwnerMetadata) -> TrackingPolicy | None:
        namespace = self._host.manager.cache.get(NAMESPACE, None, owner.namespace)
        annotations = own_annotations(namespace.annotations) if namespace is not None else {}
        return tracking_policy(owner.annotations, annotations, self._defaults())

    def _synced(self) -> bool:
        cache = self._host.manager.cache
        kinds = (GPU_WORKLOAD, NAMESPACE, NODE, *KAIWO_ROOTS)
        return self._pods.synced(POD) and all(cache.synced(kind) for kind in kinds)

    def _monotonic(self) -> datetime:
        clock, now = self._began
        return now + timedelta(seconds=self._clock() - clock)

    # -- one pass

    async def reconcile(self, key: Key) -> float:
        """Bring all GpuWorkloads up to date, and look for one decision; seconds until the next pass."""
        del key
        if not self._synced():
            return 1.0
        scrape, self._scrape = self._scrape, None
        known = by_workload(list(self._host.manager.cache.list(GPU_WORKLOAD)))
        found, complete = await self._tracked()
        for number, one in enumerate(found.values()):
            one.entry = known.get(one.owner.uid)
            self._assess(one, scrape)
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)
        ongoing = await self._carry_on(known, found)
        if complete:
            await self._decide([one for one in found.values() if one.owner.uid not in ongoing])
        for number, one in enumerate(found.values()):
            if one.owner.uid not in ongoing:
                await self._write(one)
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)
        if complete:
            for uid, entry in known.items():
                if uid not in found and uid not in ongoing:
                    await self._finish(uid, entry)
        self._forget(found)
        return min(_RETRY, self._interval) if ongoing else self._interval

    async def _tracked(self) -> tuple[dict[str, Tracked], bool]:
        """The workloads that are tracked by uid of the root owner, and whether all pods were understood."""
        found: dict[str, Tracked] = {}
        complete = True
        for number, entry in enumerate(self._pods.list(POD)):
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)
            facts = self._read(entry)
            if facts is None or facts.over:
                continue
            try:
                root = await self._owners.root(entry)
            except NoRoot as error:
                self._log_once(str(error))
                continue
            except EngineError as error:
                _log.warning("the owner of pod %s/%s cannot be read: %s", entry.namespace, entry.name, error)
                complete = False
                continue
            self._add(found, root, facts)
        for owner, held in self._queued.all():
            self._add_queued(found, owner, held)
        return found, complete

    def _read(self, entry: CachedObject) -> GpuPodFacts | None:
        known = self._facts.get(entry.uid)
        if known is None or known[0] != entry.version:
            known = self._facts[entry.uid] = (entry.version, read_pod(entry, self._keys))
        return known[1]

    def _add(self, found: dict[str, Tracked], root: Root, pod: GpuPodFacts) -> None:
        tracked = found.get(root.owner.uid)
        if tracked is None:
            policy = self._policy_of(root.owner)
            if policy is None:
                return
            tracked = found[root.owner.uid] = Tracked(root, policy)
        tracked.pods.append(pod)

    def _add_queued(self, found: dict[str, Tracked], owner: OwnerMetadata, held: str) -> None:
        tracked = found.get(owner.uid)
        if tracked is None:
            policy = self._policy_of(owner)
            if policy is None:
                return
            tracked = found[owner.uid] = Tracked(Root(owner, str(owner)), policy)
        tracked.held = held

    def _assess(self, one: Tracked, scrape: Scrape | None) -> None:
        uid, now, clock = one.owner.uid, self._now(), self._clock()
        usable = self._usable.setdefault(uid, clock)
        if scrape is not None:
            one.use = read_utilization(
                one.pods, scrape.samples, threshold=one.policy.threshold,
                aggregation=one.policy.aggregation, now=scrape.now, settled=settling_time(self._interval),
            )  # fmt: skip
        use = one.use
        current = use is not None and (use.percent is not None or use.busy)
        lost = not self._endpoint or clock - usable > longest_gap(self._interval)
        if current and not lost:
            self._usable[uid] = clock
        reading = Reading(
            use, current, lost and not current,
            interrupted=(scrape is not None and scrape.interrupted) or (lost and current),
            problem="" if self._endpoint else "NoEndpoint",
        )  # fmt: skip
        if current:
            self._usable[uid] = clock
        one.assessment = assess(
            one.status, one.pods, reading, one.policy, now,
            held=bool(one.held), unreadable_owner=one.root.unreadable,
        )  # fmt: skip
        notice = one.entry.annotations.get(NOTICE) if one.entry is not None else None
        one.timing = timing(one.assessment, one.policy, parse_time(notice), now, self._monotonic())

    # -- decisions

    async def _decide(self, found: list[Tracked]) -> None:
        """Give notice, and take decisions: those of policy Always, and one for a workload that waits."""
        idle = [one for one in found if one.timing is not None and (one.timing.due or one.timing.notice_due)]
        ready: list[Tracked] = []
        for one in idle:
            assert one.timing is not None  # noqa: S101  asked above
            if one.entry is None or one.root.unreadable:
                continue
            if (denied := await self._taking.permission(one)) is not None:
                one.conditions.append(denied)
                continue
            if one.timing.notice_due:
                await self._notify(one)
            if one.timing.due and one.policy.policy == "Report":
                text = "it would be ended now; nothing is done, its policy is Report"
                one.conditions.append(Condition(DECIDED, "False", "ReportOnly", text))
            elif one.timing.due and not one.timing.notice_due:
                ready.append(one)
        ready.sort(key=lambda one: (one.timing.since or self._now() if one.timing else self._now(), str(one)))
        always = [one for one in ready if one.policy.policy == "Always"]
        for one in always[:MOST_ENDED]:
            await self._taking.take([one], None, f"its policy is Always, after {one.policy.grace_period}")
        await self._relieve(found, [one for one in ready if not one.written])

    async def _notify(self, one: Tracked) -> None:
        """Give notice at half of the grace period, once for each idle time."""
        assert one.entry is not None  # noqa: S101  asked before
        ends = {
            "Always": f"it is ended after {one.policy.grace_period} unless they are used",
            "OnPressure": f"after {one.policy.grace_period} it may be ended for a workload that waits for GPUs",
            "Report": f"after {one.policy.grace_period} its status says so; nothing is done",
        }[one.policy.policy]
        if parse_time(one.status.get("idleSince")) is None:
            return  # the status is written first, so that the notice is of this idle time
        patch = self._taking.give_notice(one, ends)
        try:
            await self._host.manager.writer.patch(one.entry, patch)
        except EngineError as error:
            _log.warning("%s cannot be written: %s", one.entry, error)
        self._refresh(one)

    def _refresh(self, one: Tracked) -> None:
        """Go on with the GpuWorkload as it is after a write of this process."""
        assert one.entry is not None  # noqa: S101  it was written
        live = self._host.manager.cache.get(GPU_WORKLOAD, one.entry.namespace, one.entry.name)
        if live is not None and live.uid == one.entry.uid:
            one.entry = live

    async def _relieve(self, found: list[Tracked], ready: list[Tracked]) -> None:
        """Take one decision for the workload that has waited the longest and that it helps."""
        waiting = [
            one for one in found if one.assessment is not None and one.assessment.phase == "PendingGpu"
        ]
        if not waiting:
            return
        demands = []
        for one in waiting:
            demand = demand_of(one)
            if demand is None or one.held:
                self._says(one, "QueueHolds")
            else:
                demands.append((demand[0].since, str(one), one, demand))
        taken = self._taking.busy
        nodes = [node.readable() for node in self._host.manager.cache.list(NODE)]
        pods = [pod for entry in self._pods.list(POD) if (pod := self._read(entry)) is not None]
        for _, _, one, (demand, place) in sorted(demands, key=lambda item: item[:2]):
            if self._host.namespaces:
                self._says(one, "OtherNamespaces")
                continue
            rooms = rooms_for(place, demand.resource_key, nodes, pods, self._host.vendors)
            victims, why = victims_for(demand, [other for other in ready if not other.written], rooms)
            if not victims:
                self._says(one, why)
                continue
            if taken or one.entry is None:
                continue  # one decision at a time
            gpus = demand.pods * demand.gpus_per_pod
            ended, refused = await self._taking.take(
                victims, demand.workload,
                f"{demand.workload} waits for {gpus} {demand.resource_key} since {format_time(demand.since)}",
            )  # fmt: skip
            if not ended:
                _log.info("nobody is ended for %s: %s", one, refused)
                continue
            taken = True
            names = ", ".join(str(victim) for victim in victims if victim.owner.uid in ended)
            text = f"{names} ended for it: GPUs were idle; decided at {format_time(self._now())}"
            one.conditions.append(Condition(DECIDED, "True", "VictimsChosen", text))

    def _says(self, one: Tracked, why: str) -> None:
        before = next(
            (item for item in one.status.get("conditions") or () if item.get("type") == DECIDED), None
        )
        if before is not None and before.get("status") == "True" and why in ("NotNeeded", "NoCandidates"):
            one.conditions.append(Condition(DECIDED, "True", before["reason"], before["message"]))
            return  # what was decided for it becomes free at the moment
        one.conditions.append(Condition(DECIDED, "False", why, NO_FIT[why]))

    # -- writes

    async def _write(self, one: Tracked) -> None:
        """Create or update a GpuWorkload: at most one status in an interval."""
        manager = self._host.manager
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
                    self._refresh(one)
            if one.entry is not None and not one.written:
                await self._write_status(one, one.entry)
        except (AlreadyExists, Conflict) as error:
            _log.debug("%s: %s", one, error)  # the next pass decides from what it is now
        except EngineError as error:
            self._log_once(f"the GpuWorkload of {one} cannot be written: {error}")

    async def _write_status(self, one: Tracked, entry: CachedObject) -> None:
        assert one.assessment is not None  # noqa: S101  each is assessed
        conditions = (*one.assessment.conditions, *one.conditions)
        assessment = replace(one.assessment, conditions=conditions)
        change = status_change(one.status, assessment, one.use, self._now(), chain=one.root.chain)
        clock, uid = self._clock(), one.owner.uid
        if not change or clock - self._written.get(uid, -self._interval) < self._interval * 0.9:
            return
        self._written[uid] = clock
        await self._host.manager.writer.patch_status(entry, change, own_conditions=OWN_CONDITIONS)

    async def _carry_on(self, known: Mapping[str, CachedObject], found: Mapping[str, Tracked]) -> set[str]:
        """Go on with decisions that were recorded; the uids of these workloads."""
        ongoing: set[str] = set()
        for uid, entry in known.items():
            status = lenient_map(entry.readable_part("status"))
            owner = self._owner_named_by(entry)
            if owner is None:
                continue
            if owner.resource in KAIWO_ROOTS:
                if record := self._kaiwo_record(owner):
                    ongoing.add(uid)
                    await self._follow_kaiwo(entry, owner, record, found)
                continue
            if status.get("phase") != "Preempting":
                continue
            ongoing.add(uid)
            try:
                answer = await self._taking.carry_on(entry, owner)
                await self._carried(entry, uid, answer, pods=uid in found)
            except EngineError as error:
                _log.warning("%s: %s", entry, error)
        return ongoing

    async def _carried(self, entry: CachedObject, uid: str, answer: str, *, pods: bool) -> None:
        now = format_time(self._now())
        if answer == "gone" and not pods:
            self._endings.settle(uid)
            change: Object = {"phase": "Preempted", "finishedAt": now, "idleSince": None}
            await self._host.manager.writer.patch_status(entry, change)
        elif answer == "withdrawn":
            self._endings.settle(uid)
            names = ("preemptedAt", "preemptedFor", "preemptionReason", "decision", "idleSince")
            change = {"phase": "Active", **dict.fromkeys(names)}
            await self._host.manager.writer.patch_status(entry, change)
        elif answer not in ("gone", "deleting"):
            self._log_once(f"{entry}: {answer}")

    def _kaiwo_record(self, owner: OwnerMetadata) -> EndingRecord | None:
        live = self._host.manager.cache.get(owner.resource, owner.namespace, owner.name)
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
        live = self._host.manager.cache.get(owner.resource, owner.namespace, owner.name)
        over = live is not None and live.readable_part("status", "status") == "TERMINATED"
        status = lenient_map(entry.readable_part("status"))
        change = preempting_status(record)
        if over and owner.uid not in found:
            finished = status.get("finishedAt") or format_time(self._now())
            change |= {"phase": "Preempted", "finishedAt": finished, "idleSince": None}
        try:
            await self._host.manager.writer.patch_status(entry, change)
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

    async def _finish(self, uid: str, entry: CachedObject) -> None:
        """Keep the record of a workload whose pods are gone, until its time is over."""
        owner = self._owner_named_by(entry)
        status = lenient_map(entry.readable_part("status"))
        try:
            if owner is not None and status.get("phase") not in ("Preempted", "Deleted"):
                live = await self._owners.known(owner.resource, owner.namespace, owner.name, uid)
                if live is not None and self._policy_of(live) is None:
                    await self._delete(entry)
                    return
                change: Object = {
                    "phase": "Deleted" if live is None else "PendingOther",
                    "finishedAt": status.get("finishedAt") or format_time(self._now()),
                    "idleSince": None,
                }
                await self._host.manager.writer.patch_status(entry, change)
            await self._expire(entry)
        except EngineError as error:
            _log.debug("%s: %s", entry, error)  # the next pass does it

    async def _expire(self, entry: CachedObject) -> None:
        policy = tracking_policy(
            {"ttl": lenient_text(entry.readable_part("spec", "ttlAfterFinished"))}, {}, Defaults()
        )
        if policy is not None and expired(
            lenient_map(entry.readable_part("status")), policy.ttl, self._now()
        ):
            await self._delete(entry)

    async def _delete(self, entry: CachedObject) -> None:
        await self._host.manager.writer.delete(entry)

    # -- the rest

    def _log_once(self, text: str) -> None:
        if text not in self._logged:
            if len(self._logged) > 1000:  # noqa: PLR2004  messages that are remembered
                self._logged.clear()
            self._logged.add(text)
            _log.warning("%s", text)

    def _forget(self, found: Mapping[str, Tracked]) -> None:
        for kept in (self._usable, self._written):
            for uid in kept.keys() - found.keys():
                del kept[uid]
        pods = {entry.uid for entry in self._pods.list(POD)}
        self._facts = {uid: facts for uid, facts in self._facts.items() if uid in pods}
        self._owners.forget_unused(_UNUSED)
