"""The logs of a workload: what its containers wrote, of all its pods, once or followed.

Followed logs go on over restarts of a container, replaced pods and lost connections; no line is lost or
repeated. What a kubelet does not keep cannot be read: the log of a container before its last but one restart,
and lines that were rotated away while there was no connection (`notify` says so).
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING

import msgspec

from kaiwo.client import pods as pod_facts
from kaiwo.client.errors import ClientError
from kaiwo.client.log_follower import LogFollower, LogOptions
from kaiwo.client.lookup import reference
from kaiwo.client.pod_watch import PodWatch
from kaiwo.engine.errors import ConnectionBroken, Invalid, NotFound, ServerUnavailable
from kaiwo.engine.log_cursor import LogCursor, split_time
from kaiwo.engine.streaming import log_chunks

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Object

_BATCHES = 16
"""Batches of lines that wait for a slow reader; then nothing more is read from the cluster."""

_TRIES = 5
"""Tries to read a log that is not followed."""


class LogLine(msgspec.Struct, frozen=True, gc=False):
    """One line of a log.

    Attributes:
        pod: name of the pod.
        container: name of the container.
        text: the line without its line break, as the container wrote it.
        timestamp: when it was written, RFC 3339 with nanoseconds; empty for a line of the kubelet itself.
    """

    pod: str
    container: str
    text: bytes
    timestamp: str


class NoLog(ClientError):
    """None of the containers that are meant has a log."""


def log_batches(
    api: Client,
    workload: Object,
    options: LogOptions,
    notify: Callable[[str], None] | None = None,
    *,
    follow: bool,
) -> AsyncGenerator[list[LogLine], None]:
    """The lines of all pods, in lists as they come in; the logs of previous containers are not followed.

    Args:
        api: the client.
        workload: as the API server returned it.
        options: which lines.
        notify: called with a sentence when something is waited for or missing.
        follow: see `follow_batches`; otherwise see `read_batches`.
    """
    source = follow_batches if follow and not options.previous else read_batches
    return source(api, workload, options, notify)


async def each_line(batches: AsyncGenerator[list[LogLine], None]) -> AsyncGenerator[LogLine, None]:
    """The lines of batches one by one; the batches are closed at the end."""
    async with aclosing(batches):
        async for batch in batches:
            for line in batch:
                yield line


async def follow_batches(
    api: Client, workload: Object, options: LogOptions, notify: Callable[[str], None] | None = None
) -> AsyncGenerator[list[LogLine], None]:
    """The lines as they are written, until the workload has ended and all is read.

    Waits for pods that are not there yet.

    Raises:
        ClientError: no such container.
        ApiError: logs or pods may not be read.
    """
    queue: asyncio.Queue[list[LogLine] | None] = asyncio.Queue(_BATCHES)

    async def put(pod: str, container: str, raw: list[bytes]) -> None:
        await queue.put(_parsed(pod, container, raw))

    async def work() -> None:
        try:
            await _Followers(api, options, put, notify or (lambda _: None)).run(workload)
        finally:
            ended.set()
            with suppress(asyncio.QueueFull):
                queue.put_nowait(None)

    ended = asyncio.Event()
    task = asyncio.ensure_future(work())
    try:
        while not (ended.is_set() and queue.empty()):
            batch = await queue.get()
            if batch is not None:
                yield batch
        await task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.wait({task})


class _Followers:
    """A follower for each container that is meant, until the workload has ended and all of them have."""

    def __init__(
        self,
        api: Client,
        options: LogOptions,
        put: Callable[[str, str, list[bytes]], Awaitable[None]],
        notify: Callable[[str], None],
    ) -> None:
        self._api = api
        self._options = options
        self._put = put
        self._notify = notify
        self._tasks: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._waited_for = ""
        self._causes: set[str] = set()

    async def run(self, workload: Object) -> None:
        """Put all lines of all pods."""
        options = self._options
        async with PodWatch(self._api, workload, download=options.download, notify=self._notify) as watch:
            try:
                while True:
                    seen = watch.changes
                    self._start(watch)
                    if not self._active() and _is_over(watch, options):
                        # The watch of the pods may be behind that of the workload.
                        await watch.refresh()
                        self._start(watch)
                        if not self._active():
                            return
                    await self._wait(watch, seen)
            finally:
                for task in self._tasks.values():
                    task.cancel()
                if self._tasks:
                    await asyncio.wait(self._tasks.values())

    def _start(self, watch: PodWatch) -> None:
        """Start followers of the containers that have none."""
        pods = watch.in_order()
        for pod in pods:
            for name in self._options.containers(pod):
                key = (pod["metadata"]["uid"], name)
                if key not in self._tasks:
                    follower = LogFollower(
                        self._api,
                        watch,
                        pod,
                        name,
                        options=self._options,
                        put=self._put,
                        notify=self._notify,
                        causes=self._causes,
                    )
                    self._tasks[key] = asyncio.ensure_future(follower.run())
        self._options = self._options.of_later_pods()
        if pods and not self._tasks and self._options.container:
            raise pod_facts.unknown_container(pods, self._options.container)
        if not self._tasks:
            why = pod_facts.why_no_pods(watch.workload, download=self._options.download).message
            if why != self._waited_for:
                self._waited_for = why
                self._notify(f"waiting for logs: {why}")

    def _active(self) -> list[asyncio.Task[None]]:
        """The followers that have not ended; raises what one failed with."""
        for task in self._tasks.values():
            if task.done():
                task.result()
        return [task for task in self._tasks.values() if not task.done()]

    async def _wait(self, watch: PodWatch, seen: int) -> None:
        """Wait until something changes or a follower ends."""
        change = asyncio.ensure_future(watch.changed(seen))
        try:
            await asyncio.wait({change, *self._active()}, return_when=asyncio.FIRST_COMPLETED)
            if change.done():
                change.result()
        finally:
            change.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.wait({change})


def _is_over(watch: PodWatch, options: LogOptions) -> bool:
    """Whether no further pod will come."""
    if watch.has_ended:
        return True
    return options.download and any(pod_facts.phase(pod) == "Succeeded" for pod in watch.pods.values())


async def read_batches(
    api: Client, workload: Object, options: LogOptions, notify: Callable[[str], None] | None = None
) -> AsyncGenerator[list[LogLine], None]:
    """The lines that are there now, pod after pod.

    Raises:
        ClientError: no pod, no such container, or no container has a log yet.
        ApiError: logs or pods may not be read.
    """
    found = await pod_facts.list_pods(api, workload, download=options.download)
    if not found:
        raise pod_facts.why_no_pods(workload, download=options.download)
    chosen = [(pod, name) for pod in found for name in options.containers(pod)]
    if not chosen:
        raise pod_facts.unknown_container(found, options.container or "")
    missing: list[str] = []
    for pod, name in chosen:
        try:
            async with aclosing(_lines_of(api, pod, name, options)) as batches:
                async for batch in batches:
                    yield _parsed(pod_facts.pod_name(pod), name, batch)
        except (Invalid, NotFound) as error:
            missing.append(_why_no_log(pod, name, options, error))
            if notify is not None and len(chosen) > 1:
                notify(missing[-1])
    if len(missing) == len(chosen):
        raise NoLog(missing[0], f"kaiwo status {reference(workload)}")


async def _lines_of(
    api: Client, pod: Object, container: str, options: LogOptions
) -> AsyncGenerator[list[bytes], None]:
    """The log of one container; a connection that breaks in the middle is mended."""
    cursor = LogCursor()
    for number in range(1, _TRIES + 1):
        chunks = log_chunks(
            api,
            pod["metadata"]["namespace"],
            pod_facts.pod_name(pod),
            container=container,
            previous=options.previous,
            timestamps=True,
            **options.position(cursor),
        )
        try:
            async with aclosing(chunks):
                async for chunk in chunks:
                    if lines := cursor.feed(chunk):
                        yield lines
        except (ConnectionBroken, ServerUnavailable):
            if number == _TRIES:
                raise
            cursor.disconnect()
            await asyncio.sleep(0.2 * number)
        else:
            if lines := cursor.finish():
                yield lines
            return


def _why_no_log(pod: Object, container: str, options: LogOptions, error: Invalid | NotFound) -> str:
    name = pod_facts.pod_name(pod)
    if options.previous and isinstance(error, Invalid):
        if count := pod_facts.restarts(pod, container):
            times = "once" if count == 1 else f"{count} times"
            return (
                f"container {container} of pod {name} has no previous log any more: it restarted {times}, "
                "and its node did not keep it"
            )
        return f"container {container} of pod {name} has no previous log: it has not restarted"
    waiting = pod_facts.container_state(pod, container).waiting
    if waiting:
        return f"container {container} of pod {name} has no log yet: {waiting}"
    return f"container {container} of pod {name} has no log: {error}"


def _parsed(pod: str, container: str, raw: list[bytes]) -> list[LogLine]:
    made = []
    for line in raw:
        timestamp, text = split_time(line)
        made.append(LogLine(pod, container, text, timestamp))
    return made
