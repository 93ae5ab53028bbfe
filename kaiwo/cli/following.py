"""A run that was started, to its end: status, logs and exit code, or a shell in its pod."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from kaiwo.api.status_words import TERMINAL
from kaiwo.cli import kit
from kaiwo.cli.failures import FAILED, INTERRUPTED, Failure
from kaiwo.cli.output.status_changes import report_change
from kaiwo.client import workload_fields
from kaiwo.client.lookup import label

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kaiwo.cli.kit import Cluster
    from kaiwo.client.logs import LogLine
    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Object

_RUNS = ("RUNNING", "READY")


def follow(cluster: Cluster, workload: Object, *, rm: bool, begin: Callable[[], None]) -> int:
    """Report status and logs until the workload has ended; the exit code of its command.

    Args:
        cluster: where it is.
        workload: as the API server returned it.
        rm: delete it when it has ended.
        begin: called first; Ctrl-C detaches then, too.

    Raises:
        Failure: it was deleted, or stays in ERROR.
    """
    from kaiwo.cli.output.byte_writer import ByteWriter
    from kaiwo.cli.output.log_text import LogText
    from kaiwo.client import deletion, run_outcome
    from kaiwo.client.errors import WorkloadFailed

    name, namespace = label(workload), workload["metadata"]["namespace"]
    terminal = sys.stdout.isatty()
    text = LogText(
        terminal=terminal,
        color=terminal and kit.settings().color,
        timestamps=False,
        prefixed=None,
        containers=False,
    )
    output = ByteWriter("stdout")
    word = workload_fields.word(workload)

    def changed(obj: Object) -> None:
        nonlocal word
        word = workload_fields.word(obj)
        report_change(obj)

    async def write(lines: list[LogLine]) -> None:
        await output.write(text.render(lines))

    try:
        begin()
        ended, code = cluster.run(
            lambda api: run_outcome.follow(api, workload, on_change=changed, on_lines=write, notify=kit.say)
        )
    except (KeyboardInterrupt, BrokenPipeError):
        # Logs may still come in after the end of the workload.
        if word in TERMINAL:
            kit.say(f"\ninterrupted; {name} has ended ({word})")
            kit.say(
                f"hint: kaiwo logs {name} -n {namespace}; delete it with kaiwo delete {name} -n {namespace}"
            )
        else:
            kit.say(f"\ndetached; {name} goes on")
            kit.say(
                f"hint: kaiwo logs -f {name} -n {namespace}; end it with kaiwo delete {name} -n {namespace}"
            )
        return INTERRUPTED
    except WorkloadFailed as error:
        raise Failure(error.message, f"kaiwo why {name} -n {namespace}", code=FAILED) from error
    if code:
        kit.say(f"error: {name} failed with exit code {code}", level=-1)
        if not rm:
            kit.say(f"hint: kaiwo why {name} -n {namespace}")
    if rm:
        cluster.run(lambda api: deletion.delete(api, ended))
        kit.say(f"{name} deleted")
    return code


def open_shell(
    cluster: Cluster, workload: Object, command: Sequence[str], *, begin: Callable[[], None]
) -> int:
    """Wait for the pod, run a command in it with this terminal, and delete the workload at the end.

    Args:
        cluster: where it is.
        workload: as the API server returned it; its pod waits.
        command: the shell.
        begin: called first.
    """
    from kaiwo.cli.remote_terminal import attach
    from kaiwo.client import deletion, waiting
    from kaiwo.client import exec as client_exec

    terminal = sys.stdin.isatty() and sys.stdout.isatty()

    async def work(api: Client) -> int:
        await waiting.wait(api, [workload], until=_RUNS, on_change=report_change)
        pod = (await client_exec.running_pods(api, workload))[0]
        session = await client_exec.start(api, pod, command, stdin=True, tty=terminal)
        try:
            return await attach(session, stdin=True, tty=terminal)
        finally:
            await session.close()

    try:
        begin()
        return cluster.run(work)
    finally:
        cluster.run(lambda api: deletion.delete(api, workload))
        kit.say(f"{label(workload)} deleted")
