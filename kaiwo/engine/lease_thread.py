"""Runs a leader elector in a thread, where an event loop that computes does not hold up a renewal."""

from __future__ import annotations

import asyncio
import signal
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from kaiwo.engine.client import Client
    from kaiwo.engine.leader_election import LeaderElector


class LeaseThread:
    """A leader elector with an event loop, a thread and a connection of its own.

    The interpreter switches between threads every five milliseconds, so a renewal takes place also while the
    operator's own event loop computes for longer than the lease lasts. A process that never comes back from
    that is ended by its liveness probe.
    """

    def __init__(self, elector: LeaderElector, client: Client) -> None:
        """Prepare; the thread starts with `acquire`.

        Args:
            elector: the elector; nobody else may use it.
            client: its client; nobody else may use it, and it is closed with the thread.
        """
        self._elector = elector
        self._client = client
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._one_at_a_time = asyncio.Lock()

    @property
    def unled(self) -> float | None:
        """Seconds from the last renewal by a holder until we acquired the lease, None if not known."""
        return self._elector.unled

    @property
    def slack(self) -> float:
        """Seconds for which a write may be under way."""
        return self._elector.slack

    def valid(self) -> bool:
        """Whether this process may write now."""
        return self._elector.valid()

    def health(self) -> tuple[bool, str]:
        """Whether this process leads or waits for its turn; not when it cannot reach the lease at all."""
        return self._elector.health()

    async def acquire(self) -> None:
        """Wait until we hold the lease."""
        await self._run(self._elector.acquire)

    async def keep(self) -> None:
        """Renew for as long as it works; returns when the lease is lost."""
        await self._run(self._elector.keep)

    async def release(self) -> None:
        """Give the lease up, so that a successor need not wait for its end."""
        await self._run(self._elector.release)

    async def close(self) -> None:
        """Close the connection and end the thread."""
        if self._loop is None or self._thread is None:
            return
        await self._run(self._client.close)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop = self._thread = None

    async def _run(self, work: Callable[[], Awaitable[Any]]) -> None:
        """Await something in the thread; cancelled there as well when it is here."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=_serve, args=(self._loop,), name="lease", daemon=True)
            self._thread.start()
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._exclusive(work), self._loop))

    def _exclusive(self, work: Callable[[], Awaitable[Any]]) -> Coroutine[Any, Any, None]:
        """The work, once what was cancelled before it has ended."""

        async def run() -> None:
            async with self._one_at_a_time:
                await work()

        return run()


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    # Signals, the time limit of plugins among them, are for the main thread.
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.close()
