"""``kaiwo plugins``: every installed plugin, what became of it, and what it declares."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from kaiwo.cli import kit
from kaiwo.cli.output.serialization import dump
from kaiwo.cli.output.table import write_table
from kaiwo.cli.terminal import clean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaiwo.client.plugin_records import PluginOverview

COLUMNS = (
    kit.Column("NAME", lambda row: row["name"]),
    kit.Column("STATE", lambda row: row["state"]),
    kit.Column("VERSION", lambda row: row["version"]),
    kit.Column("DISTRIBUTION", lambda row: row["distribution"]),
    kit.Column("MODULE", lambda row: row["module"], wide=True),
    kit.Column("PATH", lambda row: row["path"], wide=True),
    kit.Column("NOTE", lambda row: row["note"]),
)


@click.group(invoke_without_command=True)
@click.option(
    "--allow-list",
    "as_allow_list",
    is_flag=True,
    help="Print the setting pluginsAllowed that allows exactly what is installed, and import nothing.",
)
@click.pass_context
def plugins(ctx: click.Context, *, as_allow_list: bool) -> None:
    """List the plugins that are installed or configured, and their state.

    \b
      kaiwo plugins
      kaiwo plugins -o wide           with the file that is imported
      kaiwo plugins -o yaml           with what each declares
      kaiwo plugins --allow-list      with versions and digests, for the operator's settings

    A plugin is loaded, disabled (KAIWO_PLUGINS_DISABLED), not-selected (KAIWO_PLUGINS lists others),
    not-allowed (KAIWO_PLUGINS_ALLOWED lacks it) or broken: then the note has the cause. With -o json or yaml
    the list also has each plugin's declarations, and what it names and does not exist.
    """
    if ctx.invoked_subcommand is not None:
        return
    if as_allow_list:
        _print_allow_list()
    else:
        _list()


@plugins.command("list")
def list_command() -> None:
    """List the plugins and their state; the same without the word."""
    _list()


def _list() -> None:
    from kaiwo.cli.plugin_overviews import plugin_overviews
    from kaiwo.plugin.loader import RequiredPluginError, load
    from kaiwo.plugin.selection import PluginSelection, SelectionError

    problem: RequiredPluginError | None = None
    try:
        loaded = load(PluginSelection.of(environ=os.environ))
    except SelectionError as error:
        raise kit.Failure(str(error)) from error
    except RequiredPluginError as error:
        loaded, problem = error.plugins, error
    _write(plugin_overviews(loaded))
    if problem:
        raise kit.Failure(str(problem))


def _write(overviews: Sequence[PluginOverview]) -> None:
    import msgspec

    match kit.settings().output or "table":
        case "json" | "yaml" as form:
            dump(msgspec.to_builtins(overviews), form)
        case "name":
            for overview in overviews:
                click.echo(clean(overview.name))
        case _:
            rows = [{**msgspec.to_builtins(overview), "note": _note(overview)} for overview in overviews]
            write_table(COLUMNS, rows)
            if not rows:
                kit.say("no plugins installed; install one, for example kaiwo-batch-job")


def _note(overview: PluginOverview) -> str:
    """Why a plugin is not loaded; of a loaded one what cannot run although it is declared."""
    notes = [overview.message] if overview.message else []
    if names := overview.not_yet_built:
        notes.append(f"declared, not yet built: {', '.join(names)}")
    if overview.state == "loaded":
        notes += [f"{target.declaration}: {target.problem}" for target in overview.missing_targets]
    return "; ".join(notes)


def _print_allow_list() -> None:
    """Print what allows the selected plugins as they are installed; none of them is imported."""
    from kaiwo.plugin.allow_list import entry_of
    from kaiwo.plugin.claims import decide
    from kaiwo.plugin.discovery import installed_plugins
    from kaiwo.plugin.selection import PluginSelection, SelectionError

    environ = {name: value for name, value in os.environ.items() if name != "KAIWO_PLUGINS_ALLOWED"}
    try:
        chosen, left_out = decide(installed_plugins(), PluginSelection.of(environ=environ))
    except SelectionError as error:
        raise kit.Failure(str(error)) from error
    for candidate, state, message, _ in left_out:
        if state == "broken":
            kit.say(f"warning: {candidate.name} of {candidate.distribution} is left out: {message}")
    entries = []
    for candidate in sorted(chosen):
        entry, problem = entry_of(candidate)
        if problem:
            kit.say(f"warning: {candidate.name} has no digest: {problem}")
        entries.append(str(entry))
    match kit.settings().output:
        case "json":
            dump({"pluginsAllowed": entries}, "json")
        case "name":
            click.echo("".join(f"{clean(entry)}\n" for entry in entries), nl=False)
        case _:
            dump({"pluginsAllowed": entries}, "yaml")
