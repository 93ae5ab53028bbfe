"""Imports the code of backends before the first workload needs it.

A call into a plugin has a time limit, which an import on a busy machine would exceed: it takes a hundred
times longer than any other call. So all imports are made at the start, in a thread and without that limit.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaiwo.plugin.backends import Backend

_log = logging.getLogger(__name__)

LONGEST: Final = 30.0
"""Seconds that the start waits for all imports; one that still runs then goes on."""


async def import_backends(backends: Iterable[Backend], longest: float = LONGEST) -> None:
    """Import what backends need; a failure is told by the workload that needs the backend.

    Args:
        backends: as plugins declared them, without a time limit.
        longest: seconds to wait.
    """
    built = [one for backend in backends for one in (backend, *backend.variants) if one.built]
    # Not a thread of the executor: the process must be able to end while an import hangs.
    thread = threading.Thread(target=_load, args=(built,), name="imports of backends", daemon=True)
    thread.start()
    await asyncio.to_thread(thread.join, longest)
    if thread.is_alive():
        _log.warning("the backends were not imported within %g s", longest)


def _load(backends: Iterable[Backend]) -> None:
    for backend in backends:
        try:
            backend.load()
        except Exception:  # noqa: BLE001  whatever a plugin raises
            _log.exception("backend %s does not load", backend.name)
