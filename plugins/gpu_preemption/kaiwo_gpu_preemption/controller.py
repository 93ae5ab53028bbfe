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

from kaiwo.plugin.kit.cache import Cache, Projection
from kaiwo.plugin.kit.controllers import Controller, Key, Watch
from kaiwo.plugin.kit.json_access import lenient_text
from kaiwo.plugin.kit.kinds import NAMESPACE, NODE, POD
from kaiwo.plugin.kit.values import parse_time
from kaiwo_gpu_preemption.assessment import assess, timing
from kaiwo_gpu_preemption.decisions import Decisions
from kaiwo_gpu_preemption.dependencies import Dependencies
from kaiwo_gpu_preemption.environment import ProcessSettings
from kaiwo_gpu_preemption.kinds import GPU_WORKLOAD, KAIWO_ROOTS
from kaiwo_gpu_preemption.owners import NoRoot, OwnerMetadata, OwnerReader, OwnerUnreadable, Root
from kaiwo_gpu_preemption.pods import POD_PROJECTION, read_pod, requested_gpus
from kaiwo_gpu_preemption.policy import Defaults, own_annotations, tracking_policy
from kaiwo_gpu_preemption.queued import QueuedWorkloads
from kaiwo_gpu_preemption.quota_pressure import QuotaPressure
from kaiwo_gpu_preemption.readings import UseReadings
from kaiwo_gpu_preemption.records import Records
from kaiwo_gpu_preemption.taking import Taking
from kaiwo_gpu_preemption.tracked import NOTICE, Tracked, by_workload
from kaiwo_gpu_preemption.unreadable import UnreadableOwners

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from kaiwo.plugin.controllers import ControllerHost
    from kaiwo.plugin.kit.cache import CachedObject
    from kaiwo.plugin.kit.kinds import Resource
    from kaiwo.plugin.kit.monitoring import GpuSamples, Scrape
    from kaiwo_gpu_preemption.pods import GpuPodFacts
    from kaiwo_gpu_preemption.policy import TrackingPolicy

_log = logging.getLogger(__name__)

