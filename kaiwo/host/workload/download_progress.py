"""Follows the logs of download pods and reports their progress now and then.

One stream per running download. Nothing depends on it: when a log cannot be read, the status has no progress,
and the stream is opened again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kaiwo.api.download import CONTAINER
from kaiwo.engine.errors import EngineError, Forbidden
from kaiwo.workload.download.progress import progress_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaiwo.engine.client import Client
    from kaiwo.engine.workqueue import Key
    from kaiwo.workload.download.progress import Progress

_log = logging.getLogger(__name__)

INTERVAL: Final = 60.0
"""Seconds between two reports of one download: each costs a write of the workload's status."""

_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 60.0

_SHARE: Final = 64 << 10
_LINE: Final = 100
"""Bytes that are read of one log before others have their turn for a second, with these added for each line.
The download program writes a hundredth; who has changed its image could else keep the operator busy."""


@dataclass(slots=True)
class _Download:
    pod: str
    task: asyncio.Task[None]
    progress: Progress | None = None


class DownloadFollower:
    """The running downloads of one kind of workloads."""

    def __init__(
        self,
        client: Client,
        *,
        on_progress: Callable[[Key], None],
        active: Callable[[Key], bool],
        interval: float = INTERVAL,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Set up.

        Args:
            client: reads logs.
            on_progress: called with the workload whose progress has changed.
            active: whether this process is the one that reconciles a workload; a follower that is not ends.
            interval: seconds between two reports.
            clock: monotonic seconds.
        """
        self._client = client
        self._on_progress = on_progress
        self._active = active
        self._interval = interval
        self._clock = clock
        self._running: dict[Key, _Download] = {}
        self._denied = False  # a missing right is reported once
        self._due: dict[Key, float] = {}  # when the next report may come

    def progress(self, key: Key) -> Progress | None:
        """The last reported progress of a workload's download; None while there is none."""
        known = self._running.get(key)
        return known.progress if known is not None else None

    def follow(self, key: Key, pod: str, *, reported: bool) -> None:
        """Follow the log of a pod from now on, instead of that of another one; nothing for an empty name.

        Args:
            key: of the workload.
            pod: name of its running download pod.
            reported: the status has a progress from before a restart of the operator: the next report comes
                an interval later.
        """
        known = self._running.get(key)
        if known is not None and known.pod == pod and not known.task.done():
            return
        self._stop(key)
        if pod:
            task = asyncio.create_task(self._read(key, pod), name=f"log of {key.namespace}/{pod}")
            self._due.setdefault(key, self._clock() + (self._interval if reported else 0.0))
            self._running[key] = _Download(pod, task)

    def resume(self, key: Key) -> None:
        """Follow a log again whose stream ended because this process did not lead for a while."""
        known = self._running.get(key)
        if known is not None and known.task.done():
            self._due[key] = self._clock() + self._interval
            self.follow(key, known.pod, reported=True)

    def forget(self, key: Key) -> None:
        """Stop following the download of a workload that is gone."""
        self._stop(key)
        self._due.pop(key, None)

    def _stop(self, key: Key) -> None:
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
        pause, taken = _FIRST_PAUSE, 0
        while self._active(key):
            try:
                # Closed also when this is cancelled: the garbage collector comes too late.
                async with aclosing(self._client.log(key.namespace, pod, container=CONTAINER)) as lines:
                    async for line in lines:
                        if not self._active(key):
                            return
                        pause = _FIRST_PAUSE
                        self._denied = False
                        self._take(key, line)
                        taken += len(line) + _LINE
                        if taken > _SHARE:
                            taken = 0
                            await asyncio.sleep(_FIRST_PAUSE)
            except EngineError as error:
                if isinstance(error, Forbidden) and not self._denied:
                    self._denied = True
                    _log.warning("the progress of downloads is not shown: %s", error)
                _log.debug("log of pod %s/%s: %s; again in %.0f s", key.namespace, pod, error, pause)
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _take(self, key: Key, line: bytes) -> None:
        progress, known = progress_of(line), self._running.get(key)
        if progress is None or known is None or self._clock() < self._due.get(key, 0.0):
            return
        if progress.text in ("Downloading", known.progress.text if known.progress else ""):
            return
        known.progress = progress
        self._due[key] = self._clock() + self._interval
        self._on_progress(key)
