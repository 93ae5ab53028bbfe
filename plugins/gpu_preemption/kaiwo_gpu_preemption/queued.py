"""Workloads that a queue holds for lack of GPU quota, and that have no pods yet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kaiwo.plugin.kit.kinds import POD
from kaiwo_gpu_preemption.pods import WaitingPods, place_of, requested_gpus

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaiwo.plugin.kit.cache import Cache, CachedObject, CacheEvent
    from kaiwo.plugin.kit.endings import QuotaService
    from kaiwo.plugin.queue_relief import QuotaWait


@dataclass(frozen=True, slots=True)
class QueuedObjectPods:
    """An object of the queue system that has no quota.

    Attributes:
        entry: the object.
        pods: its pods with GPUs that the queue system has found no quota for.
    """

    entry: CachedObject
    pods: tuple[WaitingPods, ...]


class QueuedWorkloads:
    """Follows the queue system's objects; an event costs one look at one of them."""

    def __init__(self, cache: Cache, quota: QuotaService, gpu_keys: tuple[str, ...]) -> None:
        """Subscribe.

        Args:
            cache: the objects are watched already.
            quota: what the queue system says.
            gpu_keys: resource keys of the loaded vendors.
        """
        self._quota = quota
        self._keys = gpu_keys
        self._found: dict[str, QueuedObjectPods] = {}
        for kind in quota.kinds:
            cache.subscribe(kind, self._on_event)

    def all(self) -> list[CachedObject]:
        """All objects that have no quota, also those without GPUs."""
        return [found.entry for found in self._found.values()]

    def held(self) -> Iterator[QueuedObjectPods]:
        """Those that are held for lack of GPU quota. Gated pods are left out: they are tracked themselves."""
        for found in list(self._found.values()):
            owner = found.entry.controller
            if found.pods and owner is not None and owner.kind != POD.kind:
                yield found

    def _on_event(self, event: CacheEvent) -> None:
        self._found.pop(event.latest.uid, None)
        entry = event.new
        if entry is None or entry.deleted is not None:
            return
        wait = self._quota.waiting(entry)
        if wait is not None:
            self._found[entry.uid] = QueuedObjectPods(entry, tuple(waiting_pods(wait, self._keys)))


def waiting_pods(wait: QuotaWait, gpu_keys: tuple[str, ...]) -> Iterator[WaitingPods]:
    """The pods with GPUs that wait for quota, as far as the queue system has looked for any.

    Args:
        wait: what the queue system says.
        gpu_keys: resource keys of the loaded vendors.
    """
    if wait.since is None:
        return
    for pods in wait.pods:
        for key, gpus in requested_gpus(pods.spec, gpu_keys).items():
            if pods.count > 0 and (not wait.lacks or key in wait.lacks):
                yield WaitingPods(key, pods.count, gpus, wait.since, place_of(pods.spec), "quota")