KEY: Final = Key("", "gpu-workloads")
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
            "GPU preemption is off; GPU_PREEMPTION_METRICS_ENDPOINT or GPU_PREEMPTION_ENABLED turns it on"
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
        dependencies = Dependencies(manager, host.endings, self._owners, self._policy_of, clock, now)
        taking = Taking(dependencies)
        self._queued = QueuedWorkloads(manager.cache, host.quota, self._keys)
        self._decisions = Decisions(
            host, taking, self._own_pods, self._keys, QuotaPressure(host.quota, self._queued),
            clock=clock, now=now,
        )  # fmt: skip
        self._records = Records(dependencies, taking)
        self._steps = 0
        self._unreadable = UnreadableOwners()
        self._policies: dict[tuple[object, ...], TrackingPolicy | None] = {}  # of this pass
        watches = [
            Watch(GPU_WORKLOAD, namespaces=host.namespaces),
            Watch(NAMESPACE, projection=Projection(keep=(("metadata", "annotations"),))),
            Watch(NODE, projection=_NODE_PROJECTION),
        ]
        self.controller = Controller(
            "gpu-preemption", watches, self.reconcile, workers=1, timeout=_TIMEOUT, initial=lambda: [KEY]
        )
        samples: GpuSamples = host.gpu_samples
        scraped = samples.follow(self._on_scrape, settings.endpoint, settings.interval)
        self._interval = scraped or settings.interval
        self._scrape: Scrape | None = None
        self._readings = UseReadings(self._interval, scraped=bool(scraped))
        self._facts: dict[str, tuple[int, GpuPodFacts | None]] = {}

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
        known = by_workload(list(self._host.manager.cache.list(GPU_WORKLOAD)))
        found = await self._tracked()
        scrape, self._scrape = self._scrape, None
        for uid, one in found.items():
            one.entry = known.get(uid)
            self._assess(one, scrape)
            await self._breathe()
        missed = {uid for uid, entry in known.items() if uid not in found and self._may_have_pods(uid, entry)}
        self._readings.missed(missed, self._clock())
        ongoing = await self._records.carry_on(known, found)
        going = [one for uid, one in found.items() if uid not in ongoing]
        await self._decisions.decide(going)
        for one in going:
            await self._records.write(one, self._interval)
            await self._breathe()
        for uid, entry in known.items():
            if uid not in found and uid not in ongoing and uid not in missed:
                await self._records.finish(uid, entry)
        self._forget({*found, *missed})
        return min(_RETRY, self._interval) if ongoing else self._interval

    async def _breathe(self) -> None:
        """Let the event loop do its other work now and then."""
        self._steps += 1
        if self._steps % _AT_ONCE == 0:
            await asyncio.sleep(0)

    async def _tracked(self) -> dict[str, Tracked]:
        """The workloads that are tracked by uid of the root owner."""
        found: dict[str, Tracked] = {}
        self._policies.clear()
        self._owners.begin_pass()
        self._unreadable.begin_pass()
        for entry in self._pods.list(POD):
            await self._breathe()
            facts = self._read(entry)
            if facts is None or facts.over:
                continue
            root = await self._root(entry)
            one = self._add(found, root) if root is not None else None
            if one is not None:
                one.pods.append(facts)
                one.owner_uids.add(entry.uid)
        for queued in self._queued.held():
            await self._breathe()
            root = await self._root(queued.entry)
            if root is None or root.owner.uid == queued.entry.uid:
                continue
            one = self._add(found, replace(root, chain=root.chain.partition(" -> ")[2]))
            if one is not None:
                one.queued += queued.pods
        return found

    async def _root(self, entry: CachedObject) -> Root | None:
        """The root owner of an object, None where it has none or it cannot be read."""
        try:
            return await self._owners.root(entry)
        except NoRoot as error:
            self._records.log_once(str(error))
        except OwnerUnreadable as error:
            self._unreadable.add(error)
        return None

    def _may_have_pods(self, uid: str, entry: CachedObject) -> bool:
        """Whether a workload may have pods whose owner cannot be read, by what its GpuWorkload says."""
        chain = lenient_text(entry.readable_part("status", "ownerChain"))
        return self._unreadable.concern(entry.namespace, chain, uid)

    def _own_pods(self) -> list[GpuPodFacts]:
        return [pod for entry in self._pods.list(POD) if (pod := self._read(entry)) is not None]

    def _read(self, entry: CachedObject) -> GpuPodFacts | None:
        known = self._facts.get(entry.uid)
        if known is None or known[0] != entry.version:
            known = self._facts[entry.uid] = (entry.version, read_pod(entry, self._keys))
        return known[1]

    def _add(self, found: dict[str, Tracked], root: Root) -> Tracked | None:
        """The workload of a root owner, None where it is not tracked."""
        tracked = found.get(root.owner.uid)
        if tracked is None:
            said = (root.owner.namespace, *sorted(root.owner.annotations.items()))
            if said not in self._policies:
                self._policies[said] = self._policy_of(root.owner)
            policy = self._policies[said]
            if policy is None:
                return None
            tracked = found[root.owner.uid] = Tracked(root, policy)
        tracked.owner_uids |= root.uids
        return tracked

    def _assess(self, one: Tracked, scrape: Scrape | None) -> None:
        unknown = self._unreadable.concern(one.owner.namespace, one.root.chain, one.owner.uid)
        problem = "OwnerUnreadable" if unknown else ""
        now, reading = self._now(), self._readings.read(one, scrape, self._clock(), problem)
        one.assessment = assess(
            one.recorded("phase", "idleSince", "conditions"), one.pods, reading, one.policy, now,
            held=bool(one.queued), unreadable_owner=one.root.unreadable,
        )  # fmt: skip
        notice = one.entry.annotations.get(NOTICE) if one.entry is not None else None
        one.timing = timing(one.assessment, one.policy, parse_time(notice), now, self._monotonic())

    def _forget(self, uids: Collection[str]) -> None:
        self._readings.forget_all_but(uids)
        self._records.end_pass(uids)
        pods = {entry.uid for entry in self._pods.list(POD)}
        self._facts = {uid: facts for uid, facts in self._facts.items() if uid in pods}
        self._owners.forget_unused(_UNUSED)
