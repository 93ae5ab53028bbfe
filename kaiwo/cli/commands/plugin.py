"""``kaiwo plugin``: for authors of plugins."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kaiwo.cli import kit
from kaiwo.cli.plugin_scaffold.command import new
from kaiwo.cli.terminal import clean

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kaiwo.testing.conformance.results import ConformanceResult

_MARGIN = " " * 9


@click.group()
def plugin() -> None:
    """Write a plugin, and check it.

    \b
      kaiwo plugin new vendor acme    write the distribution of a new plugin
      kaiwo plugin test acme          run the conformance suite on the installed plugin acme
    """


plugin.add_command(new)


@plugin.command("list", hidden=True)
@click.pass_context
def list_command(ctx: click.Context) -> None:
    """The same as kaiwo plugins."""
    from kaiwo.cli.commands.plugins import plugins

    ctx.invoke(plugins, as_allow_list=False)


@plugin.command("test")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option(
    "--seconds",
    type=click.FloatRange(min=0),
    default=2.0,
    show_default=True,
    help="How long each plugin's functions are called with random input.",
)
@click.pass_context
def test_command(ctx: click.Context, names: tuple[str, ...], seconds: float) -> None:
    """Run the conformance suite on installed plugins.

    \b
      kaiwo plugin test                      every installed plugin
      kaiwo plugin test acme --seconds 60    one plugin, with much random input
      kaiwo plugin test acme -o json         for scripts

    Each plugin is loaded alone, whether or not KAIWO_PLUGINS selects it, and then beside everything that is
    installed and not in KAIWO_PLUGINS_DISABLED. The exit code is 1 if a check fails.
    """
    from kaiwo.testing.conformance.suite import check_plugin

    chosen = _chosen(names)
    form = kit.settings().output or "table"
    results = []
    for name in chosen:
        for result in check_plugin(name, seconds):
            results.append(result)
            if form in ("table", "wide"):
                for line in lines(result):
                    click.echo(line)
    if form in ("json", "yaml"):
        kit.dump([as_json(result) for result in results], form)
    if form == "name":
        for name in dict.fromkeys(result.plugin for result in results if result.state == "failed"):
            click.echo(name)
    kit.say(summary(results))
    if any(result.state == "failed" for result in results):
        ctx.exit(kit.FAILED)


def _chosen(names: tuple[str, ...]) -> tuple[str, ...]:
    """The plugins to test: those that are named, or everything installed.

    Raises:
        kit.Failure: a plugin is not installed, or its name cannot be read.
    """
    from kaiwo.plugin.discovery import installed_plugins
    from kaiwo.plugin.selection import PluginReference, SelectionError

    installed = installed_plugins()
    for name in names:
        try:
            wanted = PluginReference.parse(name)
        except SelectionError as error:
            raise kit.Failure(str(error), code=kit.USAGE) from error
        if not any(wanted.means(candidate.name, candidate.distribution) for candidate in installed):
            raise kit.Failure(
                f"plugin {name} is not installed",
                "install its distribution here (pip install -e .); kaiwo plugins lists the installed ones",
                code=kit.NOT_FOUND,
            )
    return names or tuple(dict.fromkeys(candidate.name for candidate in installed))


def lines(result: ConformanceResult) -> Iterator[str]:
    """One line for a check, and under it what is wrong, why it matters and what to do."""
    yield f"{result.state:<8} {clean(result.plugin)} {result.check}: {clean(result.message)}"
    for violation in result.violations:
        yield f"{_MARGIN}error: {clean(violation.where)}: {clean(violation.what)}"
        yield f"{_MARGIN}why:   {clean(violation.why)}"
        yield f"{_MARGIN}next:  {clean(violation.next_step)}"


def as_json(result: ConformanceResult) -> dict[str, object]:
    """A result for scripts."""
    return {
        "plugin": result.plugin,
        "check": result.check,
        "state": result.state,
        "message": result.message,
        "violations": [
            {"where": each.where, "what": each.what, "why": each.why, "next": each.next_step}
            for each in result.violations
        ],
    }


def summary(results: Sequence[ConformanceResult]) -> str:
    """How many checks ended how."""
    counted = {
        state: sum(result.state == state for result in results) for state in ("ok", "failed", "skipped")
    }
    return ", ".join(f"{count} {state}" for state, count in counted.items() if count) or "no plugin to test"
