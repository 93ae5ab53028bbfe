"""``kaiwo logs``: what the containers of a workload wrote."""

from __future__ import annotations

import sys
from contextlib import aclosing, nullcontext, suppress
from typing import TYPE_CHECKING

import click

from kaiwo.cli import kit, options
from kaiwo.cli.duration import SECONDS
from kaiwo.cli.failures import until_interrupted
from kaiwo.client.kinds import WORKLOADS
from kaiwo.client.user_config import load as load_user_config

if TYPE_CHECKING:
    from kaiwo.cli.kit import Cluster
    from kaiwo.client.log_follower import LogOptions


@click.command()
@click.argument("name", shell_complete=kit.complete_names(WORKLOADS))
@click.option("-f", "--follow", is_flag=True, help="Go on with new lines until the workload has ended.")
@click.option("--tail", type=int, metavar="N", help="Only the last N lines of each container.")
@click.option("--since", type=SECONDS, metavar="TIME", help="Only lines of the last 90s, 30m, 2h.")
@click.option(
    "-c",
    "--container",
    metavar="NAME",
    cls=options.ShortOption,
    help="Container (default: the main one of each pod).",
)
@click.option("--all", "--all-containers", "all_containers", is_flag=True, help="All containers.")
@click.option("-p", "--previous", is_flag=True, help="The container before its last restart.")
@click.option("--download", is_flag=True, help="The download of models and data instead.")
@click.option("--timestamps", is_flag=True, help="Begin each line with its time.")
@click.option(
    "--prefix/--no-prefix", default=None, help="Begin each line with its pod (default: if several)."
)
@options.config_option
def logs(
    *,
    name: str,
    follow: bool,
    tail: int | None,
    since: float | None,
    container: str | None,
    all_containers: bool,
    previous: bool,
    download: bool,
    timestamps: bool,
    prefix: bool | None,
    config: str | None,
) -> None:
    """Print the logs of a workload's pods.

    \b
      kaiwo logs train                the main container of each pod
      kaiwo logs train -f --tail 20   the last lines, then new ones
      kaiwo logs train --previous     why the last one crashed
      kaiwo logs train --download     the download of its models and data

    NAME is train, job/train or service/chat. With -f: goes on over restarts, new pods and lost
    connections, and ends with the workload.
    """
    from kaiwo.client.log_follower import LogOptions

    options.one_namespace()
    if kit.settings().output is not None:
        raise click.UsageError("-o is not supported here; logs are written as the containers wrote them")
    if all_containers and container:
        raise click.UsageError("--all and --container exclude each other")
    options.use_configured_namespace(load_user_config(config))
    wanted = LogOptions(
        # As kubectl: 0 means all, and -1 of lines.
        since_seconds=max(1, round(since)) if since else None,
        tail=None if tail is None or tail < 0 else tail,
        container=container,
        all_containers=all_containers,
        previous=previous,
        download=download,
    )
    with kit.cluster() as cluster:
        _write(cluster, name, wanted, follow=follow, timestamps=timestamps, prefix=prefix)


def _write(
    cluster: Cluster,
    name: str,
    wanted: LogOptions,
    *,
    follow: bool,
    timestamps: bool,
    prefix: bool | None,
) -> None:
    from kaiwo.cli.output.byte_writer import ByteWriter
    from kaiwo.cli.output.log_text import LogText
    from kaiwo.client import logs as client_logs
    from kaiwo.client.lookup import find_one
    from kaiwo.client.pods import list_pods

    async def write() -> None:
        _, workload = await find_one(cluster.api, cluster.namespace, name)
        pods = await list_pods(cluster.api, workload, download=wanted.download)
        count = sum(len(wanted.containers(pod)) for pod in pods)
        terminal = sys.stdout.isatty()
        text = LogText(
            terminal=terminal,
            color=terminal and kit.settings().color,
            timestamps=timestamps,
            prefixed=prefix if prefix is not None or count <= 1 else True,
            containers=wanted.all_containers,
        )
        output = ByteWriter("stdout")
        batches = client_logs.log_batches(cluster.api, workload, wanted, kit.say, follow=follow)
        async with aclosing(batches):
            async for batch in batches:
                await output.write(text.render(batch))

    # Whoever read, as `head` does, has what it wanted.
    with suppress(BrokenPipeError), until_interrupted() if follow else nullcontext():
        cluster.run(lambda _: write())
