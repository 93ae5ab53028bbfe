"""Following the log of one container over its restarts and over lost connections."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kaiwo.client import pods as pod_facts
from kaiwo.engine.errors import (
    ApiError,
    ConnectionBroken,
    Forbidden,
    ServerUnavailable,
    TooManyRequests,
)
from kaiwo.engine.log_cursor import LogCursor
from kaiwo.engine.streaming import log_chunks

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from kaiwo.client.pod_watch import PodWatch
    from kaiwo.client.pods import ContainerState
    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Object

_PAUSES = (0.1, 0.3, 1.0, 2.0, 5.0)
"""Seconds before each further try after a lost connection."""

_LINGER = 3.0
"""Seconds of silence after the end of a container after which its log counts as read: a kubelet closes the
stream by itself, one that is gone does not."""

_STATUS_LAG = 2.0
"""Seconds by which a pod's status may be behind its containers."""


@dataclass(frozen=True, slots=True)
class LogOptions:
    """What of a log is meant.

    Attributes:
        since_seconds: only lines that are no older.
        tail: only the last lines.
        container: its name; None for the main one.
        all_containers: of all containers.
        previous: of the container before its last restart.
        download: of the download's pods.
    """

    since_seconds: int | None = None
    tail: int | None = None
    container: str | None = None
    all_containers: bool = False
    previous: bool = False
    download: bool = False

    def containers(self, pod: Object) -> list[str]:
        """The containers of a pod that are meant; empty when it has none of that name."""
        return pod_facts.chosen_containers(pod, self.container, all_containers=self.all_containers)

    def of_later_pods(self) -> LogOptions:
        """Pods that join are read from their first line on."""
        return replace(self, since_seconds=None, tail=None)

    def position(self, cursor: LogCursor) -> dict[str, Any]:
        """From where on to ask: the cursor's place, or what the user wants before the first line."""
        if cursor.since:
            return {"since_time": cursor.since}
        return {"since_seconds": self.since_seconds, "tail": self.tail}


