"""Finds the root owner of a pod, by reads of metadata that are kept for a while.

What owner references say is written by whoever made an object: chains are bounded, and one that leads back to
itself has no root.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from kaiwo.plugin.kit.api_errors import EngineError, Forbidden, NotFound
from kaiwo.plugin.kit.json_access import lenient_map, lenient_maps, lenient_text
from kaiwo_gpu_preemption.kinds import kind_of_owner
from kaiwo_gpu_preemption.policy import own_annotations

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kaiwo.plugin.kit.cache import CachedObject
    from kaiwo.plugin.kit.controllers import Client
    from kaiwo.plugin.kit.kinds import Object, Resource

LONGEST_CHAIN: Final = 10
"""Objects from a pod to its root; the longest real chain has five."""

SHORTEST_REFRESH: Final = 30.0
"""Seconds for which the metadata of an owner are kept at least."""

_LONGEST_TEXT: Final = 4096
ARROW: Final = " -> "
"""Between two objects of a chain, as `Root.chain` shows it."""

_PER_SECOND: Final = 20.0  # reads of metadata per second at most, for owners that are known already
_LONGEST_WAIT: Final = 20.0
"""Seconds of one pass that reads which fail may take; then their kinds are not read again in it."""


@dataclass(frozen=True, slots=True)
class OwnerRef:
    """The controller of an object, as its owner reference names it."""

    api_version: str
    kind: str
    name: str
    uid: str

    def __str__(self) -> str:
        """``Job/train``."""
        return f"{self.kind}/{self.name}"


@dataclass(frozen=True, slots=True)
class OwnerMetadata:
    """What is known of one object of a chain.

    Attributes:
        resource: its kind.
        namespace: its namespace.
        name: its name.
        uid: its uid.
        resource_version: when it was read.
        annotations: those of the plugin, see `own_annotations`.
        owner: its controller, None where it has none.
        deleting: it is being deleted.
    """

    resource: Resource
    namespace: str
    name: str
    uid: str
    resource_version: str
    annotations: Mapping[str, str]
    owner: OwnerRef | None
    deleting: bool = False

    def __str__(self) -> str:
        """``Job/train``."""
        return f"{self.resource.kind}/{self.name}"


@dataclass(frozen=True, slots=True)
class Root:
    """Where a chain of owners ends.

    Attributes:
        owner: the root.
        chain: ``Pod/w-0 -> Job/train``.
        unreadable: an owner above it that cannot be read, in words; empty where there is none.
        uids: of all objects of the chain.
    """

    owner: OwnerMetadata
    chain: str
    unreadable: str = ""
    uids: frozenset[str] = frozenset()


class NoRoot(Exception):
    """A chain of owners has no root: it is too long, leads back to itself, or an owner of it is gone."""


class OwnerUnreadable(EngineError):
    """An owner cannot be read now, and nothing is known of it.

    Attributes:
        namespace: its namespace.
        owner: the owner.
    """

    def __init__(self, namespace: str, owner: OwnerRef, error: EngineError) -> None:
        super().__init__(f"{owner} in namespace {namespace} cannot be read: {error.stable_message}")
        self.namespace = namespace
        self.owner = owner


class KindNotServed(EngineError):
    """The API server does not serve the version of a kind by which the plugin reads it."""


@dataclass(slots=True)
class _Kept:
    metadata: OwnerMetadata | None
    at: float
    used: float
    problem: str = ""
    served: bool = True


@dataclass(frozen=True, slots=True)
class _Failure:
    error: EngineError
    until: float  # when it is read again


def owner_metadata(resource: Resource, obj: Object) -> OwnerMetadata:
    """What is known of an object from its metadata.

    Args:
        resource: its kind.
        obj: the object, or only its metadata under ``metadata``.
    """
    metadata = lenient_map(obj.get("metadata"))
    controller = next(
        (one for one in lenient_maps(metadata.get("ownerReferences")) if one.get("controller") is True), None
    )
    return OwnerMetadata(
        resource,
        lenient_text(metadata.get("namespace")),
        lenient_text(metadata.get("name")),
        lenient_text(metadata.get("uid")),
        lenient_text(metadata.get("resourceVersion")),
        own_annotations(lenient_map(metadata.get("annotations"))),
        OwnerRef(*(lenient_text(controller.get(part)) for part in ("apiVersion", "kind", "name", "uid")))
        if controller is not None
        else None,
        bool(metadata.get("deletionTimestamp")),
    )


@dataclass(slots=True)
class OwnerReader:
    """Reads owners and keeps them for a while.

    Attributes:
        client: reads.
        cached: an object that is in the operator's cache anyhow, None for any other.
        clock: monotonic seconds.
    """

    client: Client
    cached: Callable[[Resource, str, str], CachedObject | None]
    clock: Callable[[], float]
    _kept: dict[tuple[str, str, str, str], _Kept] = field(default_factory=dict)
    _failed: dict[tuple[str, str, str, str], _Failure] = field(default_factory=dict)
    _failing: dict[Resource, EngineError] = field(default_factory=dict)  # of this pass, by kind
    _waited: float = 0.0  # seconds of this pass that reads took which failed

    def begin_pass(self) -> None:
        """Begin to read the owners of all pods once more."""
        self._failing.clear()
        self._waited = 0.0

    async def root(self, start: CachedObject) -> Root:
        """The root owner of a pod, or of another object with owners.

        Raises:
            NoRoot: there is none.
            OwnerUnreadable: an owner cannot be read now.
        """
        current = _cached_metadata(start)
        chain, seen = [str(current)], {current.uid}
        unreadable = ""
        while (reference := current.owner) is not None:
            if reference.uid in seen:
                raise NoRoot(f"owners of {_named(start)} lead back to {reference}")
            if len(chain) >= LONGEST_CHAIN:
                raise NoRoot(f"{_named(start)} has more than {LONGEST_CHAIN - 1} owners, one above the other")
            known = await self._owner(start.namespace, reference)
            if known.problem:
                unreadable = known.problem
                break
            if known.metadata is None:
                raise NoRoot(f"{reference}, the owner of {current}, is gone")
            seen.add(reference.uid)
            current = known.metadata
            chain.append(str(current))
        return Root(current, ARROW.join(chain)[:_LONGEST_TEXT], unreadable, frozenset(seen))

    async def _owner(self, namespace: str, reference: OwnerRef) -> _Kept:
        resource = kind_of_owner(reference.api_version, reference.kind)
        if resource is None:
            return _Kept(None, 0.0, 0.0, f"its owner {reference} is of a kind that is not known")
        return await self._read(resource, namespace, reference)

    async def fresh(self, resource: Resource, namespace: str, name: str, uid: str) -> OwnerMetadata | None:
        """The metadata of an owner as they are now; None where it is gone or another one.

        Raises:
            KindNotServed: its kind is not served.
            EngineError: it cannot be read.
        """
        key = (str(resource), namespace, name, uid)
        try:
            found = owner_metadata(resource, await self.client.get_metadata(resource, namespace, name))
        except NotFound as error:
            if not error.details.get("name"):
                text = f"the API server does not serve {resource} ({resource.api_version})"
                raise KindNotServed(text) from error
            self._kept.pop(key, None)
            return None
        now = self.clock()
        if found.uid != uid:
            self._kept.pop(key, None)
            return None
        self._kept[key] = _Kept(found, now, now)
        return found

    def forget_unused(self, seconds: float) -> None:
        """Forget what nobody asked for."""
        oldest = self.clock() - seconds
        self._kept = {key: kept for key, kept in self._kept.items() if kept.used >= oldest}
        self._failed = {key: failure for key, failure in self._failed.items() if failure.until >= oldest}

    async def known(self, resource: Resource, namespace: str, name: str, uid: str) -> OwnerMetadata | None:
        """The metadata of an owner, perhaps as they were a while ago; None where it is gone.

        Raises:
            KindNotServed: its kind is not served.
            EngineError: it cannot be read.
        """
        kind = resource.api_version, resource.kind
        found = await self._read(resource, namespace, OwnerRef(*kind, name, uid))
        if found.problem:
            raise EngineError(found.problem) if found.served else KindNotServed(found.problem)
        return found.metadata

    async def _read(self, resource: Resource, namespace: str, reference: OwnerRef) -> _Kept:
        key = (str(resource), namespace, reference.name, reference.uid)
        now = self.clock()
        live = self.cached(resource, namespace, reference.name)
        if live is not None and live.uid == reference.uid:
            return _Kept(owner_metadata(resource, {"metadata": live.part("metadata")}), now, now)
        known = self._kept.get(key)
        longest = max(SHORTEST_REFRESH, len(self._kept) / _PER_SECOND)
        if known is not None and now - known.at < longest:
            known.used = now
            return known
        if error := self._not_again(key, resource):
            return self._without_answer(known, namespace, reference, error)
        try:
            found = await self.fresh(resource, namespace, reference.name, reference.uid)
        except Forbidden:
            text = f"its owner {reference} cannot be read: the operator has no right to get {resource}"
            kept = self._kept[key] = _Kept(None, now, now, text)
            return kept
        except EngineError as error:
            if isinstance(error, KindNotServed) and (known is None or known.metadata is None):
                text = f"its owner {reference} cannot be read: {error}"
                kept = self._kept[key] = _Kept(None, now, now, text, served=False)
                return kept
            after = self.clock()
            self._waited += after - now
            self._failing[resource] = error
            self._failed[key] = _Failure(error, after + longest)
            return self._without_answer(known, namespace, reference, error)
        self._failed.pop(key, None)
        if found is None:
            kept = self._kept[key] = _Kept(None, now, now)
            return kept
        return self._kept[key]

    def _not_again(self, key: tuple[str, str, str, str], resource: Resource) -> EngineError | None:
        """Why an owner is not read now: that failed a moment ago, or takes too long for its kind."""
        failure = self._failed.get(key)
        if failure is not None and self.clock() < failure.until:
            return failure.error
        return self._failing.get(resource) if self._waited > _LONGEST_WAIT else None

    def _without_answer(
        self, known: _Kept | None, namespace: str, reference: OwnerRef, error: EngineError
    ) -> _Kept:
        """What was known of an owner that cannot be read now."""
        if known is None:
            raise OwnerUnreadable(namespace, reference, error)
        known.used = self.clock()
        return known


def _named(start: CachedObject) -> str:
    """``pod team/w-0``."""
    return f"{start.resource.kind.lower()} {start.namespace}/{start.name}"


def _cached_metadata(start: CachedObject) -> OwnerMetadata:
    """What is known of the first object of a chain; only a root needs its annotations."""
    owner = start.controller
    return OwnerMetadata(
        start.resource, start.namespace, start.name, start.uid, start.resource_version,
        own_annotations(start.annotations) if owner is None else {},
        OwnerRef(owner.api_version, owner.kind, owner.name, owner.uid) if owner is not None else None,
        start.deleted is not None,
    )  # fmt: skip
