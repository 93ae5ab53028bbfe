"""Reads the metrics endpoint every interval, and says which workloads have to be planned again.

Only the leader reads. What it finds goes into `GpuUses`; the plan of a workload writes its status from there.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kaiwo.api.conditions import Condition, find_condition
from kaiwo.api.crds import WORKLOADS
from kaiwo.engine.errors import EngineError
from kaiwo.engine.resource import POD
from kaiwo.engine.workqueue import Key
from kaiwo.host.kaiwoconfig import RESOURCE_MONITORED
from kaiwo.host.monitoring.endpoint import EndpointError
from kaiwo.workload.ending.decision import EndingDecision, EndingVictim
from kaiwo.workload.gpu_hours import allocated_gpus
from kaiwo.workload.json_access import lenient_map, lenient_maps
from kaiwo.workload.labels import RUN_ID
from kaiwo.workload.monitoring.history import History, longest_gap
from kaiwo.workload.monitoring.reading import gpu_pod, read_gpus, settling_time
from kaiwo.workload.monitoring.underuse import MEASURED, UNDERUSE, is_monitored, judge

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from datetime import datetime

    from kaiwo.api.plugin_fields import WorkloadKind
    from kaiwo.api.resolved_config import ResolvedConfig
    from kaiwo.engine.cached_object import CachedObject
    from kaiwo.engine.manager import Manager
    from kaiwo.engine.resource import Object
    from kaiwo.host.ending.endings import Endings
    from kaiwo.host.monitoring.endpoint import Endpoint
    from kaiwo.host.monitoring.feed import SampleFeed
    from kaiwo.host.monitoring.metrics import MonitoringMetrics
    from kaiwo.host.monitoring.uses import GpuUses
    from kaiwo.host.workload.ownership import PodOwners
    from kaiwo.workload.monitoring.reading import GpuPod
    from kaiwo.workload.monitoring.samples import Samples

_log = logging.getLogger(__name__)

_FAILURES: Final = 3
"""Scrapes in a row that must fail before the condition says so."""

_AT_ONCE: Final = 25
"""Workloads that are looked at before the event loop does its other work."""


@dataclass(frozen=True, slots=True)
class _Known:
    """What is kept of a workload between two scrapes."""

    child: str
    gpus: int
    history: History


@dataclass(frozen=True, slots=True)
class _Scrape:
    """What one scrape is judged by; no samples where it failed."""

    samples: Samples | None
    config: ResolvedConfig
    clock: float
    now: datetime


class Monitor:
    """Follows the GPUs of all workloads."""

    def __init__(
        self,
        manager: Manager,
        endpoint: Endpoint,
        uses: GpuUses,
        *,
        config: Callable[[], ResolvedConfig],
        pod_owners: PodOwners,
        gpu_keys: tuple[str, ...],
        endings: Endings,
        requeue: Mapping[WorkloadKind, Callable[[Key], None]],
        interval: float,
        unled: Callable[[], float | None],
        metrics: MonitoringMetrics,
        on_change: Callable[[], None],
        feed: SampleFeed | None = None,
        serves: Callable[[str], bool] = lambda _: True,
    ) -> None:
        """Set up.

        Args:
            manager: has the cache and says whether this process leads.
            endpoint: is read.
            uses: takes what is known.
            config: the configuration in force.
            pod_owners: tells which pods are a workload's own.
            gpu_keys: resource keys of the loaded vendors.
            endings: ends workloads.
            requeue: reconciles a workload of a kind.
            interval: seconds between two scrapes.
            unled: seconds during which no process led before this one did, None if that is not known.
            metrics: of the scrapes.
            on_change: called when the condition changes.
            feed: gets what each scrape has read, for others who follow it.
            serves: whether the workloads of a namespace are this process's.
        """
        self._manager = manager
        self._endpoint = endpoint
        self._uses = uses
        self._config = config
        self._owners = pod_owners
        self._keys = gpu_keys
        self._endings = endings
        self._requeue = requeue
        self._interval = interval
        self._gap, self._settled = longest_gap(interval), settling_time(interval)
        self._unled = unled
        self._metrics = metrics
        self._on_change = on_change
        self._feed = feed
        self._serves = serves
        self._known: dict[str, _Known] = {}
        self._pods: dict[str, tuple[int, GpuPod | None]] = {}
        self._leads = self._interrupted = False
        self._failures = 0
        self._failure, self._repeated = "", 0
        self._state: tuple[str, str] | None = None

    def condition(self, generation: int) -> Condition | None:
        """The condition of KaiwoConfig, None before the first scrape.

        Args:
            generation: of the KaiwoConfig.
        """
        if self._state is None:
            return None
        reason, message = self._state
        return Condition(
            RESOURCE_MONITORED, "True" if reason == "SamplesRead" else "False", reason, message, generation
        )

    async def run(self) -> None:
        """Read for as long as the process runs."""
        clock = self._uses.clock
        while True:
            began = clock()
            try:
                await self.scrape()
            except Exception:  # noqa: BLE001  a defect must not end the monitoring of everything for good
                _log.exception("a scrape of %s failed", self._endpoint.shown)
            await asyncio.sleep(max(1.0, self._interval - (clock() - began)))

    async def scrape(self) -> None:
        """Read once, if this process leads."""
        cache = self._manager.cache
        if not self._manager.leading or not all(map(cache.synced, (POD, *WORKLOADS.values()))):
            self._leads = False
            if self._feed is not None:
                self._feed.not_leading()
            return
        if not self._leads:
            self._leads = True
            self._known.clear()
            gap = self._unled()
            self._interrupted = gap is None or not -self._gap <= gap <= self._gap
        samples: Samples | None = None
        began = self._uses.clock()
        try:
            samples = await self._endpoint.read()
        except EndpointError as error:
            self._failed(str(error))
        self._metrics.scraped(samples, self._uses.clock() - began)
        if self._feed is not None:
            self._feed.monitored(samples)
        await self._judge_all(samples)
        if samples is not None:
            self._succeeded(samples)

    async def _judge_all(self, samples: Samples | None) -> None:
        scrape = _Scrape(samples, self._config(), self._uses.clock(), self._uses.now())
        decided: list[EndingVictim] = []
        seen: set[str] = set()
        pods: set[str] = set()
        for kind, resource in WORKLOADS.items():
            entries = iter(list(self._manager.cache.list(resource)))
            while batch := list(itertools.islice(entries, _AT_ONCE)):
                async with self._manager.turns.turn(""):
                    for entry in batch:
                        monitored = self._serves(entry.namespace) and is_monitored(
                            entry.namespace, scrape.config
                        )
                        held = self._pods_of(entry, pods) if monitored else []
                        if held or entry.uid in self._known:
                            seen.update([entry.uid] if held else ())
                            decided += self._judge(kind, entry, held, scrape)
        self._known = {uid: known for uid, known in self._known.items() if uid in seen}
        self._pods = {uid: known for uid, known in self._pods.items() if uid in pods}
        self._uses.keep(self._known.keys())
        for victim in decided:
            await self._end(victim, scrape.now)

    def _judge(
        self,
        kind: WorkloadKind,
        entry: CachedObject,
        held: list[CachedObject],
        scrape: _Scrape,
    ) -> Iterator[EndingVictim]:
        """Follow one workload; the victim where it is to be ended."""
        config, clock, now = scrape.config, scrape.clock, scrape.now
        status = lenient_map(entry.readable_part("status"))
        gpus = allocated_gpus(lenient_map(status.get("allocation")))
        if not held or status.get("status") not in MEASURED or not gpus or entry.deleted:
            if self._known.pop(entry.uid, None) is not None:
                self._plan_again(kind, entry)
            return
        child = str(status.get("childUID") or "")
        known = self._known.get(entry.uid)
        if known is None or (known.child, known.gpus) != (child, gpus):
            interrupted = self._interrupted and known is None
            known = self._known[entry.uid] = _Known(
                child, gpus, History(clock, self._gap, interrupted=interrupted)
            )
        history, conditions = known.history, lenient_maps(status.get("conditions"))
        if history.interrupted and (find_condition(conditions, UNDERUSE) or {}).get("status") != "True":
            history.interrupted = False
        threshold = config.low_utilization_threshold
        reading, problem = None, "MetricsUnreachable"
        if scrape.samples is not None:
            own = [pod for one in held if (pod := self._gpu_pod(one)) and self._owners.belongs(one, {child})]
            reading, problem = read_gpus(own, scrape.samples, threshold, now, self._settled), "PodsNew"
        history.add(reading, problem, threshold, clock, now)  # type: ignore[arg-type]  # two of its words
        use = history.use(clock)
        self._uses.put(entry.uid, use)
        utilization = lenient_map(status.get("utilization"))
        judgement = judge(
            conditions, utilization, use, config, gpus=gpus, now=now, monotonic=self._uses.monotonic()
        )
        if judgement.differs(conditions, utilization):
            self._plan_again(kind, entry)
        if judgement.evidence:
            yield EndingVictim(
                kind, entry.namespace, entry.name, entry.uid, judgement.evidence,
                resource_version=entry.resource_version, figures=_figures(judgement.utilization, config),
            )  # fmt: skip

    async def _end(self, victim: EndingVictim, now: datetime) -> None:
        try:
            answer = await self._endings.decide(EndingDecision("Underutilized", (victim,), now))
        except EngineError as error:
            _log.warning("%s is not ended: %s", victim, error)  # the next scrape decides anew
            return
        if answer.refused:
            _log.info("%s is not ended: %s", victim, answer.refused)

    def _plan_again(self, kind: WorkloadKind, entry: CachedObject) -> None:
        self._uses.plan_again(entry.uid)
        self._requeue[kind](Key(entry.namespace, entry.name))

    def _pods_of(self, entry: CachedObject, seen: set[str]) -> list[CachedObject]:
        found = [
            pod
            for pod in self._manager.cache.labelled(POD, RUN_ID, entry.uid)
            if pod.namespace == entry.namespace
        ]
        seen.update(pod.uid for pod in found)
        return found

    def _gpu_pod(self, pod: CachedObject) -> GpuPod | None:
        known = self._pods.get(pod.uid)
        if known is None or known[0] != pod.version:
            known = self._pods[pod.uid] = (pod.version, gpu_pod(pod.readable(), self._keys))
        return known[1]

    # -- what administrators see

    def _failed(self, message: str) -> None:
        self._failures += 1
        self._repeated = self._repeated + 1 if message == self._failure else 1
        self._failure = message
        if self._failures == 1:
            _log.warning("GPU utilization cannot be read: %s", message)
        if self._failures >= _FAILURES:
            text = f"{message}. Workloads are not ended for underutilization meanwhile"
            self._become("EndpointFailed", text, keep_message=self._repeated < _FAILURES)

    def _succeeded(self, samples: Samples) -> None:
        if self._failures:
            _log.info("GPU utilization is read again from %s", self._endpoint.shown)
        self._failures, self._failure = 0, ""
        if self._known and not len(samples):
            names = ", ".join(self._endpoint.metrics)
            text = f"{self._endpoint.shown} has no sample of a pod's GPU, for any of the metrics {names}"
            self._become("NoSamples", text)
        else:
            self._become("SamplesRead", f"{self._endpoint.shown} is read every {self._interval:g} s")

    def _become(self, reason: str, message: str, *, keep_message: bool = False) -> None:
        """Change the condition.

        Args:
            reason: its reason.
            message: its message.
            keep_message: keep the recorded message of the same reason: the words of an error may differ each
                time.
        """
        if (
            self._state is not None
            and self._state[0] == reason
            and (keep_message or self._state[1] == message)
        ):
            return
        self._state = (reason, message)
        self._on_change()


def _figures(utilization: Object | None, config: ResolvedConfig) -> dict[str, float]:
    names = ("gpus", "percent", "mostGpusUsed")
    found = {name: float((utilization or {})[name]) for name in names if name in (utilization or {})}
    return {**found, "thresholdPercent": config.low_utilization_threshold}
