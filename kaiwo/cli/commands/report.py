"""``kaiwo report``: GPU-hours reserved, used, idle and waiting."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Literal

import click

from kaiwo.cli import kit, options
from kaiwo.cli.duration import SECONDS
from kaiwo.client import user_config

if TYPE_CHECKING:
    from kaiwo.client.report import GpuReport

_WEEK = 7 * 86400.0
_LONGEST = 10 * 366 * 86400.0
_FORMATS = ("table", "json", "yaml", "csv")


@click.command()
@click.option(
    "--since", type=SECONDS, default=_WEEK, metavar="DURATION", help="Length of the window: 24h, 30d (7d)."
)
@click.option(
    "--by",
    type=click.Choice(("user", "queue", "namespace")),
    default="user",
    show_default=True,
    help="What a row stands for.",
)
@click.option("--prometheus", metavar="URL", default="", help="A Prometheus server with the GPUs' metrics.")
@click.option("--csv", "as_csv", is_flag=True, help="The same as -o csv.")
@click.option(
    "-o",
    "--output",
    "form",
    type=click.Choice(_FORMATS),
    cls=options.ShortOption,
    help="How data is written.",
)
@options.config_option
def report(
    *,
    since: float,
    by: Literal["user", "queue", "namespace"],
    prometheus: str,
    as_csv: bool,
    form: str | None,
    config: str | None,
) -> None:
    """Show GPU-hours: reserved, used, idle, waiting.

    \b
      kaiwo report                                  your namespace, the last 7 days, by user
      kaiwo report -A --by queue --since 30d        the whole cluster
      kaiwo report --prometheus http://localhost:9090 --csv > week.csv

    Reserved and waiting are read from the workloads that exist. Used and idle need a Prometheus server that
    collects the metrics of the GPUs (AMD: gpu_gfx_activity, NVIDIA: DCGM_FI_DEV_GPU_UTIL). The sources of the
    figures, and what they cannot show, are written to standard error and are part of the JSON.
    """
    from kaiwo.cli.namespaces import check_namespace
    from kaiwo.client.report import gpu_report

    options.use_configured_namespace(user_config.load(config))
    if not 0 < since <= _LONGEST:
        raise click.BadParameter("expected more than 0 and at most ten years", param_hint="--since")
    plugins = kit.plugins()
    window = timedelta(seconds=since)
    with kit.cluster() as cluster:
        found = cluster.run(
            lambda api: gpu_report(api, plugins, cluster.scope, since=window, by=by, prometheus=prometheus)
        )
        if not found.items:
            check_namespace(cluster)
    write(found, "csv" if as_csv else form or kit.settings().output or "table")


def write(found: GpuReport, form: str) -> None:
    """Write the report in a form, and to standard error what its figures mean."""
    from kaiwo.cli.output import report_view

    if form in ("json", "yaml"):
        import msgspec

        kit.dump(msgspec.to_builtins(found), "json" if form == "json" else "yaml")
        return
    if form == "csv":
        click.echo(report_view.to_csv(found), nl=False)
    elif found.items:
        report_view.write_report(found)
    else:
        where = f"namespace {found.scope}" if found.scope else "any namespace"
        kit.say(f"no GPU-hours in {where} since {found.start}; try -A or a longer --since")
    for title, text in (
        ("reserved", found.sources.reserved),
        ("used", found.sources.used),
        ("idle", found.sources.idle),
        ("waiting", found.sources.waiting),
    ):
        kit.say(f"{title}: {text}")
    for text in found.unseen:
        kit.say(f"not shown: {text}")
