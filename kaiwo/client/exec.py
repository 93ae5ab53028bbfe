"""Commands in the pods of a workload."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from kaiwo.client import pods as pod_facts
from kaiwo.client.lookup import label, reference
from kaiwo.client.pods import NoPods
from kaiwo.client.record import Record
from kaiwo.engine.errors import ConnectionBroken
from kaiwo.engine.exec_session import STDOUT
from kaiwo.engine.streaming import open_exec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaiwo.engine.client import Client
    from kaiwo.engine.exec_session import ExecSession
    from kaiwo.engine.resource import Object

SHELL = ("/bin/sh", "-c", "if command -v bash >/dev/null 2>&1; then exec bash; else exec sh; fi")
"""Starts the better shell that an image has."""


class CommandResult(Record, frozen=True):
    """How a command in a container ended.

    Attributes:
        pod: name of the pod.
        container: name of the container.
        exit_code: of the command.
        stdout: what it wrote, undecodable bytes replaced.
        stderr: what it wrote to standard error.
    """

    pod: str
    container: str
    exit_code: int
    stdout: str
    stderr: str


async def running_pods(api: Client, workload: Object, *, pod: str | None = None) -> list[Object]:
    """The pods in which commands can run, those that are ready first.

    Args:
        api: the client.
        workload: as the API server returned it.
        pod: only the one of this name.

    Raises:
        NoPods: none runs; the message says why.
    """
    found = await pod_facts.list_pods(api, workload)
    if not found:
        raise pod_facts.why_no_pods(workload)
    if pod is not None:
        known = ", ".join(map(pod_facts.pod_name, found))
        found = [each for each in found if pod_facts.pod_name(each) == pod]
        if not found:
            raise NoPods(f'pod "{pod}" is none of {label(workload)}', f"its pods: {known}")
    running = [each for each in found if pod_facts.is_running(each)]
    if not running:
        raise _none_runs(workload, found[-1])
    return sorted(running, key=lambda each: not pod_facts.is_ready(each))


def _none_runs(workload: Object, pod: Object) -> NoPods:
    name = pod_facts.pod_name(pod)
    if pod_facts.has_ended(pod):
        return NoPods(
            f"no pod of {label(workload)} runs any more; {name} has ended ({pod_facts.phase(pod)})",
            f"kaiwo logs {reference(workload)}",
        )
    waiting = pod_facts.container_state(pod, pod_facts.main_container(pod)).waiting
    return NoPods(
        f"no pod of {label(workload)} runs yet; {name}: {waiting or pod_facts.phase(pod)}",
        f"kaiwo status {reference(workload)}",
    )


async def start(
    api: Client,
    pod: Object,
    command: Sequence[str],
    *,
    container: str | None = None,
    stdin: bool = False,
    tty: bool = False,
) -> ExecSession:
    """Start a command in a pod.

    Args:
        api: the client.
        pod: one of `running_pods`.
        command: program and arguments.
        container: its name; None for the main one.
        stdin: whether the command gets input.
        tty: with a terminal.

    Raises:
        NoContainer: the pod has no such container.
        ApiError: rejected.
    """
    if container is not None and container not in pod_facts.containers(pod):
        raise pod_facts.unknown_container([pod], container)
    return await open_exec(
        api,
        pod["metadata"]["namespace"],
        pod_facts.pod_name(pod),
        command,
        container=container or pod_facts.main_container(pod),
        stdin=stdin,
        tty=tty,
    )


async def run(
    api: Client,
    workload: Object,
    command: Sequence[str],
    *,
    pod: str | None = None,
    container: str | None = None,
    stdin: bytes | None = None,
) -> CommandResult:
    """Run a command in the first pod that is ready, and return what it wrote.

    Args:
        api: the client.
        workload: as the API server returned it.
        command: program and arguments.
        pod: name of another pod.
        container: its name; None for the main one.
        stdin: its input, None for none.

    Raises:
        ClientError: no pod runs, or it has no such container.
        ApiError: rejected, or the program is not there.
        ConnectionBroken: the connection broke before the command ended.
    """
    chosen = (await running_pods(api, workload, pod=pod))[0]
    return await run_in(api, chosen, command, container=container, stdin=stdin)


async def run_in(
    api: Client,
    pod: Object,
    command: Sequence[str],
    *,
    container: str | None = None,
    stdin: bytes | None = None,
    most: int | None = None,
) -> CommandResult:
    """Run a command in a pod; as `run`.

    Args:
        api: the client.
        pod: the pod.
        command: program and arguments.
        container: its name; None for the main one.
        stdin: its input, None for none.
        most: bytes that it may write; None for any number.

    Raises:
        ClientError: the pod has no such container.
        ApiError: rejected, or the program is not there.
        ConnectionBroken: the connection broke before the command ended, or it writes more.
    """
    session = await start(api, pod, command, container=container, stdin=stdin is not None)
    output: dict[bool, list[bytes]] = {True: [], False: []}
    size = 0

    async def feed(data: bytes) -> None:
        # A command may end before it has read all.
        with suppress(ConnectionBroken):
            await session.write(data)
            await session.end_stdin()

    feeding = asyncio.ensure_future(feed(stdin)) if stdin is not None else None
    try:
        while (piece := await session.read()) is not None:
            output[piece[0] == STDOUT].append(piece[1])
            size += len(piece[1])
            if most is not None and size > most:
                raise ConnectionBroken(f"exec: more than {most} bytes of output")
    finally:
        if feeding is not None:
            feeding.cancel()
            await asyncio.wait({feeding})
        await session.close()
    return CommandResult(
        pod=pod_facts.pod_name(pod),
        container=container or pod_facts.main_container(pod),
        exit_code=session.exit_code or 0,
        stdout=b"".join(output[True]).decode("utf-8", "replace"),
        stderr=b"".join(output[False]).decode("utf-8", "replace"),
    )
