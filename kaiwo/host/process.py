"""Runs the operator process: its limits, kopf's loop with its start-up, clean-up and signals.

kopf has no resource handlers here, so it reads and writes nothing. Its login handler never returns
credentials, therefore it sends no request at all. Without that it would scan the API groups even without
handlers, and end the process when the API server is unreachable. Peering and event posting are off for the
same reason. The engine has credentials of its own.

The engine's task is made before kopf's operator: kopf cancels every task that was started after it.
kopf is imported in a thread while the caches fill; it takes 0.3 s.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
import signal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_KOPF_GRACE = 0.2  # seconds

OPEN_FILES = 8192
"""Open files that the process needs at most. With 64 watched namespaces each kind has 64 watches, each a
connection; the usual soft limit of a container is 1,024."""


def raise_open_file_limit() -> None:
    """Raise the soft limit of open files, as far as the hard one allows, as programs in Go do."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


async def run(work: Callable[[asyncio.Event], Awaitable[None]]) -> None:
    """Run the work until SIGTERM or SIGINT, or until it ends by itself.

    Args:
        work: started at once with an event; once that is set, it finishes what it does and returns.

    Raises:
        Exception: whatever the work raised.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    task = asyncio.ensure_future(work(stop))
    try:
        kopf = asyncio.ensure_future(asyncio.to_thread(_import_kopf))
        stopped = asyncio.ensure_future(stop.wait())
        await asyncio.wait({task, kopf, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if kopf.done() and not stop.is_set() and not task.done():
            await _operate(kopf.result(), task, stop)
        stopped.cancel()
        stop.set()
        await task
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


def _import_kopf() -> Any:
    import kopf

    return kopf


async def _operate(kopf: Any, task: asyncio.Future[None], stop: asyncio.Event) -> None:
    """Run kopf's operator until a signal comes or the task ends; on return the task has ended."""
    logging.getLogger("kopf").setLevel(logging.ERROR)  # it would log a login that is never needed
    registry = kopf.OperatorRegistry()
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.scanning.disabled = True
    ended = asyncio.Event()
    task.add_done_callback(lambda _: ended.set())

    async def login(**_: Any) -> None:
        await asyncio.Event().wait()

    async def cleanup(**_: Any) -> None:
        stop.set()
        await ended.wait()

    kopf.on.login(registry=registry, id="nothing-to-read")(login)
    kopf.on.cleanup(registry=registry, id="engine")(cleanup)
    operator = asyncio.ensure_future(
        kopf.operator(
            registry=registry,
            settings=settings,
            clusterwide=True,
            standalone=True,
            stop_flag=ended,
            # For peering, which is off. Otherwise kopf reads the user's name, which a container may not have.
            identity="kaiwo-operator",
        )
    )
    await asyncio.wait({task, operator}, return_when=asyncio.FIRST_COMPLETED)
    stop.set()
    await asyncio.wait({task})
    # kopf waits five seconds for tasks that it does not know; nothing is left that deserves it.
    await asyncio.wait({operator}, timeout=_KOPF_GRACE)
    operator.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await operator
