"""A small asynchronous Kubernetes client: plain JSON in, plain JSON out, nothing dropped or coerced."""

from __future__ import annotations

import logging
import random
from contextlib import aclosing
from typing import TYPE_CHECKING, Literal, Self
from urllib.parse import quote, urlencode

from kaiwo.engine.discovery import Discovery
from kaiwo.engine.errors import Conflict, Invalid, NotFound, UndecodableObject, from_status
from kaiwo.engine.resource import POD
from kaiwo.engine.transport import JSON, HttpRequest, Transport
from kaiwo.engine.wire import Page, decode_event, decode_object, decode_page, encode

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Collection

    import msgspec

    from kaiwo.engine.credentials import Connection
    from kaiwo.engine.metrics import Metrics
    from kaiwo.engine.resource import Object, Resource

_log = logging.getLogger(__name__)

Propagation = Literal["Background", "Foreground", "Orphan"]
FieldValidation = Literal["Ignore", "Warn", "Strict"]

PAGE = 500
"""Objects per page of a list, as in client-go's pager."""

STALL = 150.0
"""Seconds of silence after which a watch counts as dead. The API server sends a bookmark every minute."""

LONGEST_EVENT = 64 << 20
"""Bytes of the longest watch event that is taken; etcd takes objects of 1.5 MB by default."""

LONGEST_LOG_LINE = 64 << 10
"""Bytes of the longest line of a log that is taken: a container may write whatever it likes."""

_APPLY = "application/apply-patch+yaml"
_MERGE = "application/merge-patch+json"


