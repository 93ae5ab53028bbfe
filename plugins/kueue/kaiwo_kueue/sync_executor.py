"""Executes what synchronising decided; one failure does not stop the others."""

from __future__ import annotations

import asyncio
import logging
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kaiwo.engine.errors import ApiError, Conflict, ConnectionBroken, Invalid, NotFound
from kaiwo_kueue.conversion import contains
from kaiwo_kueue.kinds import APPLIED, LOCAL_QUEUE, MANAGED_LABEL, TOUCHED
from kaiwo_kueue.objects import SyncProblem
from kaiwo_kueue.sync import ApplyObject, DeleteObject, TouchObject

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kaiwo.engine.cached_object import CachedObject
    from kaiwo.engine.manager import Manager
    from kaiwo_kueue.objects import LiveObject
    from kaiwo_kueue.sync import Action, RefusedChange, ReleaseObject

_log = logging.getLogger(__name__)

FIELD_MANAGER = "kaiwo"
_TIMEOUT = 15.0  # seconds for one write; the API server waits 10 for a webhook of Kueue's that is silent
_BUDGET = 25.0  # seconds after which no further write of a pass is begun: what went wrong is to be told first
LINGER = 5.0
"""Seconds after which Kueue should have let go of a flavor that is being deleted and that nobody lists."""
_IMMUTABLE = "immutable"
"""The word in every refusal of Kueue to change what may not change."""


