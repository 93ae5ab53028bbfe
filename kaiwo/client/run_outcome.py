"""Following a run to its end: status, logs, and the exit code of the command."""

from __future__ import annotations

import asyncio
import re
from contextlib import aclosing
from typing import TYPE_CHECKING

from kaiwo.api.status_words import TERMINAL
from kaiwo.client import logs, waiting, workload_fields
from kaiwo.client import pods as pod_facts
from kaiwo.client.errors import ClientError, WorkloadFailed
from kaiwo.client.log_follower import LogOptions
from kaiwo.client.lookup import label
from kaiwo.client.run_pods import UNPACKER
from kaiwo.engine.errors import ApiError
from kaiwo.workload.json_access import last_line
from kaiwo.workload.observe.exit_codes import NOT_STARTED

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kaiwo.client.logs import LogLine
    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Object

_FAILED = 1
_NOT_UNPACKED = "the folder could not be unpacked"
_RAY_EXIT = re.compile(r"exit code (\d{1,3})\b")


async def follow(
    api: Client,
    workload: Object,
    *,
    on_change: Callable[[Object], None],
    on_lines: Callable[[list[LogLine]], Awaitable[None]],
    notify: Callable[[str], None],
) -> tuple[Object, int]:
    """Report status and log lines until the workload has ended; the workload and its exit code.

    A service is followed until it ends, which it does only when somebody deletes it.

    Args:
        api: the API server.
        workload: as the API server returned it.
        on_change: called with the workload whenever its status or reason has changed.
        on_lines: awaited with lines of the logs, as they come in.
        notify: called with a sentence when something is waited for or missing.

    Raises:
        WorkloadFailed: it was deleted, or stays in ERROR.
    """
    reading = asyncio.ensure_future(_read(api, workload, on_lines, notify))
    ending = asyncio.ensure_future(waiting.wait(api, [workload], until=TERMINAL, on_change=on_change))
    try:
        # A reader that has gone away, as `head` does, ends it at once.
        await asyncio.wait({reading, ending}, return_when=asyncio.FIRST_EXCEPTION)
        if reading.done():
            reading.result()
        (ended,) = await ending
        await reading
    finally:
        reading.cancel()
        ending.cancel()
        await asyncio.wait({reading, ending})
    pods = await pod_facts.list_pods(api, ended)
    if hint := unpack_problem(pods):
        notify(hint)
    return ended, exit_code(ended, pods)


async def _read(
    api: Client,
    workload: Object,
    on_lines: Callable[[list[LogLine]], Awaitable[None]],
    notify: Callable[[str], None],
) -> None:
    options = LogOptions()
    try:
        async with aclosing(logs.follow_batches(api, workload, options, notify)) as batches:
            async for batch in batches:
                await on_lines(batch)
    except (ApiError, ClientError) as error:
        # The status goes on without the logs, for example where they may not be read.
        notify(f"the logs cannot be followed: {error}")


def exit_code(workload: Object, pods: list[Object]) -> int:
    """The exit code of the command.

    Args:
        workload: after its end.
        pods: its pods, as far as they still exist.

    Raises:
        WorkloadFailed: it has not ended.
    """
    word = workload_fields.word(workload)
    if word == "COMPLETE":
        return 0
    if word not in TERMINAL:
        raise WorkloadFailed(f"{label(workload)} has not ended; it is {word or 'new'}")
    codes = [code for pod in pod_facts.in_order(pods) for code in _codes(pod) if code]
    reported = _RAY_EXIT.search(workload_fields.message(workload))
    if reported and workload_fields.spec(workload).get("ray") and int(reported[1]):
        return int(reported[1])
    return codes[-1] if codes else _FAILED


def _codes(pod: Object) -> list[int]:
    """The exit code of a pod's main container, or of the one that unpacks the folder when that failed."""
    status = pod.get("status") or {}
    listed = (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ()))
    wanted = (UNPACKER, pod_facts.main_container(pod))
    found = []
    for container in listed:
        ended = (container.get("state") or {}).get("terminated") or {}
        if container.get("name") in wanted and isinstance(ended.get("exitCode"), int):
            found.append(ended["exitCode"])
    return found


def unpack_problem(pods: list[Object]) -> str:
    """Why the folder could not be unpacked, in a sentence; empty when it was."""
    for pod in pods:
        for container in (pod.get("status") or {}).get("initContainerStatuses") or ():
            ended = (container.get("state") or {}).get("terminated") or {}
            if container.get("name") != UNPACKER or not ended.get("exitCode"):
                continue
            if ended.get("reason") in NOT_STARTED:
                return (
                    "the image has no /bin/sh, so the folder cannot be unpacked; use another image, or put "
                    "the code into the image and run with --no-sync"
                )
            return last_line(ended.get("message")) or _NOT_UNPACKED
    return ""
