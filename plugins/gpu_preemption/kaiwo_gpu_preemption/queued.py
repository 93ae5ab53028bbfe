"""KaiwoJobs and KaiwoServices that a queue holds for lack of GPU quota, and that have no pods yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.plugin.kit.json_access import lenient_map, lenient_maps, lenient_text
from kaiwo.plugin.kit.workload import find_condition
from kaiwo_gpu_preemption.kinds import KAIWO_ROOTS
from kaiwo_gpu_preemption.owners import OwnerMetadata, owner_metadata

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaiwo.plugin.kit.cache import Cache, CachedObject, CacheEvent


class QueuedWorkloads:
    """Follows the events of the cache; an event costs one look at a status."""

    def __init__(self, cache: Cache) -> None:
        """Subscribe.

        Args:
            cache: KaiwoJobs and KaiwoServices are watched already.
        """
        self._found: dict[str, tuple[OwnerMetadata, str]] = {}
        for kind in KAIWO_ROOTS:
            cache.subscribe(kind, self._on_event)

    def all(self) -> Iterator[tuple[OwnerMetadata, str]]:
        """Each of them, with the resource key that it waits for."""
        yield from list(self._found.values())

    def _on_event(self, event: CacheEvent) -> None:
        entry = event.new
        key = _held(entry) if entry is not None else ""
        if entry is None or not key:
            self._found.pop(event.latest.uid, None)
            return
        found = owner_metadata(entry.resource, {"metadata": entry.part("metadata")})
        self._found[entry.uid] = (found, key)


def _held(entry: CachedObject) -> str:
    """The resource key that a queue does not give to a workload, empty where it waits for nothing or else."""
    status = lenient_map(entry.readable_part("status"))
    split = lenient_map(status.get("allocation"))
    if status.get("status") != "PENDING" or not split.get("gpus") or entry.deleted is not None:
        return ""
    admitted = find_condition(lenient_maps(status.get("conditions")), "Admitted")
    return lenient_text(split.get("resourceKey")) if admitted and admitted.get("status") == "False" else ""
