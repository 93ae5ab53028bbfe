"""``kaiwo init``: the default queue set-up as a difference from the cluster, written on yes."""

from __future__ import annotations

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
    with kit.cluster() as cluster:
        state = cluster.run(lambda api: read_setup(api, loaded))
        if form == "table":
            _show(state.report())
        apply = bool(state.writes) and not dry_run
        if apply and not yes:
            confirm_writing("kaiwo init", len(state.writes))
        if apply:
            cluster.run(lambda api: apply_setup(api, state))
    if form in ("json", "yaml"):
        import msgspec

        kit.dump(msgspec.to_builtins(state.report(applied=apply)), form)
        return
    if not state.writes:
        kit.say("nothing to write; the configuration is as it should be")
    elif apply:
        kit.say("written; kaiwo doctor shows whether the operator has made the queues of it")


def _show(report: SetupReport) -> None:
    for obj in report.objects:
        by = " (made by the operator)" if obj.written_by == "operator" else ""
        click.echo(clean(f"{obj.kind} {obj.name}: {obj.action}{by}"))
        _show_diff(obj)
    for note in report.notes:
        kit.say(f"note: {note}")


def _show_diff(obj: SetupObject) -> None:
    colored = sys.stdout.isatty() and kit.settings().color
    for line in obj.diff:
        text = f"  {clean(line)}"
        color = COLORS.get(line[:1])
        click.echo(click.style(text, fg=color) if colored and color else text)
