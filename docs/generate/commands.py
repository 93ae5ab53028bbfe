"""The reference of the command line, made of the commands' own help."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

import click

from docs.generate.pages import table
from kaiwo.cli import plugin_commands
from kaiwo.cli.command_group import load
from kaiwo.cli.main import COMMANDS

if TYPE_CHECKING:
    from collections.abc import Iterator


def reference() -> str:
    """Every command that ``kaiwo --help`` lists, plugins' included, as Markdown sections."""
    table_of_commands = {**plugin_commands.listed_commands(), **COMMANDS}
    names = [*COMMANDS, *(name for name in table_of_commands if name not in COMMANDS)]
    aliases = _aliases()
    parts = []
    for name in names:
        entry = table_of_commands[name]
        if not entry.hidden:
            parts += _sections(load(entry, name), f"kaiwo {name}", aliases.get(entry.load, []))
    return "\n\n".join(parts)


def _aliases() -> dict[str, list[str]]:
    """Hidden names of commands, by where the command is."""
    found: dict[str, list[str]] = {}
    for name, entry in COMMANDS.items():
        if entry.hidden:
            found.setdefault(entry.load, []).append(name)
    return found


def _sections(command: click.Command, name: str, aliases: list[str]) -> Iterator[str]:
    """A command's section, and those of the commands below it."""
    context = click.Context(command, info_name=name)
    yield f"## {name}"
    usage = " ".join(f"{name} {' '.join(command.collect_usage_pieces(context))}".split())
    yield f"```\n{usage}\n```"
    yield from _paragraphs(command.help or "")
    if aliases:
        yield f"Also: {', '.join(f'`kaiwo {alias}`' for alias in sorted(aliases))}."
    own = [param for param in command.params if isinstance(param, click.Option) and not param.hidden]
    rows = [(f"`{names}`", text) for names, text in _records(own, context)]
    if rows:
        yield table(("option", "meaning"), rows)
    if isinstance(command, click.Group):
        for member in command.list_commands(context):
            below = command.get_command(context, member)
            if below is not None and not below.hidden:
                yield from _sections(below, f"{name} {member}", [])


def _records(options: list[click.Option], context: click.Context) -> Iterator[tuple[str, str]]:
    for option in options:
        record = option.get_help_record(context)
        if record:
            yield record


def _paragraphs(text: str) -> Iterator[str]:
    r"""The help of a command; what ``\\b`` keeps unwrapped is a block of code."""
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        if paragraph.startswith("\b\n"):
            lines = inspect.cleandoc("\n" + paragraph.removeprefix("\b\n"))
            yield f"```\n{lines}\n```"
        else:
            yield " ".join(paragraph.split()).replace("<", r"\<")
