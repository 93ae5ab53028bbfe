"""``kaiwo doctor``: checks of the cluster and of the installation, each with its fix."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from kaiwo.cli import kit, options
from kaiwo.cli.failures import FAILED
from kaiwo.cli.terminal import can_show, clean
from kaiwo.client import user_config

if TYPE_CHECKING:
    from kaiwo.client.doctor.result import DoctorCheck, DoctorReport

MARKS = {"ok": "✔", "warning": "!", "failed": "✘", "unknown": "!"}
ASCII_MARKS = {"ok": "+", "warning": "!", "failed": "x", "unknown": "!"}
"""For a terminal that cannot show the others."""

COLORS = {"ok": "green", "warning": "yellow", "failed": "red", "unknown": "yellow"}


@click.command()
@click.option("--problems", is_flag=True, help="Show only what is not ok.")
@options.config_option
@click.pass_context
def doctor(ctx: click.Context, *, problems: bool, config: str | None) -> None:
    """Check the cluster and the installation; say how to fix what fails.

    \b
      kaiwo doctor                  everything, for the context's namespace
      kaiwo doctor -n team          the same for the namespace team
      kaiwo doctor --problems       only what needs attention
      kaiwo doctor -o json          for scripts

    Every check says what it may not read. The exit code is 1 if a check fails.
    """
    options.one_namespace()
    options.use_configured_namespace(user_config.load(config))
    from kaiwo.api.installation import DEFAULT_NAMESPACE, OPERATOR
    from kaiwo.cli.doctor_installation import check_installed
    from kaiwo.client.doctor.result import DoctorScope
    from kaiwo.client.doctor.run import check_cluster

    loaded = kit.plugins()
    kit.warn_broken(loaded)
    with kit.cluster() as cluster:
        scope = DoctorScope(loaded, cluster.namespace, operator=OPERATOR, installation=DEFAULT_NAMESPACE)
        report = cluster.run(
            lambda client: check_cluster(client, scope, more=[("installed", check_installed)])
        )
    write(report, problems=problems)
    if report.failed:
        ctx.exit(FAILED)


def write(report: DoctorReport, *, problems: bool) -> None:
    """Write a report to standard output in the form given with ``-o``."""
    form = kit.settings().output or "table"
    if form in ("json", "yaml"):
        import msgspec

        kit.dump(msgspec.to_builtins(report), form)
        return
    shown = [check for check in report.checks if not problems or check.state != "ok"]
    if form == "name":
        for check in shown:
            click.echo(clean(check.name))
        return
    marks = MARKS if can_show("".join(MARKS.values())) else ASCII_MARKS
    for check in shown:
        for line in lines(check, marks=marks):
            click.echo(line)
    kit.say(summary(report))


def lines(check: DoctorCheck, *, marks: dict[str, str]) -> list[str]:
    """One line for a check, and one for its fix."""
    head = f"{marks[check.state]} {check.state:<7}"
    if sys.stdout.isatty() and kit.settings().color:
        head = click.style(head, fg=COLORS[check.state])
    found = [f"{head} {clean(check.name)}: {clean(check.message)}"]
    if check.fix:
        found.append(f"{'':>10}fix: {clean(check.fix)}")
    return found


def summary(report: DoctorReport) -> str:
    """How many checks ended how."""
    counted = {
        state: sum(check.state == state for check in report.checks)
        for state in ("ok", "warning", "failed", "unknown")
    }
    return ", ".join(f"{count} {state}" for state, count in counted.items() if count)