class Client:
    """Talks to one API server; every request has a time limit, safe ones are repeated.

    Errors of all methods: `ApiError` for a refusal, `ConnectionBroken` when no answer came, `NotLeading` for
    a mutating request while this process may not write, `CredentialsError`, and `UndecodableObject` for an
    answer that is nested too deeply.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        user_agent: str = "kaiwo",
        timeout: float = 30.0,
        concurrency: int = 32,
        metrics: Metrics | None = None,
    ) -> None:
        """Prepare a client; nothing is sent yet.

        Args:
            connection: where to, and with which credentials.
            user_agent: shows in the API server's audit log.
            timeout: seconds for a whole request; watches have their own limits.
            concurrency: requests under way at once, watches apart.
            metrics: counts requests.
        """
        self.connection = connection
        self._transport = Transport(
            connection, user_agent=user_agent, timeout=timeout, concurrency=concurrency, metrics=metrics
        )
        self._discovery = Discovery(self.get_json)

    @property
    def may_write(self) -> Callable[[], bool] | None:
        """The check right before each mutating request is sent; False holds it back with `NotLeading`."""
        return self._transport.may_write

    @may_write.setter
    def may_write(self, may_write: Callable[[], bool] | None) -> None:
        self._transport.may_write = may_write

    async def __aenter__(self) -> Self:
        """Use as ``async with Client(...) as client``."""
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Close."""
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        await self._transport.close()

    def in_use(self, resource: Resource) -> Resource:
        """The kind at the version that requests are sent to: its own, or the fallback found last."""
        return self._discovery.in_use(resource)

    async def find_version(self, resource: Resource) -> bool:
        """Use the newest served version of a kind with fallbacks; whether it is another one than before."""
        return await self._discovery.find_version(resource)

    async def get(
        self, resource: Resource, namespace: str | None, name: str, *, urgent: bool = False
    ) -> Object:
        """One object; NotFound when there is none.

        Args:
            resource: the kind.
            namespace: None for cluster-scoped kinds.
            name: of the object.
            urgent: does not wait for other requests; for the lease.
        """
        path = _path(self.in_use(resource), namespace, name)
        return await self._send(HttpRequest("get", str(resource), "GET", path, urgent=urgent))

    async def pages(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str | None = None,
        field_selector: str | None = None,
    ) -> AsyncGenerator[Page, None]:
        """All objects as of one moment, 500 at a time; Gone when that moment is forgotten meanwhile."""
        query = {"limit": str(PAGE)}
        if label_selector:
            query["labelSelector"] = label_selector
        if field_selector:
            query["fieldSelector"] = field_selector
        while True:
            path = _path(self.in_use(resource), namespace) + "?" + urlencode(query)
            try:
                body = await self._transport.send(HttpRequest("list", str(resource), "GET", path))
            except NotFound:
                if "continue" not in query and resource.fallbacks and await self.find_version(resource):
                    continue
                raise
            page = decode_page(body, f"list {resource}")
            yield page
            if not page.rest:
                return
            query["continue"] = page.rest

    async def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str | None = None,
        field_selector: str | None = None,
    ) -> AsyncGenerator[Object, None]:
        """All objects, in pages; apiVersion and kind are filled in where the API server leaves them out.

        One that is nested too deeply is left out, with a warning in the log.
        """
        pages = self.pages(resource, namespace, label_selector=label_selector, field_selector=field_selector)
        async for page in pages:
            for raw in page.items:
                try:
                    obj = decode_object(raw, f"list {resource}")
                except UndecodableObject as error:
                    _log.warning("%s", error)
                    continue
                obj.setdefault("apiVersion", resource.api_version)
                obj.setdefault("kind", resource.kind)
                yield obj

    async def create(
        self,
        resource: Resource,
        obj: Object,
        *,
        field_manager: str | None = None,
        field_validation: FieldValidation | None = None,
        dry_run: bool = False,
        urgent: bool = False,
    ) -> Object:
        """POST an object; AlreadyExists when the name is taken.

        Not repeated when the answer is lost: after ConnectionBroken or ServerUnavailable the object may
        exist, which the next attempt learns from AlreadyExists.

        Args:
            resource: the kind.
            obj: the whole object.
            field_manager: whose fields these are.
            field_validation: what to do about unknown fields; the API server's default is Warn.
            dry_run: return what would come out, change nothing.
            urgent: waits for no other request, and is sent also while this process may not write.
                For the lease.
        """
        path = _path(self.in_use(resource), _namespace(obj)) + _query(
            fieldManager=field_manager, fieldValidation=field_validation, dryRun="All" if dry_run else None
        )
        request = HttpRequest(
            "create", str(resource), "POST", path, encode(obj), JSON, not dry_run, dry_run, urgent
        )
        return await self._send(request)

    async def apply(
        self,
        resource: Resource,
        obj: Object,
        *,
        field_manager: str,
        force: bool = True,
        subresource: str | None = None,
        field_validation: FieldValidation | None = None,
        dry_run: bool = False,
    ) -> Object:
        """Server-side apply: these fields are set, and those sent before and now left out are removed.

        Args:
            resource: the kind.
            obj: apiVersion, kind, metadata.name and the fields wanted. With metadata.uid only that object is
                changed, and none is created (Conflict).
            field_manager: whose fields these are.
            force: take fields from other managers; otherwise Conflict.
            subresource: for example ``status``.
            field_validation: what to do about unknown fields; the API server's default is Warn.
            dry_run: return what would come out, change nothing.
        """
        name: str = obj["metadata"]["name"]
        path = _path(self.in_use(resource), _namespace(obj), name, subresource) + _query(
            fieldManager=field_manager,
            force="true" if force else None,
            fieldValidation=field_validation,
            dryRun="All" if dry_run else None,
        )
        request = HttpRequest(
            "apply", str(resource), "PATCH", path, encode(obj), _APPLY, mutating=not dry_run
        )
        return await self._send_to(obj["metadata"].get("uid"), request)

    async def merge_patch(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        patch: Object,
        *,
        subresource: str | None = None,
        uid: str | None = None,
        resource_version: str | None = None,
        field_manager: str | None = None,
    ) -> Object:
        """Change named keys (RFC 7386: null removes, lists are replaced).

        Args:
            resource: the kind.
            namespace: None for cluster-scoped kinds.
            name: of the object.
            patch: the keys to change.
            subresource: for example ``status``.
            uid: the object must still be this one, else Conflict. The API server ignores it in a
                patch of a custom resource's status: give the resourceVersion there.
            resource_version: the object must not have changed since, else Conflict.
            field_manager: whose fields these are.
        """
        if uid or resource_version:
            metadata = dict(patch.get("metadata") or {})
            if uid:
                metadata["uid"] = uid
            if resource_version:
                metadata["resourceVersion"] = resource_version
            patch = {**patch, "metadata": metadata}
        path = _path(self.in_use(resource), namespace, name, subresource) + _query(fieldManager=field_manager)
        request = HttpRequest("patch", str(resource), "PATCH", path, encode(patch), _MERGE, mutating=True)
        return await self._send_to(uid, request)

    async def replace(
        self, resource: Resource, obj: Object, *, subresource: str | None = None, urgent: bool = False
    ) -> Object:
        """PUT a whole object; Conflict unless its resourceVersion is still the current one.

        Args:
            resource: the kind.
            obj: the object as read, with changes.
            subresource: for example ``status``.
            urgent: waits for no other request, and is sent also while this process may not write.
                For the lease.
        """
        path = _path(self.in_use(resource), _namespace(obj), obj["metadata"]["name"], subresource)
        request = HttpRequest(
            "replace", str(resource), "PUT", path, encode(obj), mutating=True, repeatable=False, urgent=urgent
        )
        return await self._send(request)

    async def delete(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: Propagation | None = None,
        grace_period: int | None = None,
    ) -> Object:
        """Delete an object: returns it with its deletionTimestamp when it goes later, else a Status.

        Args:
            resource: the kind.
            namespace: None for cluster-scoped kinds.
            name: of the object.
            uid: the object must still be this one, else Conflict.
            resource_version: the object must not have changed since, else Conflict.
            propagation: what becomes of what it owns.
            grace_period: seconds; None for the object's own.
        """
        options: Object = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if uid or resource_version:
            wanted = {"uid": uid, "resourceVersion": resource_version}
            options["preconditions"] = {field: value for field, value in wanted.items() if value}
        if propagation:
            options["propagationPolicy"] = propagation
        if grace_period is not None:
            options["gracePeriodSeconds"] = grace_period
        path = _path(self.in_use(resource), namespace, name)
        # Without a uid a repeated delete could meet a successor of the same name.
        request = HttpRequest(
            "delete", str(resource), "DELETE", path, encode(options), mutating=True, repeatable=bool(uid)
        )
        return await self._send(request)

    async def watch(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        resource_version: str,
        label_selector: str | None = None,
        stall: float = STALL,
    ) -> AsyncGenerator[tuple[str, msgspec.Raw], None]:
        """Changes after a version, as (ADDED | MODIFIED | DELETED | BOOKMARK, JSON of the object).

        Ends when the API server closes the watch, after five to ten minutes. Gone when the version is
        too old, also in the middle.

        Args:
            resource: the kind.
            namespace: None for all.
            resource_version: from a list, an object, or a bookmark.
            label_selector: as kubectl writes it.
            stall: seconds of silence after which ConnectionBroken is raised.
        """
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            # Spread like client-go's, so that not all watches of a cluster end at once.
            "timeoutSeconds": str(random.randint(300, 600)),  # noqa: S311 -- jitter needs no secrecy
        }
        if label_selector:
            query["labelSelector"] = label_selector
        path = _path(self.in_use(resource), namespace) + "?" + urlencode(query)
        # Closed also when the reader raises: the garbage collector comes too late.
        async with aclosing(
            self._transport.stream(str(resource), path, stall, longest=LONGEST_EVENT)
        ) as lines:
            async for line in lines:
                event = decode_event(line, f"watch {resource}")
                if event.type == "ERROR":
                    raise from_status(decode_object(event.object, f"watch {resource}"))
                yield event.type, event.object

    def log(
        self, namespace: str, pod: str, *, container: str, tail: int = 1, stall: float = STALL
    ) -> AsyncGenerator[bytes, None]:
        """Lines of a container's log: the last `tail` ones and all that follow, until the container ends.

        Args:
            namespace: of the pod.
            pod: its name.
            container: name of the container.
            tail: how many of the lines that are there.
            stall: seconds of silence after which ConnectionBroken is raised.

        A line of more than `LONGEST_LOG_LINE` bytes raises ConnectionBroken.
        """
        query = {"container": container, "follow": "true", "tailLines": str(tail)}
        path = _path(POD, namespace, pod, "log") + "?" + urlencode(query)
        return self._transport.stream("pods/log", path, stall, longest=LONGEST_LOG_LINE)

    async def served(self, resources: Collection[Resource]) -> frozenset[Resource]:
        """Which of the resources the API server serves now; not knowing a group is an answer too.

        One with fallbacks is served when any of its versions is.
        """
        return await self._discovery.served(resources)

    async def get_json(self, path: str, **query: str) -> Object:
        """GET any path, for example ``/version``."""
        return await self._send(HttpRequest("get", "", "GET", path + _query(**query)))

    async def _send_to(self, uid: str | None, request: HttpRequest) -> Object:
        """Send a patch for one uid; another one is refused as the change of an immutable field."""
        try:
            return await self._send(request)
        except Invalid as error:
            if uid and any(cause.field == "metadata.uid" for cause in error.causes):
                raise Conflict(409, "Conflict", error.message, error.details) from error
            raise

    async def _send(self, request: HttpRequest) -> Object:
        return decode_object(await self._transport.send(request), f"{request.verb} {request.resource}")


def _namespace(obj: Object) -> str | None:
    namespace: str | None = obj["metadata"].get("namespace")
    return namespace


def _path(
    resource: Resource, namespace: str | None = None, name: str | None = None, subresource: str | None = None
) -> str:
    """URL path; names are quoted because some come from users, and a slash would lead elsewhere."""
    return resource.path(
        quote(namespace, safe="") if namespace else None, quote(name, safe="") if name else None, subresource
    )


def _query(**parameters: str | None) -> str:
    given = {name: value for name, value in parameters.items() if value is not None}
    return "?" + urlencode(given) if given else ""
