"""``kaiwo operator``: the operator process."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kaiwo.cli import options
from kaiwo.cli.failures import Failure

if TYPE_CHECKING:
    from kaiwo.host.settings import Settings

_YOUNG_OBJECTS = 20_000
"""Allocations between two collections of the youngest objects; Python's default is 700."""


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def operator() -> None:
    """Run the operator.

    \b
      kaiwo operator run --plugins batch_job,gpu_amd
      kaiwo operator settings
    """


@operator.command()
@click.option(
    "--config", type=click.Path(path_type=Path), metavar="FILE",
    help="Settings file (YAML); also KAIWO_OPERATOR_CONFIG.",
)  # fmt: skip
@click.option(
    "--plugins",
    metavar="NAMES",
    help="Load these plugins and only these, separated by commas; '' loads none.",
)
@click.option(
    "--watch-namespace",
    multiple=True,
    metavar="NAMES",
    help="Reconcile workloads of these namespaces only, comma-separated; may be given several times.",
)
@click.option(
    "--shard",
    metavar="NAME",
    help="Which of several operators this is: main, or the label kaiwo.silogen.ai/shard of its namespaces.",
)
@click.option(
    "--metrics-address", metavar="ADDRESS:PORT",
    help="Of /healthz, /readyz and /metrics (default: 127.0.0.1:8080).",
)  # fmt: skip
@click.option("--log-format", type=click.Choice(["json", "text"]), help="Form of log lines (default: text).")
@click.option(
    "--no-leader-election", is_flag=True, help="Write without a Lease: only for a single, local process."
)
def run(
    *,
    config: Path | None,
    plugins: str | None,
    watch_namespace: tuple[str, ...],
    shard: str | None,
    metrics_address: str | None,
    log_format: str | None,
    no_leader_election: bool,
) -> None:
    """Run the operator until SIGTERM or Ctrl-C.

    \b
      kaiwo operator run --watch-namespace team-a,team-b
      kaiwo operator run --config operator.yaml

    Settings come from flags, environment variables and a file, in this order of precedence; what can change
    while it runs is in the KaiwoConfig named kaiwo. `kaiwo operator settings` lists all of them.
    """
    from kaiwo.host.settings import SettingsError, load

    common = options.settings()
    flags = {
        "plugins": plugins,
        "watch_namespace": ",".join(watch_namespace) or None,
        "shard": shard,
        "metrics_address": metrics_address,
        "log_format": log_format,
        "leader_election": False if no_leader_election else None,
        "kubeconfig": common.kubeconfig,
        "context": common.context,
        "log_level": "debug" if common.verbosity > 0 else None,
    }
    try:
        settings = load(flags=flags, environ=os.environ, file=config)
    except SettingsError as error:
        raise Failure(f"invalid operator settings:\n{error}", "kaiwo operator settings", code=2) from None
    _run(settings)


@operator.command("settings")
def settings_command() -> None:
    """List every process setting: key in the file, environment variable, default, meaning."""
    from kaiwo.host.settings import describe

    for key, variable, default, meaning in describe():
        click.echo(f"{key}\n    {variable}, default {default or 'empty'}\n    {meaning}")


def _run(settings: Settings) -> None:
    import asyncio
    import gc

    from kaiwo.engine.logging import setup_logging
    from kaiwo.host import process
    from kaiwo.host.assembly import assemble
    from kaiwo.plugin.loader import RequiredPluginError, load

    try:
        from uvloop import new_event_loop
    except ImportError as error:
        raise Failure(f"platform not supported: {error}", "run it on Linux or macOS") from None

    setup_logging(settings.log_format, settings.log_level)
    try:
        loaded = load(settings.selection)
    except RequiredPluginError as error:
        raise Failure(str(error), "kaiwo plugins") from None

    async def main() -> None:
        process.raise_open_file_limit()
        await process.run(assemble(settings, loaded).run)

    # Modules live as long as the process, and reconciling leaves no reference cycles behind: collecting
    # at every few hundred allocations is wasted time.
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS, 20, 20)
    try:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(main())
    except RequiredPluginError as error:
        raise Failure(str(error), "kaiwo plugins") from None
    except OSError as error:
        raise Failure(f"the operator cannot start: {error}", "choose another --metrics-address") from error
