"""``kaiwo init``: the default queue set-up as a difference from the cluster, written on yes."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING

import click

from kaiwo.cli import kit
from kaiwo.cli.confirmation import confirm_writing
from kaiwo.cli.terminal import clean

if TYPE_CHECKING:
    from kaiwo.client.queue_setup import SetupObject, SetupReport

COLORS = {"+": "green", "-": "red", "@": "cyan"}


@click.command("init")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Show the differences, change nothing.")
def init_command(*, yes: bool, dry_run: bool) -> None:
    """Show the default queue set-up for the nodes of the cluster, and write it on yes.

    \b
      kaiwo init --dry-run          what would change
      kaiwo init                    the same, then a question
      kaiwo init --yes              for scripts; a second run changes nothing

    Written are KaiwoConfig and the configuration of the queues. What the operator makes of it, quotas and
    flavors, is shown with it. A configuration that somebody else wrote stays as it is.
    """
    from kaiwo.client.queue_setup import apply_setup, read_setup

    loaded = kit.plugins()
    kit.warn_broken(loaded)
    form = kit.settings().output or "table"
    as_data = form in ("json", "yaml")
    with kit.cluster() as cluster:
        state = cluster.run(lambda api: read_setup(api, loaded))
        if not as_data:
            _show(state.report())
        apply = bool(state.writes) and not dry_run
        if apply and not yes:
            show = functools.partial(_show, state.report(), err=True) if as_data else None
            confirm_writing("kaiwo init", len(state.writes), show)
        if apply:
            cluster.run(lambda api: apply_setup(api, state))
    if as_data:
        import msgspec

        kit.dump(msgspec.to_builtins(state.report(applied=apply)), form)
        return
    if not state.writes:
        kit.say("nothing to write; the configuration is as it should be")
    elif apply:
        kit.say("written; kaiwo doctor shows whether the operator has made the queues of it")


def _show(report: SetupReport, *, err: bool = False) -> None:
    for obj in report.objects:
        by = " (made by the operator)" if obj.written_by == "operator" else ""
        click.echo(clean(f"{obj.kind} {obj.name}: {obj.action}{by}"), err=err)
        _show_diff(obj, err=err)
    for note in report.notes:
        kit.say(f"note: {note}")


def _show_diff(obj: SetupObject, *, err: bool) -> None:
    colored = (sys.stderr if err else sys.stdout).isatty() and kit.settings().color
    for line in obj.diff:
        text = f"  {clean(line)}"
        color = COLORS.get(line[:1])
        click.echo(click.style(text, fg=color) if colored and color else text, err=err)