class SyncExecutor:
    """Writes Kueue's objects.

    Attributes:
        refused: changes that Kueue refused because something is immutable.
        failed: whether a write of this pass failed and is to be tried again.
        again: whether this pass learned what calls for another pass at once.
        lingering: whether flavors are being deleted that nobody lists.
    """

    def __init__(self, manager: Manager) -> None:
        self._manager = manager
        self.refused: set[RefusedChange] = set()
        self.failed = False
        self.again = False
        self.lingering = False
        self._touch_at: dict[str, float] = {}
        self._kept: dict[tuple[str, str], int] = {}

    def begin(self) -> None:
        """Begin a pass: forget how the last one went."""
        self.failed = self.again = self.lingering = False

    async def run(self, actions: Iterable[Action], owner: str) -> list[SyncProblem]:
        """Execute in order.

        Args:
            actions: what to do.
            owner: uid of the KaiwoQueueConfig.

        Returns:
            What went wrong.
        """
        problems: list[SyncProblem] = []
        began = time.monotonic()
        for action in actions:
            if time.monotonic() - began > _BUDGET:
                self.failed = True
                break
            about = action.wanted if isinstance(action, ApplyObject) else action.found
            try:
                async with asyncio.timeout(_TIMEOUT):
                    problem = await self._one(action, owner)
            except TimeoutError:
                problem = self._refusal(action, ConnectionBroken(f"no answer within {_TIMEOUT:.0f} s"))
            except (Conflict, NotFound) as error:
                _log.info("%s %s changed meanwhile: %s", about.kind.kind, about.name, error)
                self.failed = True
                continue
            except (ApiError, ConnectionBroken) as error:
                problem = self._refusal(action, error)
            if problem is not None:
                problems.append(problem)
        return problems

    async def label(self, namespaces: Iterable[CachedObject], labels: Mapping[str, str]) -> list[SyncProblem]:
        """Label namespaces.

        Returns:
            What went wrong.
        """
        problems: list[SyncProblem] = []
        for entry in namespaces:
            patch = {"metadata": {"labels": dict(labels)}}
            try:
                live = await self._manager.client.merge_patch(
                    entry.resource, None, entry.name, patch, uid=entry.uid, field_manager=FIELD_MANAGER
                )
            except (ApiError, ConnectionBroken) as error:
                text = f"namespace {entry.name} cannot be labelled {labels}: {error}"
                problems.append(SyncProblem(LOCAL_QUEUE, entry.name, "NamespaceNotLabelled", text))
                self.failed = True
                continue
            self._manager.cache.assume(entry.resource, live)
            _log.info("namespace %s: labelled %s", entry.name, labels)
        return problems

    async def _one(self, action: Action, owner: str) -> SyncProblem | None:
        client, cache = self._manager.client, self._manager.cache
        if isinstance(action, ApplyObject):
            return await self._write(action, owner)
        there = action.found
        if isinstance(action, DeleteObject):
            _log.info("%s %s is deleted: %s", there.kind.kind, there.name, action.why)
            answer = await client.delete(there.kind, there.namespace or None, there.name, uid=there.uid)
            if answer.get("kind") == there.kind.kind:
                cache.assume(there.kind, answer)
            return None
        if isinstance(action, TouchObject):
            await self._touch(there)
            return None
        return await self._release(action)

    async def _touch(self, there: LiveObject) -> None:
        """Touch it, should it linger: a change makes Kueue look at it, which may have missed the last one."""
        self.lingering = True
        now = time.monotonic()
        if now < self._touch_at.setdefault(there.uid, now + LINGER):
            return
        self._touch_at[there.uid] = now + LINGER
        patch = {"metadata": {"annotations": {TOUCHED: datetime.now(UTC).isoformat(timespec="seconds")}}}
        live = await self._manager.client.merge_patch(
            there.kind, None, there.name, patch, uid=there.uid, field_manager=FIELD_MANAGER
        )
        self._manager.cache.assume(there.kind, live)
        _log.info(
            "%s %s is being deleted and nobody lists it: touched for Kueue", there.kind.kind, there.name
        )

    async def _write(self, action: ApplyObject, owner: str) -> SyncProblem | None:
        wanted, there = action.wanted, action.found
        drifted = (
            there is not None
            and there.applied == wanted.digest
            and not contains(there.form, wanted.form)
            and self._kept.get((there.uid, wanted.digest)) == there.generation
        )
        if drifted:
            # Sent before, and the API server keeps something else: sending it again would never end.
            text = (
                f"{wanted.kind.kind} {wanted.name}: the API server does not keep all that is listed; this "
                "version of Kueue may not know a field. Compare it with the live object"
            )
            return SyncProblem(wanted.kind, wanted.name, "NotKept", text)
        client = self._manager.client
        version = client.in_use(wanted.kind).version
        body = wanted.body(
            version,
            uid=there.uid if there else "",
            owner=owner if action.owned else "",
            as_of=there.version if there and action.as_found else "",
        )
        live = await client.apply(wanted.kind, body, field_manager=FIELD_MANAGER, force=True)
        self._manager.cache.assume(wanted.kind, live)
        metadata = live["metadata"]
        self._kept[metadata["uid"], wanted.digest] = metadata.get("generation", 0)
        verb = "created" if there is None else "changed"
        _log.info("%s %s %s: %s", wanted.kind.kind, wanted.name, verb, action.why)
        return None

    async def _release(self, action: ReleaseObject) -> SyncProblem | None:
        there = action.found
        patch = {
            "metadata": {"labels": {MANAGED_LABEL: None}, "annotations": {APPLIED: None}},
        }
        live = await self._manager.client.merge_patch(
            there.kind, there.namespace or None, there.name, patch,
            uid=there.uid, field_manager=FIELD_MANAGER,
        )  # fmt: skip
        self._manager.cache.assume(there.kind, live)
        _log.info("%s %s is not listed any more, it stays unmanaged", there.kind.kind, there.name)
        return None

    def _refusal(self, action: Action, error: ApiError | ConnectionBroken) -> SyncProblem:
        about = action.wanted if isinstance(action, ApplyObject) else action.found
        kind = about.kind.kind
        if isinstance(action, ApplyObject) and action.found is not None and _is_immutable(error):
            self.refused.add((action.found.uid, action.wanted.digest))
            self.again = True
            text = f"{kind} {about.name} is being replaced: {error.stable_message}"
            return SyncProblem(about.kind, about.name, f"{kind}Replacing", text, "PENDING")
        self.failed = True
        text = f"{kind} {about.name}: {error.stable_message}"
        _log.warning("%s", text)
        reason = "Refused" if isinstance(error, Invalid) else "WriteFailed"
        return SyncProblem(about.kind, about.name, reason, text)


def _is_immutable(error: ApiError | ConnectionBroken) -> bool:
    return isinstance(error, ApiError) and error.status in (403, 422) and _IMMUTABLE in error.message
