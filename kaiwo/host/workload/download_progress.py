"""How far running downloads are: each download pod's log is followed, and its last line told now and then.

One stream per running download. Nothing depends on it: a log that cannot be read costs the number in a
status message, and is tried again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kaiwo.engine.errors import EngineError
from kaiwo.workload.download.job import CONTAINER
from kaiwo.workload.download.progress import progress_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaiwo.engine.client import Client
    from kaiwo.engine.workqueue import Key
    from kaiwo.workload.download.progress import Progress

_log = logging.getLogger(__name__)

INTERVAL: Final = 60.0
"""Seconds between two numbers that are told of one download: each costs a write of the workload's status."""

_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 60.0


@dataclass(slots=True)
class _Download:
    pod: str
    task: asyncio.Task[None]
    due: float
    told: Progress | None = None


class DownloadFollower:
    """The running downloads of one kind of workloads."""

    def __init__(
        self,
        client: Client,
        *,
        tell: Callable[[Key], None],
        active: Callable[[], bool],
        interval: float = INTERVAL,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare.

        Args:
            client: reads logs.
            tell: called when there is a new number for a workload.
            active: whether this process is the one that writes; a follower that is not ends.
            interval: seconds between two numbers.
            clock: monotonic seconds.
        """
        self._client = client
        self._tell = tell
        self._active = active
        self._interval = interval
        self._clock = clock
        self._running: dict[Key, _Download] = {}

    def progress(self, key: Key) -> Progress | None:
        """The number that is told of a workload's download; None while there is none."""
        known = self._running.get(key)
        return known.told if known is not None else None

    def follow(self, key: Key, pod: str, *, told: bool) -> None:
        """Follow the log of a pod from now on, instead of that of another one; nothing for an empty name.

        Args:
            key: of the workload.
            pod: name of its running download pod.
            told: the status holds a number already, from before a restart: the next one comes an interval
                later.
        """
        known = self._running.get(key)
        if known is not None and known.pod == pod and not known.task.done():
            return
        self.leave(key)
        if pod:
            task = asyncio.create_task(self._read(key, pod), name=f"log of {key.namespace}/{pod}")
            due = self._clock() + (self._interval if told else 0.0)
            self._running[key] = _Download(pod, task, due)

    def resume(self, key: Key) -> None:
        """Follow a log again whose follower ended because this process did not lead for a while."""
        known = self._running.get(key)
        if known is not None and known.task.done():
            self.follow(key, known.pod, told=True)

    def leave(self, key: Key) -> None:
        """Stop to follow a workload's download."""
        known = self._running.pop(key, None)
        if known is not None:
            known.task.cancel()

    async def close(self) -> None:
        """Stop all."""
        tasks = [known.task for known in self._running.values()]
        self._running.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _read(self, key: Key, pod: str) -> None:
        pause = _FIRST_PAUSE
        while self._active():
            try:
                # Closed also when this is cancelled: the garbage collector comes too late.
                async with aclosing(self._client.log(key.namespace, pod, container=CONTAINER)) as lines:
                    async for line in lines:
                        if not self._active():
                            return
                        pause = _FIRST_PAUSE
                        self._take(key, line)
            except EngineError as error:
                _log.debug("log of pod %s/%s: %s; again in %.0f s", key.namespace, pod, error, pause)
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _take(self, key: Key, line: bytes) -> None:
        progress, known = progress_of(line), self._running.get(key)
        if progress is None or known is None or self._clock() < known.due:
            return
        if progress.text in ("Downloading", known.told.text if known.told else ""):
            return
        known.told, known.due = progress, self._clock() + self._interval
        self._tell(key)
