"""The reading half of the client: plain JSON as the API server sends it, nothing dropped or coerced."""

from __future__ import annotations

import logging
import random
from contextlib import aclosing
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Self
from urllib.parse import quote, urlencode

from kaiwo.engine.discovery import Discovery
from kaiwo.engine.errors import NotFound, UndecodableObject, from_status
from kaiwo.engine.resource import POD
from kaiwo.engine.transport import HttpRequest, Transport
from kaiwo.engine.wire import Page, decode_event, decode_object, decode_page

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Collection, Sequence
    from datetime import datetime

    import msgspec
    from aiohttp import ClientWebSocketResponse

    from kaiwo.engine.credentials import Connection
    from kaiwo.engine.metrics import Metrics
    from kaiwo.engine.resource import Object, Resource

_log = logging.getLogger(__name__)

PAGE = 500
"""Objects per page of a list, as in client-go's pager."""

METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
"""The type of an answer that has only the metadata of an object."""

STALL = 150.0
"""Seconds of silence after which a watch counts as dead. The API server sends a bookmark every minute."""

LONGEST_EVENT = 64 << 20
"""Bytes of the longest watch event that is taken; etcd takes objects of 1.5 MB by default."""

LONGEST_LOG_LINE = 64 << 10
"""Bytes of the longest line of a log that is taken: a container may write whatever it likes."""


class Reader:
    """Reads from one API server; every request has a time limit and is repeated where that helps.

    Attributes:
        connection: where to, and with which credentials.
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

    def set_user_timeout(self, seconds: float) -> None:
        """Let the kernel drop what was sent and not acknowledged for so long; call it before any request.

        A write that the network holds up must not arrive when another process leads.
        """
        self._transport.user_timeout = seconds

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
        path = object_path(self.in_use(resource), namespace, name)
        return await self._send(HttpRequest("get", str(resource), "GET", path, urgent=urgent))

    async def get_metadata(self, resource: Resource, namespace: str | None, name: str) -> Object:
        """The metadata of one object, under ``metadata``; NotFound when there is none.

        Args:
            resource: the kind.
            namespace: None for cluster-scoped kinds.
            name: of the object.
        """
        path = object_path(self.in_use(resource), namespace, name)
        return await self._send(HttpRequest("get", str(resource), "GET", path, accept=METADATA_ONLY))

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
            path = object_path(self.in_use(resource), namespace) + "?" + urlencode(query)
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

        One that is nested too deeply or too large is left out, with a warning in the log.
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

    async def watch(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        resource_version: str,
        label_selector: str | None = None,
        field_selector: str | None = None,
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
            field_selector: as kubectl writes it.
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
        if field_selector:
            query["fieldSelector"] = field_selector
        path = object_path(self.in_use(resource), namespace) + "?" + urlencode(query)
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
        path = object_path(POD, namespace, pod, "log") + "?" + urlencode(query)
        return self._transport.stream("pods/log", path, stall, longest=LONGEST_LOG_LINE)

    async def last_log_lines(
        self, namespace: str, pod: str, *, container: str, tail: int, previous: bool = False
    ) -> Sequence[str]:
        """The last lines of a container's log as they are now, each cut at `LONGEST_LOG_LINE` bytes in all.

        Args:
            namespace: of the pod.
            pod: its name.
            container: name of the container.
            tail: how many lines.
            previous: of the container's run before the current one.
        """
        query = {"container": container, "tailLines": str(tail), "limitBytes": str(LONGEST_LOG_LINE)}
        if previous:
            query["previous"] = "true"
        path = object_path(POD, namespace, pod, "log") + "?" + urlencode(query)
        body = await self._transport.send(HttpRequest("get", "pods/log", "GET", path))
        return body.decode(errors="replace").splitlines()

    def chunks(self, verb: str, resource: str, path: str, stall: float) -> AsyncGenerator[bytes, None]:
        """The body of any answer as it comes in; see `kaiwo.engine.streaming`."""
        return self._transport.chunks(verb, resource, path, stall)

    async def websocket(
        self, resource: str, path: str, protocols: tuple[str, ...]
    ) -> ClientWebSocketResponse[bool]:
        """A WebSocket to any path; see `kaiwo.engine.streaming`."""
        return await self._transport.websocket(resource, path, protocols)

    async def served(self, resources: Collection[Resource]) -> frozenset[Resource]:
        """Which of the resources the API server serves now; not knowing a group is an answer too.

        One with fallbacks is served when any of its versions is.
        """
        return await self._discovery.served(resources)

    async def get_json(self, path: str, **query: str) -> Object:
        """GET any path, for example ``/version``."""
        return await self._send(HttpRequest("get", "", "GET", path + query_string(**query)))

    async def get_text(self, path: str) -> str:
        """GET a path that answers with text, for example ``/readyz`` or a pod's metrics through the proxy."""
        return (await self._transport.send(HttpRequest("get", "", "GET", path))).decode("utf-8", "replace")

    def server_time(self) -> datetime | None:
        """The API server's clock at its last answer, to the second; None before that."""
        try:
            return parsedate_to_datetime(self._transport.date)
        except ValueError:
            return None

    async def _send(self, request: HttpRequest) -> Object:
        return decode_object(await self._transport.send(request), f"{request.verb} {request.resource}")


def object_path(
    resource: Resource, namespace: str | None = None, name: str | None = None, subresource: str | None = None
) -> str:
    """URL path; names are quoted because some come from users, and a slash would lead elsewhere."""
    return resource.path(
        quote(namespace, safe="") if namespace else None, quote(name, safe="") if name else None, subresource
    )


def query_string(**parameters: str | None) -> str:
    """The parameters that are given, for the end of a URL path."""
    given = {name: value for name, value in parameters.items() if value is not None}
    return "?" + urlencode(given) if given else ""
