"""Executes the planned actions; one failure does not stop the others."""

from __future__ import annotations

import asyncio
import logging
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kaiwo.plugin.kit.api_errors import ApiError, Conflict, ConnectionBroken, Invalid, NotFound
from kaiwo.plugin.kit.controllers import RepeatedWrites, render_hash
from kaiwo.plugin.kit.json_access import lenient_map, lenient_maps
from kaiwo_kueue.deviations import correction, deviations, newer_checks
from kaiwo_kueue.kinds import (
    APPLIED,
    CLUSTER_QUEUE,
    FIELD_MANAGER,
    LOCAL_QUEUE,
    MANAGED_LABEL,
    QUEUE_CONFIG,
    RESOURCE_FLAVOR,
    TOUCHED,
)
from kaiwo_kueue.objects import ConfigOwner, SyncProblem
from kaiwo_kueue.sync_actions import (
    ApplyObject,
    DeleteObject,
    HoldObject,
    MigrateObject,
    RetryWorkloads,
    TouchObject,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from kaiwo.plugin.kit.cache import CachedObject
    from kaiwo.plugin.kit.controllers import Manager
    from kaiwo.plugin.kit.kinds import Object
    from kaiwo_kueue.objects import LiveObject
    from kaiwo_kueue.sync import RefusedChange
    from kaiwo_kueue.sync_actions import Action, ReleaseObject

_log = logging.getLogger(__name__)

_TIMEOUT = 15.0  # seconds for one write; the API server waits 10 for a webhook of Kueue that does not answer
_BUDGET = 25.0  # seconds after which a reconciliation begins no further write, so that problems are reported
RELEASE_SECONDS = 5.0
"""Seconds after which Kueue should have released a flavor that is being deleted and that nobody lists."""
CHANGED_BACK = "ChangedBack"
"""The reason of an object that is written ever more rarely, since somebody undoes each write."""

_IMMUTABLE = "immutable"
"""Part of each message in which Kueue refuses to change an immutable field."""


class SyncExecutor:
    """Writes Kueue's objects.

    Attributes:
        refused: changes that Kueue refused because a field is immutable.
        failed: whether a write of this reconciliation failed and has to be tried again.
        again: whether this reconciliation learned something that calls for another one at once.
        unreleased: whether flavors are being deleted that nobody lists.
        done: actions of this reconciliation that succeeded.
    """

    def __init__(self, manager: Manager) -> None:
        self._manager = manager
        self.refused: set[RefusedChange] = set()
        self.failed = False
        self.again = False
        self.unreleased = False
        self.done: list[Action] = []
        self._touch_at: dict[str, float] = {}
        self._kept: dict[str, tuple[str, int]] = {}  # by uid: what was written last, and its generation
        self._repeated = RepeatedWrites()

    def begin(self) -> None:
        """Begin a reconciliation: reset what the last one reported."""
        self.failed = self.again = self.unreleased = False
        self.done = []

    def forget_all_but(self, uids: Collection[str]) -> None:
        """Forget what is known of objects that are gone.

        Args:
            uids: of all live objects.
        """
        self.refused = {change for change in self.refused if change[0] in uids}
        self._touch_at = {uid: at for uid, at in self._touch_at.items() if uid in uids}
        self._kept = {uid: kept for uid, kept in self._kept.items() if uid in uids}

    async def run(self, actions: Iterable[Action], owner: ConfigOwner) -> list[SyncProblem]:
        """Execute actions in order.

        Args:
            actions: the actions.
            owner: the KaiwoQueueConfig.

        Returns:
            The problems of the actions that failed.
        """
        problems: list[SyncProblem] = []
        began = time.monotonic()
        for action in actions:
            if time.monotonic() - began > _BUDGET:
                self.failed = True
                break
            about = action.desired if isinstance(action, ApplyObject) else action.live
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
            if problem is None:
                self.done.append(action)
            else:
                problems.append(problem)
        return problems

    async def label(self, namespaces: Iterable[CachedObject], labels: Mapping[str, str]) -> list[SyncProblem]:
        """Label namespaces.

        Returns:
            The problems of the namespaces that could not be labelled.
        """
        problems: list[SyncProblem] = []
        for entry in namespaces:
            patch = {"metadata": {"labels": dict(labels)}}
            digest = render_hash(patch)
            if self._repeated.pause(entry.uid, digest) > 0:
                text = f"namespace {entry.name}: somebody removes {', '.join(labels)} after each write"
                problems.append(SyncProblem(LOCAL_QUEUE, entry.name, CHANGED_BACK, text))
                self.failed = True
                continue
            try:
                answer = await self._manager.client.merge_patch(
                    entry.resource, None, entry.name, patch, uid=entry.uid, field_manager=FIELD_MANAGER
                )
            except (Conflict, NotFound) as error:
                _log.info("namespace %s changed meanwhile: %s", entry.name, error)
                self.failed = True
                continue
            except (ApiError, ConnectionBroken) as error:
                wanted = ", ".join(f"{key}={value}" for key, value in labels.items())
                text = f"namespace {entry.name} cannot be labelled {wanted}: {error.stable_message}"
                problems.append(SyncProblem(LOCAL_QUEUE, entry.name, "NamespaceNotLabelled", text))
                self.failed = True
                continue
            self._repeated.record(entry.uid, digest)
            self._manager.cache.assume(entry.resource, answer)
            _log.info("namespace %s: labelled %s", entry.name, labels)
        return problems

    async def _one(self, action: Action, owner: ConfigOwner) -> SyncProblem | None:
        client, cache = self._manager.client, self._manager.cache
        if isinstance(action, ApplyObject):
            return await self._write(action, owner)
        live = action.live
        if isinstance(action, RetryWorkloads):
            if not action.flavors <= self._written_flavors():
                return None
            why = "its workloads are tried again, since its flavors let in other pods"
            return await self._write(ApplyObject(action.desired, live, owned=live.is_owned, why=why), owner)
        if isinstance(action, DeleteObject):
            _log.info("%s %s is deleted: %s", live.kind.kind, live.name, action.why)
            answer = await client.delete(live.kind, live.namespace or None, live.name, uid=live.uid)
            if answer.get("kind") == live.kind.kind:
                cache.assume(live.kind, answer)
            return None
        if isinstance(action, TouchObject):
            await self._touch(live)
            return None
        if isinstance(action, MigrateObject):
            await self._migrate(live)
            return None
        if isinstance(action, HoldObject):
            body = live.held_body(client.in_use(live.kind).version)
            cache.assume(live.kind, await client.apply(live.kind, body, field_manager=FIELD_MANAGER))
            _log.info("%s %s is held until no workload uses it", live.kind.kind, live.name)
            return None
        return await self._release(action)

    def _written_flavors(self) -> frozenset[str]:
        """Names of the flavors that this reconciliation has written."""
        written = (action.desired for action in self.done if isinstance(action, ApplyObject))
        return frozenset(item.name for item in written if item.kind == RESOURCE_FLAVOR)

    async def _migrate(self, live: LiveObject) -> None:
        entry = self._manager.cache.get(live.kind, live.namespace or None, live.name)
        references = lenient_maps(entry.part("metadata", "ownerReferences")) if entry is not None else []
        others = [item for item in references if item.get("kind") != QUEUE_CONFIG.kind]
        labels = ConfigOwner(live.owner).labels(live.kind)
        answer = await self._manager.client.merge_patch(
            live.kind, live.namespace or None, live.name,
            {"metadata": {"ownerReferences": others or None, "labels": labels}},
            uid=live.uid, resource_version=live.resource_version, field_manager=FIELD_MANAGER,
        )  # fmt: skip
        self._manager.cache.assume(live.kind, answer)
        _log.info("%s %s has a label instead of an owner reference", live.kind.kind, live.name)

    async def _touch(self, live: LiveObject) -> None:
        """Change an annotation when Kueue does not release a flavor: it may have missed the last event."""
        self.unreleased = True
        now = time.monotonic()
        if now < self._touch_at.setdefault(live.uid, now + RELEASE_SECONDS):
            return
        self._touch_at[live.uid] = now + RELEASE_SECONDS
        patch = {"metadata": {"annotations": {TOUCHED: datetime.now(UTC).isoformat(timespec="seconds")}}}
        answer = await self._manager.client.merge_patch(
            live.kind, None, live.name, patch, uid=live.uid, field_manager=FIELD_MANAGER
        )
        self._manager.cache.assume(live.kind, answer)
        _log.info("%s %s is being deleted and nobody lists it: touched for Kueue", live.kind.kind, live.name)

    async def _write(self, action: ApplyObject, owner: ConfigOwner) -> SyncProblem | None:
        desired, live = action.desired, action.live
        drifted = (
            live is not None
            and live.applied == desired.digest
            and deviations(desired.kind, live.normal_spec, desired.normal_spec, owned=action.owned)
            and self._kept.get(live.uid) == (desired.digest, live.generation)
        )
        if drifted:
            # It was sent before, and the API server stored something else: sending it again would not help.
            text = (
                f"{desired.kind.kind} {desired.name}: the API server does not keep all that is listed; this "
                "version of Kueue may not know a field. Compare it with the live object"
            )
            return SyncProblem(desired.kind, desired.name, "NotKept", text)
        if live is not None and self._repeated.pause(desired.identity, desired.digest) > 0:
            text = f"{desired.kind.kind} {desired.name}: somebody changes it back after each write"
            self.failed = True
            return SyncProblem(desired.kind, desired.name, CHANGED_BACK, text)
        client = self._manager.client
        version = client.in_use(desired.kind).version
        body = desired.body(
            version,
            owner if action.owned else ConfigOwner(),
            uid=live.uid if live else "",
            resource_version=live.resource_version if live and action.if_unchanged else "",
        )
        before = live.spec if live is not None and desired.kind == CLUSTER_QUEUE else {}
        if live is not None and (patch := newer_checks(before, desired.spec)):
            await client.merge_patch(
                desired.kind, None, desired.name, {"spec": patch}, uid=live.uid, field_manager=FIELD_MANAGER
            )
        answer = await client.apply(desired.kind, body, field_manager=FIELD_MANAGER, force=True)
        answer = await self._corrected(action, answer, version)
        self._repeated.record(desired.identity, desired.digest)
        self._manager.cache.assume(desired.kind, answer)
        metadata = answer["metadata"]
        self._kept[metadata["uid"]] = (desired.digest, metadata.get("generation", 0))
        verb = "created" if live is None else "changed"
        _log.info("%s %s %s: %s", desired.kind.kind, desired.name, verb, action.why)
        return None

    async def _corrected(self, action: ApplyObject, answer: Object, version: str) -> Object:
        """The applied object, with what another field manager wrote against the list set as well."""
        desired = action.desired
        if desired.kind not in (CLUSTER_QUEUE, RESOURCE_FLAVOR):
            return answer
        live = lenient_map(answer.get("spec"))
        patch = correction(desired.kind, version, live, desired.spec, owned=action.owned)
        if not patch:
            return answer
        uid = answer["metadata"]["uid"]
        _log.info(
            "%s %s: %s set, which somebody else wrote", desired.kind.kind, desired.name, ", ".join(patch)
        )
        return await self._manager.client.merge_patch(
            desired.kind, None, desired.name, {"spec": patch}, uid=uid, field_manager=FIELD_MANAGER
        )

    async def _release(self, action: ReleaseObject) -> SyncProblem | None:
        live = action.live
        patch = {
            "metadata": {"labels": {MANAGED_LABEL: None}, "annotations": {APPLIED: None}},
        }
        answer = await self._manager.client.merge_patch(
            live.kind, live.namespace or None, live.name, patch,
            uid=live.uid, field_manager=FIELD_MANAGER,
        )  # fmt: skip
        self._manager.cache.assume(live.kind, answer)
        _log.info("%s %s is not listed any more, it stays unmanaged", live.kind.kind, live.name)
        return None

    def _refusal(self, action: Action, error: ApiError | ConnectionBroken) -> SyncProblem:
        about = action.desired if isinstance(action, ApplyObject) else action.live
        kind = about.kind.kind
        if isinstance(action, ApplyObject) and action.live is not None and _is_immutable(error):
            others = {change for change in self.refused if change[0] != action.live.uid}
            self.refused = {*others, (action.live.uid, action.desired.digest)}
            self.again = True
            text = f"{kind} {about.name} cannot be changed: {error.stable_message}"
            return SyncProblem(about.kind, about.name, f"{kind}Replacing", text, "PENDING")
        self.failed = True
        text = f"{kind} {about.name}: {error.stable_message}"
        _log.warning("%s", text)
        reason = "Refused" if isinstance(error, Invalid) else "WriteFailed"
        return SyncProblem(about.kind, about.name, reason, text)


def _is_immutable(error: ApiError | ConnectionBroken) -> bool:
    return isinstance(error, ApiError) and error.status in (403, 422) and _IMMUTABLE in error.message
