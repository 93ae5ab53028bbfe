"""A click group that knows its commands by a table and imports one only when it is called."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from kaiwo.cli import options
from kaiwo.cli.option_completion import complete_options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from click.shell_completion import CompletionItem


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """Where a command is and its text in the list of commands.

    Attributes:
        load: ``module:attribute`` of a click command.
        help: one line.
        hidden: left out of the list (an alias).
    """

    load: str
    help: str
    hidden: bool = False


class LazyGroup(click.Group):
    """A group whose commands are imported on call.

    Args:
        table: commands of the host, by name; they win over a plugin's.
        listed: commands that plugins add, for the list; must be cheap.
        find: a plugin's command by name, called when neither table nor list has it; may be slow.
    """

    def __init__(
        self,
        *args: object,
        table: Mapping[str, CommandEntry],
        listed: Callable[[], Mapping[str, CommandEntry]],
        find: Callable[[str], CommandEntry | None],
        **kwargs: object,
    ) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]  # passed through to click unchanged
        self._table = table
        self._listed = listed
        self._find = find

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the table's order, then the plugins' in theirs."""
        del ctx
        return [*self._table, *(name for name in self._listed() if name not in self._table)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command; None if there is none of that name."""
        entry = self._table.get(cmd_name) or self._listed().get(cmd_name) or self._find(cmd_name)
        if entry is None:
            return None
        try:
            return complete_options(options.share(load(entry, cmd_name)))
        except click.ClickException:
            if ctx.resilient_parsing:
                # A tab must not print an error over the line that is being typed.
                return None
            raise

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click's, but an unknown name is answered with the nearest one."""
        name = args[0]
        command = self.get_command(ctx, name)
        if command is None and name == "help" and not ctx.resilient_parsing:
            return self._resolve_help(ctx, args[1:])
        if command is not None:
            if options.settings(ctx).watch and options.WATCH not in command.params:
                raise click.UsageError(f"{name} does not support --watch", ctx=ctx)
            return name, command, args[1:]
        if ctx.resilient_parsing:
            # A shell that completes behind a misspelt command shows nothing.
            return None, None, args
        from kaiwo.api.suggestion import did_you_mean
        from kaiwo.cli.other_commands import EQUIVALENTS

        if name in EQUIVALENTS:
            raise click.UsageError(f'unknown command "{name}"; use {EQUIVALENTS[name]}', ctx=ctx)
        known = self.list_commands(ctx)
        hint = did_you_mean(name, known) or f"known: {', '.join(known)}"
        raise click.UsageError(f'unknown command "{name}"; {hint}', ctx=ctx)

    def _resolve_help(
        self, ctx: click.Context, words: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """``help submit`` is ``submit --help``, as for git and kubectl; without a command the group's own."""
        named = [word for word in words if word != "help" and not word.startswith("-")]
        if not named:
            click.echo(ctx.get_help())
            ctx.exit()
        return self.resolve_command(ctx, [*named, "--help"])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Names from the tables, importing no command, and the options of this group."""
        from click.shell_completion import CompletionItem

        entries = {**self._listed(), **self._table}
        names = [name for name in self.list_commands(ctx) if not entries[name].hidden]
        found = [CompletionItem(name, help=entries[name].help) for name in names]
        options_of_group = click.Command.shell_complete(self, ctx, incomplete)
        return [*(item for item in found if item.value.startswith(incomplete)), *options_of_group]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands from the table's words, importing none."""
        del ctx
        plugins = {name: entry for name, entry in self._listed().items() if name not in self._table}
        _section(formatter, "Commands", self._table.items())
        if plugins:
            _section(formatter, "Commands of plugins", plugins.items())


def load(entry: CommandEntry, name: str) -> click.Command:
    """Import a command.

    Raises:
        click.ClickException: importing the module raises, or it holds no command there, which is a defect of
            the plugin that declares it.
    """
    module, _, attribute = entry.load.partition(":")
    try:
        command = getattr(importlib.import_module(module), attribute)
    except (Exception, SystemExit) as error:  # a plugin's module may raise anything
        raise click.ClickException(
            f'command "{name}" cannot be loaded from {entry.load}: {type(error).__name__}: {error}; '
            "kaiwo plugins shows its package; reinstall or disable it"
        ) from error
    if not isinstance(command, click.Command):
        raise click.ClickException(f'command "{name}": {entry.load} is not a click command')
    return command


def _section(formatter: click.HelpFormatter, title: str, entries: Iterable[tuple[str, CommandEntry]]) -> None:
    rows = [(name, entry.help) for name, entry in entries if not entry.hidden]
    with formatter.section(title):
        formatter.write_dl(rows)
