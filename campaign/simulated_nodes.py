"""Simulated nodes that try again what the API server refused, as a kubelet does."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import TYPE_CHECKING, Final

from kaiwo.engine.errors import EngineError, NotFound
from kaiwo.engine.resource import POD

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from kaiwo.engine.client import Client

TRIED_AGAIN: Final = "kaiwo-campaign/tried-again"
"""Annotation of a pod whose next stage was refused: how often it was begun anew."""

_GAVE_UP: Final = "failed to apply stage"
"""kwok's words. It repeats a stage after a 503, but not after a 500, until the pod changes."""

_PAUSE: Final = 1.0


def given_up(log: str) -> list[str]:
    """Namespace and name, with a slash, of each pod whose stage kwok failed to apply; once for each time.

    Args:
        log: of kwok, a JSON object a line; what is no such object is passed over.
    """
    found = []
    for line in log.splitlines():
        with contextlib.suppress(ValueError):
            record = json.loads(line)
            if isinstance(record, dict) and record.get("msg") == _GAVE_UP:
                found.append(str(record.get("pod")))
    return found


@contextlib.asynccontextmanager
async def trying_again(client: Client, log: Path) -> AsyncIterator[None]:
    """Change each pod whose stage was refused, so that kwok begins the stage anew.

    Args:
        client: an administrator's.
        log: kwok's.
    """
    task = asyncio.create_task(_try_again(client, log))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _try_again(client: Client, log: Path) -> None:
    done = 0
    while True:
        await asyncio.sleep(_PAUSE)
        pods = given_up(await asyncio.to_thread(log.read_text))
        with contextlib.suppress(EngineError):  # those that are left come in the next round
            for pod in pods[done:]:
                namespace, _, name = pod.partition("/")
                patch = {"metadata": {"annotations": {TRIED_AGAIN: str(done + 1)}}}
                with contextlib.suppress(NotFound):
                    await client.merge_patch(POD, namespace, name, patch)
                done += 1
