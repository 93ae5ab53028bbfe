"""``kaiwo exec``: a command or a shell in a pod of a workload."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from kaiwo.cli import kit, options
from kaiwo.client.kinds import WORKLOADS
from kaiwo.client.user_config import load as load_user_config

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Object


@click.command("exec")
@click.argument("name", shell_complete=kit.complete_names(WORKLOADS))
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
@click.option("--command", "script", metavar="SCRIPT", help="Run this with sh -c.")
@click.option("--pod", metavar="NAME", help="Pod (default: the one that is ready, or ask).")
@click.option(
    "-c", "--container", metavar="NAME", cls=options.ShortOption, help="Container (default: the main one)."
)
@click.option("-i", "--stdin", is_flag=True, help="Pass standard input on (default: unless it is closed).")
@click.option("-t", "--tty/--no-tty", default=None, help="Terminal for the command (default: as here).")
@options.config_option
@click.pass_context
def exec_command(
    ctx: click.Context,
    *,
    name: str,
    words: tuple[str, ...],
    script: str | None,
    pod: str | None,
    container: str | None,
    stdin: bool,
    tty: bool | None,
    config: str | None,
) -> None:
    """Run a command in a pod of a workload; without one, a shell.

    \b
      kaiwo exec train                           a shell
      kaiwo exec train -- nvidia-smi             a program
      kaiwo exec train --command 'df -h | tail'  a script
      tar c src | kaiwo exec train -- tar x      with a pipe

    NAME is train, job/train or service/chat. Ends with the exit code of the command.
    """
    from kaiwo.cli.remote_terminal import attach
    from kaiwo.client import exec as client_exec
    from kaiwo.client.lookup import find_one
    from kaiwo.engine.errors import ConnectionBroken

    options.one_namespace()
    if script and words:
        raise click.UsageError("--command and a command after -- exclude each other")
    options.use_configured_namespace(load_user_config(config))
    command: Sequence[str] = ("/bin/sh", "-c", script) if script else words or client_exec.SHELL
    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    if tty and not sys.stdin.isatty():
        kit.say("warning: -t is ignored; standard input is not a terminal")
    wanted = sys.stdin.isatty() if tty else terminal and tty is None
    if not (script or words) and not wanted and sys.stdin.isatty():
        raise click.UsageError("a shell needs a terminal; give a command after --")
    with kit.cluster() as cluster:

        async def run(api: Client) -> int:
            _, workload = await find_one(api, cluster.namespace, name)
            chosen = _choose(await client_exec.running_pods(api, workload, pod=pod), asks=terminal)
            session = await client_exec.start(
                api,
                chosen,
                command,
                container=container,
                stdin=stdin or _has_stdin(),
                tty=wanted,
            )
            try:
                return await attach(session, stdin=stdin or _has_stdin(), tty=wanted)
            except ConnectionBroken as error:
                raise kit.Failure(
                    f"the connection to pod {chosen['metadata']['name']} broke; the command may still run",
                    "run it again; what must not end with the connection belongs into a job",
                ) from error
            finally:
                await session.close()

        ctx.exit(cluster.run(run))


def _has_stdin() -> bool:
    try:
        return sys.stdin.readable()
    except ValueError:
        return False


def _choose(pods: list[Object], *, asks: bool) -> Object:
    """The pod that is meant: asked for when there is a choice and somebody to ask."""
    names = [pod["metadata"]["name"] for pod in pods]
    if len(names) == 1:
        return pods[0]
    if not asks:
        kit.say(f"hint: runs in pod {names[0]}, the first of {len(names)}; choose with --pod", level=1)
        return pods[0]
    for number, each in enumerate(names, 1):
        click.echo(f"  {number}  {kit.clean(each)}", err=True)
    chosen: int = click.prompt("Pod", type=click.IntRange(1, len(names)), default=1, err=True)
    return pods[chosen - 1]
