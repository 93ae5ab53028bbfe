"""Owners that cannot be read now, and the workloads that may have pods of them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from kaiwo_gpu_preemption.kinds import APP_WRAPPER, RAY_JOB
from kaiwo_gpu_preemption.owners import ARROW

if TYPE_CHECKING:
    from kaiwo_gpu_preemption.owners import OwnerUnreadable

_log = logging.getLogger(__name__)

_OF_SEVERAL: Final = frozenset({APP_WRAPPER.kind, RAY_JOB.kind})
"""Kinds whose objects make objects of several kinds with pods."""


class UnreadableOwners:
    """The owners that cannot be read in one pass after the other."""

    def __init__(self) -> None:
        """None is known."""
        self._found: dict[str, dict[str, OwnerUnreadable]] = {}  # by namespace and uid
        self._before: dict[str, dict[str, OwnerUnreadable]] = {}
        self._kinds: dict[str, set[str]] = {}  # of those found, by namespace

    def begin_pass(self) -> None:
        """Begin to read the owners of all pods once more."""
        self._before, self._found = self._found, {}
        self._kinds = {}

    def add(self, owner: OwnerUnreadable) -> None:
        """Take note of one; it is logged where the pass before could read it."""
        uid = owner.owner.uid
        found = self._found.setdefault(owner.namespace, {})
        if uid not in found and uid not in self._before.get(owner.namespace, {}):
            _log.warning("%s; no workload that may have its pods is ended meanwhile", owner)
        found[uid] = owner
        self._kinds.setdefault(owner.namespace, set()).add(owner.owner.kind)

    def concern(self, namespace: str, chain: str, uid: str) -> bool:
        """Whether a workload may have pods of one of them, so that not all is known of the workload.

        Args:
            namespace: of the workload.
            chain: from a pod of it to its root owner, as in `Root`.
            uid: of the root owner.
        """
        found = self._found.get(namespace)
        if not found:
            return False
        kinds = [link.partition("/")[0] for link in chain.split(ARROW)]
        # It may be above one that is of a kind that others below it are of, or if it makes several kinds.
        above = not self._kinds[namespace].isdisjoint(kinds[:-1]) or not _OF_SEVERAL.isdisjoint(kinds)
        return uid in found or above
