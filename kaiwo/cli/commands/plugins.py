"""``kaiwo plugins``: every installed plugin, what became of it, and what it declares."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from kaiwo.cli import kit
from kaiwo.cli.output.serialization import dump
from kaiwo.cli.output.table import write_table

if TYPE_CHECKING:
    from kaiwo.plugin.registry import LoadedPlugin, Plugins, PluginState

COLUMNS = (
    kit.Column("NAME", lambda row: row["name"]),
    kit.Column("STATE", lambda row: row["state"]),
    kit.Column("VERSION", lambda row: row["version"]),
    kit.Column("DISTRIBUTION", lambda row: row["distribution"]),
    kit.Column("NOTE", lambda row: row["message"] or _note(row)),
)


@click.group(invoke_without_command=True)
@click.pass_context
def plugins(ctx: click.Context) -> None:
    """List the plugins that are installed or configured, and their state.

    \b
      kaiwo plugins
      kaiwo plugins -o yaml     with what each declares

    A plugin is loaded, disabled (KAIWO_PLUGINS_DISABLED), not-selected (KAIWO_PLUGINS lists others), or
    broken: then the note has the cause. With -o json or yaml the list also has each plugin's declarations.
    """
    if ctx.invoked_subcommand is None:
        _list()


@plugins.command("list")
def list_command() -> None:
    """List the plugins and their state; the same without the word."""
    _list()


def _list() -> None:
    from kaiwo.plugin.loader import RequiredPluginError, load
    from kaiwo.plugin.selection import PluginSelection, SelectionError

    problem: RequiredPluginError | None = None
    try:
        loaded = load(PluginSelection.of(environ=os.environ))
    except SelectionError as error:
        raise kit.Failure(str(error)) from error
    except RequiredPluginError as error:
        loaded, problem = error.plugins, error
    _write([_row(state, loaded) for state in loaded.states])
    if problem:
        raise kit.Failure(str(problem))


def _write(rows: list[dict[str, Any]]) -> None:
    form = kit.settings().output or "table"
    match form:
        case "json" | "yaml":
            dump(rows, form)
        case "name":
            for row in rows:
                click.echo(row["name"])
        case _:
            write_table(COLUMNS, rows)
            if not rows:
                kit.say("no plugins installed; install one, for example kaiwo-batch-job")


def _row(state: PluginState, loaded: Plugins) -> dict[str, Any]:
    plugin = next(
        (p for p in loaded.loaded if (p.name, p.distribution) == (state.name, state.distribution)), None
    )
    return {
        "name": state.name,
        "state": state.state,
        "distribution": state.distribution,
        "version": state.version,
        "message": state.message,
        "declares": _declares(plugin) if plugin else {},
        "notYetBuilt": _not_yet_built(plugin) if plugin else [],
    }


def _declares(plugin: LoadedPlugin) -> dict[str, list[str]]:
    """What a plugin declares, by kind of declaration; only what there is."""
    declared = {
        "backEnds": [backend.name for backend in plugin.backends],
        "fields": [f"{field.kind}.{'.'.join(field.path)}" for field in plugin.fields()],
        "downloadSources": [source.name for source in plugin.sources],
        "gpuVendors": [vendor.name for vendor in plugin.vendors],
        "resourceKeys": [key for vendor in plugin.vendors for key in vendor.resource_keys],
        "queueSystems": [queue.name for queue in plugin.queue_systems],
        "controllers": [controller.name for controller in plugin.controllers],
        "kinds": [str(kind.resource) for controller in plugin.controllers for kind in controller.kinds],
        "podContributions": [contribution.name for contribution in plugin.contributions],
        "diagnosisRules": [rule.name for rule in plugin.diagnosis_rules],
        "commands": [command.name for command in plugin.commands],
        "lifecycles": [lifecycle.name for lifecycle in plugin.lifecycles],
        "transitionListeners": [listener.name for listener in plugin.listeners],
    }
    return {what: names for what, names in declared.items() if names}


def _not_yet_built(plugin: LoadedPlugin) -> list[str]:
    return [
        *(backend.name for backend in plugin.backends if not backend.built),
        *(source.name for source in plugin.sources if source.downloader is None),
    ]


def _note(row: dict[str, Any]) -> str:
    """For a loaded plugin: what cannot run although it is declared."""
    names = row["notYetBuilt"]
    return f"declared, not yet built: {', '.join(names)}" if names else ""
