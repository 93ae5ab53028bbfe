"""Shell completion of options by their names, for every command, those of plugins too."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_LIVE = {
    "--context": "contexts",
    "--namespace": "namespaces",
    "--plugins": "plugin_names",
    "--queue": "queues",
    "--set": "assignments",
    "--user": "users",
}
"""Options whose values a shell completes, whatever command has them: the function of `live_completion`."""


def _complete(param: click.Parameter) -> None:
    """Complete an option of a known name, unless its command does it itself."""
    name = next((_LIVE[word] for word in param.opts if word in _LIVE), "")
    if not name or getattr(param, "_custom_shell_complete", None) is not None:
        return

    def items(ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        from kaiwo.cli import live_completion

        return [CompletionItem(found) for found in getattr(live_completion, name)(ctx, param, incomplete)]

    param.shell_complete = items  # type: ignore[method-assign]  # what the constructor's argument does, later


def complete_options(command: click.Command) -> click.Command:
    """Complete the values of a command's options, and of those of the commands below it."""
    for param in command.params:
        _complete(param)
    if isinstance(command, click.Group):
        for member in command.commands.values():
            complete_options(member)
    return command
