"""A workload and its pods, kept up to date by watches that are mended when they break."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Self

from kaiwo.client import pods as pod_facts
from kaiwo.engine.errors import ApiError, ConnectionBroken, Forbidden, Gone, NotFound, ServerUnavailable
from kaiwo.engine.resource import POD, Resource
from kaiwo.engine.wire import decode_object

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Object

_PAUSES = (0.2, 0.5, 1.0, 2.0, 5.0)
"""Seconds before each further try to reach the API server."""

_POLL = 2.0
"""Seconds between two reads for a user who may list and not watch."""

_SILENT = 10.0
"""Seconds for which a lost connection is not worth a word."""


class PodWatch:
    """The pods of one workload; an asynchronous context manager.

    Attributes:
        pods: the pods by uid, those that were deleted left out.
        workload: as last seen.
        deleted: whether the workload is gone.
        changes: a number that grows with each change.
    """

    def __init__(
        self,
        api: Client,
        workload: Object,
        *,
        download: bool = False,
        notify: Callable[[str], None] | None = None,
    ) -> None:
        """Prepare; nothing is sent yet.

        Args:
            api: the client.
            workload: as the API server returned it.
            download: the pods of its download instead.
            notify: called with a sentence when the API server cannot be reached, and can be again.
        """
        self.pods: dict[str, Object] = {}
        self.workload = workload
        self.deleted = False
        self._api = api
        self._selector = pod_facts.selector(workload, download=download)
        self._namespace: str = workload["metadata"]["namespace"]
        self._notify = notify or (lambda _: None)
        self.changes = 0
        self._condition = asyncio.Condition()
        self._tasks: list[asyncio.Task[None]] = []
        self._failure: BaseException | None = None
        self._silent_since: float | None = None
        self._said = False

    async def __aenter__(self) -> Self:
        """Read everything once, then watch."""
        kind = _kind(self.workload)
        versions = await asyncio.gather(self._read_pods(), self._read_workload(kind))
        watches = (
            self._keep(POD, versions[0], self._read_pods, self._on_pod, label_selector=self._selector),
            self._keep(
                kind,
                versions[1],
                lambda: self._read_workload(kind),
                self._on_workload,
                field_selector=f"metadata.name={self.workload['metadata']['name']}",
            ),
        )
        self._tasks = [asyncio.ensure_future(each) for each in watches]
        return self

    async def __aexit__(self, *exc: object) -> None:
        """End the watches."""
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with suppress(asyncio.CancelledError):
                await task

    @property
    def has_ended(self) -> bool:
        """Whether the workload has ended or is gone."""
        return self.deleted or pod_facts.is_terminal(self.workload)

    def in_order(self) -> list[Object]:
        """The pods, oldest first."""
        return pod_facts.in_order(self.pods.values())

    async def changed(self, seen: int, seconds: float | None = None) -> bool:
        """Wait for a change; False when the time is over first.

        Args:
            seen: `changes` when the caller looked.
            seconds: at most, None for ever.

        Raises:
            ApiError: what is watched may not be read.
        """
        try:
            async with asyncio.timeout(seconds), self._condition:
                await self._condition.wait_for(lambda: self.changes != seen or self._failure is not None)
        except TimeoutError:
            return False
        if self._failure is not None:
            raise self._failure
        return True

    async def refresh(self) -> None:
        """Read the pods now, without waiting for the watch; tries until the API server answers."""
        while True:
            try:
                await self._read_pods()
            except (ConnectionBroken, ServerUnavailable) as error:
                self._on_silence(error)
                await asyncio.sleep(_PAUSES[-1])
            else:
                return

    async def _read_pods(self) -> str:
        version, found = "", {}
        async for page in self._api.pages(POD, self._namespace, label_selector=self._selector):
            version = page.resource_version
            for raw in page.items:
                pod = decode_object(raw, "list pods")
                found[pod["metadata"]["uid"]] = pod
        self.pods = found
        await self._announce()
        return version

    async def _read_workload(self, kind: Resource) -> str:
        version: str = self.workload["metadata"].get("resourceVersion") or ""
        try:
            found = await self._api.get(kind, self._namespace, self.workload["metadata"]["name"])
        except NotFound:
            self.deleted = True
        else:
            self._take_workload(found)
            version = found["metadata"]["resourceVersion"]
        await self._announce()
        return version

    def _take_workload(self, found: Object) -> None:
        # Another uid: deleted, and another one of that name was created.
        if found["metadata"]["uid"] == self.workload["metadata"]["uid"]:
            self.workload = found
        else:
            self.deleted = True

    async def _on_pod(self, event: str, pod: Object) -> None:
        uid = pod["metadata"]["uid"]
        if event == "DELETED":
            self.pods.pop(uid, None)
        else:
            self.pods[uid] = pod
        await self._announce()

    async def _on_workload(self, event: str, found: Object) -> None:
        self._take_workload(found)
        if event == "DELETED" and found["metadata"]["uid"] == self.workload["metadata"]["uid"]:
            self.deleted = True
        await self._announce()

    async def _announce(self) -> None:
        async with self._condition:
            self.changes += 1
            self._condition.notify_all()

    async def _keep(
        self,
        resource: Resource,
        version: str,
        read: Callable[[], Awaitable[str]],
        take: Callable[[str, Object], Awaitable[None]],
        **selectors: str,
    ) -> None:
        """Watch for ever; what cannot be watched is read again and again."""
        tries = 0
        while True:
            try:
                events = self._api.watch(resource, self._namespace, resource_version=version, **selectors)  # type: ignore[arg-type]
                async with aclosing(events):
                    async for event, raw in events:
                        tries = 0
                        self._on_answer()
                        obj = decode_object(raw, f"watch {resource}")
                        version = obj["metadata"].get("resourceVersion") or version
                        if event != "BOOKMARK":
                            await take(event, obj)
                await asyncio.sleep(_PAUSES[0])
                continue
            except Gone:
                pass
            except Forbidden:
                await asyncio.sleep(_POLL)
            except (ConnectionBroken, ServerUnavailable) as error:
                self._on_silence(error)
                await asyncio.sleep(_PAUSES[min(tries, len(_PAUSES) - 1)])
                tries += 1
            except ApiError:
                await asyncio.sleep(_POLL)
            try:
                version = await read()
                self._on_answer()
            except (ConnectionBroken, ServerUnavailable) as error:
                self._on_silence(error)
            except ApiError as error:
                self._failure = error
                await self._announce()
                return

    def _on_silence(self, error: Exception) -> None:
        now = asyncio.get_running_loop().time()
        if self._silent_since is None:
            self._silent_since = now
        elif now - self._silent_since > _SILENT and not self._said:
            self._said = True
            self._notify(f"no answer from the API server, still trying: {error}")

    def _on_answer(self) -> None:
        if self._said:
            self._notify("the API server answers again")
        self._silent_since, self._said = None, False


def _kind(workload: Object) -> Resource:
    """The kind of an object from its own apiVersion."""
    group, _, version = workload["apiVersion"].rpartition("/")
    return Resource(group, version, workload["kind"], f"{workload['kind'].lower()}s")
