"""The one way of writing: create once, apply, patch named keys, patch status, delete.

Every write is tied to the object it is meant for (by uid or resourceVersion), so that one that was delayed
conflicts instead of hitting a successor. Every answer goes into the cache at once, so that the next
reconciliation never repeats a write because the watch is slower than the worker.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from kaiwo.engine.conditions import merge
from kaiwo.engine.diff import contains, difference, would_change
from kaiwo.engine.errors import AlreadyExists, ChangedBack, Conflict, ConnectionBroken, NotFound
from kaiwo.engine.repeated_writes import MANY, RepeatedWrites
from kaiwo.engine.written_statuses import WrittenStatuses

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable

    from kaiwo.engine.cached_object import CachedObject, Path
    from kaiwo.engine.client import Client, Propagation
    from kaiwo.engine.resource import Object, Resource
    from kaiwo.engine.store import Cache

_log = logging.getLogger(__name__)
_canonical = msgspec.json.Encoder(order="deterministic").encode


@dataclass(frozen=True, slots=True)
class Written:
    """The object is as wanted.

    Attributes:
        live: the object as the API server has it.
        changed: False when nothing had to be sent.
    """

    live: Object
    changed: bool = True


@dataclass(frozen=True, slots=True)
class NameConflict:
    """The wanted name is taken by an object that is not ours, or that is on its way out; it was not touched.

    Attributes:
        live: that object.
        owner: the owner reference of its controller, None when it has none.
        deleting: whether it is being deleted, so that waiting helps.
    """

    live: Object
    owner: Object | None
    deleting: bool


@dataclass(frozen=True, slots=True)
class StatusWritten:
    """The status is as wanted.

    Attributes:
        live: the object as the API server has it.
        changed: False when nothing had to be sent.
    """

    live: CachedObject
    changed: bool = True


Outcome: TypeAlias = Written | NameConflict

_VERSION = "resourceVersion"


@dataclass(frozen=True, slots=True)
class _Step:
    """One write of an object.

    Attributes:
        key: of the object.
        digest: of what is written.
        undone: what somebody does after it, should it come again and again.
    """

    key: Hashable
    digest: str
    undone: str


def render_hash(obj: Object) -> str:
    """A hash of a rendered object; equal for equal content whatever the order of keys."""
    return sha256(_canonical(obj)).hexdigest()[:32]


class Writer:
    """Writes objects under one field manager.

    All methods raise what `Client` raises; after a Conflict the object has changed and is to be reconciled
    again. ChangedBack means that somebody undid the last writes of an object, ValueError that a kind is
    written whose projection drops what the comparison needs.
    """

    def __init__(self, client: Client, cache: Cache, *, field_manager: str, applied_annotation: str) -> None:
        """Prepare.

        Args:
            client: sends.
            cache: takes in every answer.
            field_manager: whose fields these are.
            applied_annotation: key of the annotation that keeps the hash of what was applied last. That is
                how a field which is no longer rendered is noticed.
        """
        self._client = client
        self._cache = cache
        self._manager = field_manager
        self._annotation = applied_annotation
        self._repeated = RepeatedWrites()
        self._statuses = WrittenStatuses(cache)

    async def create_once(self, resource: Resource, obj: Object) -> Outcome:
        """Create an object by POST, or find that it is there.

        An object of that name is ours when it is controlled by the same owner (by uid). After a lost
        answer the next call finds the object instead of making a second one.
        """
        known = self._known(resource, obj)
        if known is not None:
            return _judge(known.full(), ours=_same_owner(known.full(), obj))
        step = _creation(resource, obj, render_hash(obj))
        self._check(step)
        for last in (False, True):
            try:
                # Applying refuses unknown fields; what is created must not lose them silently.
                live = await self._client.create(
                    resource, obj, field_manager=self._manager, field_validation="Strict"
                )
            except AlreadyExists:
                found = await self._find(resource, obj)
                if found is not None:
                    self._cache.assume(resource, found)
                    return _judge(found, ours=_same_owner(found, obj))
                if last:
                    raise
            else:
                self._cache.assume(resource, live)
                self._record(step)
                return Written(live)
        raise AssertionError  # pragma: no cover -- the last attempt returns or raises

    async def apply(self, resource: Resource, obj: Object, *, live: CachedObject | None = None) -> Outcome:
        """Create or change an object by server-side apply.

        Skipped when the live object already contains what is wanted and what was applied last is the same.
        An object is ours when it is controlled by the wanted owner (by uid) or, if the wanted one has no
        owner, when it carries the annotation. One that is not in the cache, and so is new to whoever decided
        to write, must also have been written by this field manager.

        Args:
            resource: the kind.
            obj: the rendered object, all fields that shall be ours and no others.
            live: the object as known, if the caller has it at hand; else it is read from the cache.
        """
        digest = render_hash(obj)
        metadata = obj["metadata"]
        annotations = {**(metadata.get("annotations") or {}), self._annotation: digest}
        desired = {**obj, "metadata": {**metadata, "annotations": annotations}}
        known = live or self._known(resource, obj)
        self._need(resource)
        # Not in the cache may mean: not ours to see. Forcing fields on it would be a hijack.
        current = known.full() if known is not None else await self._find(resource, obj)
        if current is None:
            step = _creation(resource, obj, digest)
            return await self._apply(resource, desired, step, force=False)
        known_writer = known is not None or self._has_written(current)
        verdict = _judge(current, ours=known_writer and self._is_ours(current, obj))
        if isinstance(verdict, NameConflict):
            return verdict
        applied = (current["metadata"].get("annotations") or {}).get(self._annotation)
        if applied == digest and contains(current, desired):
            return verdict
        desired["metadata"]["uid"] = current["metadata"]["uid"]
        return await self._apply(resource, desired, _change(resource, current, obj), force=True)

    async def patch(self, obj: CachedObject, patch: Object) -> Written:
        """Change named keys by a merge patch; nothing is sent when they are so already.

        Args:
            obj: the object meant; a successor of the same name conflicts.
            patch: keys to change; null removes, lists are replaced whole.
        """
        self._need(obj.resource)
        current = obj.full()
        if not would_change(current, patch):
            return Written(current, changed=False)
        step = _change(obj.resource, current, patch)
        self._check(step)
        live = await self._client.merge_patch(
            obj.resource,
            obj.namespace or None,
            obj.name,
            patch,
            uid=obj.uid,
            field_manager=self._manager,
        )
        self._cache.assume(obj.resource, live)
        self._record(step)
        return Written(live)

    async def patch_status(
        self, obj: CachedObject, status: Object, *, own_conditions: Collection[str] = ()
    ) -> StatusWritten:
        """Change status fields in one patch; nothing is sent when they are so already.

        A status that somebody else replaces after each write is written ever more rarely (ChangedBack); what
        nobody has replaced is written at once.

        Args:
            obj: the object as it was when the status was decided; conflicts if it has changed since. It may
                be one that cannot be decoded as a whole.
            status: fields to set, None removes one; fields not named stay. ``conditions`` holds own
                conditions only and is merged (see `kaiwo.engine.conditions.merge`).
            own_conditions: all condition types that are ours; those of `status` where none are given.
        """
        self._need(obj.resource, ("status",))
        store = self._cache.store(obj.resource)
        if store is None:
            raise ValueError(f"{obj.resource}: a kind whose status is written must be in the cache")
        current: Object = obj.part("status") or {}
        wanted = dict(status)
        if "conditions" in wanted:
            wanted["conditions"] = merge(
                current.get("conditions") or [], wanted["conditions"] or [], own_conditions
            )
        patch = difference({key: current.get(key) for key in wanted}, wanted)
        if not patch:
            self._statuses.agreed(obj, current, wanted.keys())
            return StatusWritten(obj, changed=False)
        replaced = self._statuses.is_replaced(obj, current)
        if replaced and (seconds := self._statuses.pause(obj)) > 0:
            raise ChangedBack(_replaced(obj), seconds)
        answer = await self._client.patch_status(obj, patch, field_manager=self._manager)
        try:
            live = store.assume(answer)
        except ValueError as error:
            raise ConnectionBroken(f"patch {obj.resource}: the answer is not an object: {error}") from error
        types = own_conditions or [condition["type"] for condition in status.get("conditions") or ()]
        if self._statuses.written(live, wanted.keys(), types, replaced=replaced) == MANY:
            _log.warning(
                "%s; from now on it is written ever more rarely. If several installations share it, give all "
                "of them the same version and plugins",
                _replaced(obj),
            )
        return StatusWritten(live)

    async def delete(self, obj: CachedObject, *, propagation: Propagation = "Background") -> bool:
        """Delete exactly this object.

        Returns:
            Whether the request was sent now; False when the object is gone or replaced already.
        """
        try:
            answer = await self._client.delete(
                obj.resource, obj.namespace or None, obj.name, uid=obj.uid, propagation=propagation
            )
        except (NotFound, Conflict):
            return False
        if answer.get("kind") == obj.resource.kind:
            self._cache.assume(obj.resource, answer)
        return True

    def _need(self, resource: Resource, part: Path | None = None) -> None:
        """What is written is compared with what is cached, which must therefore be whole."""
        store = self._cache.store(resource)
        kept = store.projection.keep if store is not None else ()
        if kept and part not in kept:
            what = ".".join(part) if part else "the whole object"
            raise ValueError(f"{resource}: the projection of a kind that is written must keep {what}")

    def _known(self, resource: Resource, obj: Object) -> CachedObject | None:
        metadata = obj["metadata"]
        return self._cache.get(resource, metadata.get("namespace"), metadata["name"])

    async def _find(self, resource: Resource, obj: Object) -> Object | None:
        metadata = obj["metadata"]
        try:
            return await self._client.get(resource, metadata.get("namespace"), metadata["name"])
        except NotFound:
            return None

    async def _apply(self, resource: Resource, desired: Object, step: _Step, *, force: bool) -> Written:
        self._check(step)
        live = await self._client.apply(resource, desired, field_manager=self._manager, force=force)
        self._cache.assume(resource, live)
        self._record(step)
        return Written(live)

    def _check(self, step: _Step) -> None:
        """Refuse a write whose like somebody else undoes again and again.

        Raises:
            ChangedBack: it has to wait.
        """
        if (seconds := self._repeated.pause(step.key, step.digest)) > 0:
            raise ChangedBack(step.undone, seconds)

    def _record(self, step: _Step) -> None:
        if self._repeated.record(step.key, step.digest) == MANY:
            _log.warning("%s; from now on it is written ever more rarely", step.undone)

    def _has_written(self, live: Object) -> bool:
        managed = live["metadata"].get("managedFields") or ()
        return any(item.get("manager") == self._manager for item in managed)

    def _is_ours(self, live: Object, obj: Object) -> bool:
        if _controller(obj) is not None:
            return _same_owner(live, obj)
        return self._annotation in (live["metadata"].get("annotations") or {})


def _creation(resource: Resource, obj: Object, digest: str) -> _Step:
    metadata = obj["metadata"]
    owner = (_controller(obj) or {}).get("uid")
    key = (resource, metadata.get("namespace"), metadata["name"], owner)
    return _Step(key, digest, f"somebody deletes {resource.kind} {metadata['name']} after each creation")


def _change(resource: Resource, live: Object, content: Object) -> _Step:
    metadata = {key: value for key, value in content.get("metadata", {}).items() if key != _VERSION}
    digest, key = render_hash({**content, "metadata": metadata}), (resource, live["metadata"]["uid"])
    name = live["metadata"]["name"]
    return _Step(key, digest, f"somebody changes {resource.kind} {name} back after each write")


def _replaced(obj: CachedObject) -> str:
    where = f"{obj.namespace}/{obj.name}" if obj.namespace else obj.name
    return f"somebody replaces the status of {obj.resource.kind} {where} after each write"


def _judge(live: Object, *, ours: bool) -> Outcome:
    deleting = bool(live["metadata"].get("deletionTimestamp"))
    if ours and not deleting:
        return Written(live, changed=False)
    return NameConflict(live, _controller(live), deleting)


def _same_owner(live: Object, obj: Object) -> bool:
    wanted, found = _controller(obj), _controller(live)
    return wanted is not None and found is not None and wanted.get("uid") == found.get("uid")


def _controller(obj: Object) -> Object | None:
    for owner in obj["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            reference: Object = owner
            return reference
    return None