class LogFollower:
    """Follows one container until it will not run again."""

    def __init__(
        self,
        api: Client,
        watch: PodWatch,
        pod: Object,
        container: str,
        *,
        options: LogOptions,
        put: Callable[[str, str, list[bytes]], Awaitable[None]],
        notify: Callable[[str], None],
        causes: set[str],
    ) -> None:
        """Prepare.

        Args:
            api: the client.
            watch: knows the pod's status.
            pod: as first seen.
            container: its name.
            options: where to begin.
            put: takes pod, container and lines; waits while the reader is slow.
            notify: called when lines may be missing, or the container waits for something.
            causes: why containers wait, as far as it was said; all followers of a workload add to it.
        """
        self._api = api
        self._watch = watch
        self._pod = pod
        self._name = pod_facts.pod_name(pod)
        self._container = container
        self._options = options
        self._put = put
        self._notify = notify
        self._cursor = LogCursor()
        # Where the last connection ended. The next one may already read another instance: the status is late.
        self._before = self._cursor.copy()
        self._half = b""
        self._instance = ""
        self._came = self._is_putting = False
        self._causes = causes

    async def run(self) -> None:
        """Put all lines.

        Raises:
            Forbidden: logs may not be read.
        """
        while True:
            seen = self._watch.changes
            state = self._state()
            if not state.instance:
                if self._is_final(state):
                    return
                self._say_why_stuck()
                await self._watch.changed(seen)
                continue
            if self._instance and state.instance != self._instance:
                await self._read_rest(self._before, previous=True)
                self._cursor.restart()
                self._options = self._options.of_later_pods()
            self._instance = state.instance
            await self._follow()
            if await self._ended() and self._state().instance == self._instance:
                # What was written between the end of the stream and the end of the container.
                await self._read_rest(self._cursor)
                if not await self._restarts():
                    return

    def _state(self) -> ContainerState:
        self._pod = self._watch.pods.get(self._pod["metadata"]["uid"], self._pod)
        return pod_facts.container_state(self._pod, self._container)

    def _say_why_stuck(self) -> None:
        """Say once why nothing comes: it would look as if the program wrote nothing."""
        why = pod_facts.why_stuck(self._pod, self._container)
        if why and why not in self._causes:
            self._causes.add(why)
            self._notify(f"waiting for container {self._container} of pod {self._name}: {why}")

    def _is_gone(self) -> bool:
        return self._pod["metadata"]["uid"] not in self._watch.pods

    def _is_final(self, state: ContainerState) -> bool:
        """Whether the container will not run again."""
        if self._is_gone() or pod_facts.has_ended(self._pod):
            return not state.running or self._is_gone()
        return False

    async def _ended(self) -> bool:
        """Whether the instance ended whose stream did; the status may be late."""
        deadline = asyncio.get_running_loop().time() + _STATUS_LAG
        while True:
            seen, state = self._watch.changes, self._state()
            if state.instance != self._instance or not state.running or self._is_gone():
                return True
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0:
                return False
            await self._watch.changed(seen, left)

    async def _restarts(self) -> bool:
        """Wait until the container runs again; False when it will not."""
        while True:
            seen, state = self._watch.changes, self._state()
            if state.instance != self._instance:
                return True
            if self._is_final(state) or (
                state.ended and not pod_facts.may_restart(self._pod, self._container)
            ):
                return False
            self._say_why_stuck()
            await self._watch.changed(seen)

    async def _follow(self) -> None:
        """Follow until the stream of the running instance ends."""
        tries = 0
        while self._state().instance == self._instance:
            try:
                await self._follow_once()
            except (ConnectionBroken, ServerUnavailable, TooManyRequests):
                if self._is_gone():
                    return
                tries = 0 if self._came else tries
                await asyncio.sleep(_PAUSES[min(tries, len(_PAUSES) - 1)])
                tries += 1
            except Forbidden:
                raise
            except ApiError:
                # The pod is gone, or the container waits to be started again.
                return
            else:
                return

    async def _follow_once(self) -> None:
        """Follow over one connection."""
        self._came = self._is_putting = False
        lingers = False
        clock = asyncio.get_running_loop().time

        async def end_when_silent(limit: asyncio.Timeout) -> None:
            """A kubelet closes the stream of a container that ended; one that is gone does not."""
            nonlocal lingers
            while self._state().running and not self._is_gone():
                await self._watch.changed(self._watch.changes)
            lingers = True
            if not self._is_putting:
                limit.reschedule(clock() + _LINGER)

        chunks = self._open(self._cursor, follow=True)
        try:
            async with asyncio.timeout(None) as limit, aclosing(chunks):
                ending = asyncio.ensure_future(end_when_silent(limit))
                try:
                    async for chunk in chunks:
                        self._came = True
                        # What the cursor has taken must be put: no time limit in between.
                        limit.reschedule(None)
                        self._is_putting = True
                        await self._put_lines(self._cursor, self._cursor.feed(chunk))
                        self._is_putting = False
                        limit.reschedule(clock() + _LINGER if lingers else None)
                finally:
                    ending.cancel()
                    with suppress(asyncio.CancelledError):
                        await ending
        except TimeoutError:
            pass
        finally:
            # A clean end is not always one: what comes next is asked for from the last line on.
            self._half = self._cursor.disconnect()
            self._before = self._cursor.copy()

    async def _read_rest(self, cursor: LogCursor, *, previous: bool = False) -> None:
        """Read what is there after the last line; a log that is gone had nothing more."""
        for pause in (*_PAUSES, None):
            try:
                async with aclosing(self._open(cursor, previous=previous)) as chunks:
                    async for chunk in chunks:
                        await self._put_lines(cursor, cursor.feed(chunk))
                await self._put_lines(cursor, cursor.finish())
                break
            except Forbidden:
                raise
            except (ConnectionBroken, ServerUnavailable, TooManyRequests) as error:
                cursor.disconnect()
                if pause is None:
                    self._notify(f"the end of the log of pod {self._name} cannot be read: {error}")
                else:
                    await asyncio.sleep(pause)
            except ApiError:
                cursor.disconnect()
                if self._half:
                    await self._put_lines(cursor, cursor.feed(self._half + b"\n"))
                break
        self._half = b""

    def _open(
        self, cursor: LogCursor, *, follow: bool = False, previous: bool = False
    ) -> AsyncGenerator[bytes, None]:
        return log_chunks(
            self._api,
            self._pod["metadata"]["namespace"],
            self._name,
            container=self._container,
            follow=follow,
            previous=previous,
            timestamps=True,
            **self._options.position(cursor),
        )

    async def _put_lines(self, cursor: LogCursor, lines: list[bytes]) -> None:
        if cursor.has_gap:
            cursor.has_gap = False
            self._notify(
                f"container {self._container} of pod {self._name}: lines may be missing, "
                "its log was rotated while the connection was lost"
            )
        if lines:
            await self._put(self._name, self._container, lines)
