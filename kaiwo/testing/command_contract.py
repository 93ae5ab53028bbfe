"""What the host relies on in a command."""

from __future__ import annotations

import pkgutil
from typing import TYPE_CHECKING

import click
from click.testing import CliRunner

from kaiwo.plugin.conflicts import HOST_COMMANDS
from kaiwo.testing.assertions import require

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kaiwo.plugin.commands import Command


def assert_command_contract(
    command: Command, *, runs: Sequence[Sequence[str]] = (), fails: Sequence[Sequence[str]] = ()
) -> None:
    """Check a command, and call it.

    It is a click command with help for itself, for each of its options and for each command below it. Its
    name is none of the host's.

    Args:
        command: the command.
        runs: arguments with which it succeeds.
        fails: arguments with which it ends with a message for the user and no traceback.

    Raises:
        AssertionError: what does not hold, with what the command printed.
    """
    where = f"command {command.name}"
    require(command.name not in HOST_COMMANDS, f"{where} belongs to kaiwo itself")
    found = loaded_command(command)
    for fault in command_faults(command.name, found):
        raise AssertionError(fault)
    for arguments in (["--help"], *runs):
        result = CliRunner().invoke(found, list(arguments))
        outcome = f"{result.exit_code}: {result.output}{result.exception!r}"
        require(result.exit_code == 0, f"{where} {' '.join(arguments)} ended with {outcome}")
    for arguments in fails:
        result = CliRunner().invoke(found, list(arguments))
        text = f"{where} {' '.join(arguments)}"
        require(result.exit_code != 0, f"{text} succeeded, expected it to fail: {result.output}")
        require(
            result.exception is None or isinstance(result.exception, SystemExit),
            f"{text} raised {result.exception!r}, expected kaiwo.cli.kit.Failure",
        )
        require(result.output.strip(), f"{text} failed without a message")


def loaded_command(command: Command) -> click.Command:
    """The click command that a declaration names.

    Raises:
        AssertionError: it cannot be imported, or is none.
    """
    try:
        found = pkgutil.resolve_name(command.load)
    except Exception as error:
        raise AssertionError(
            f"command {command.name}: {command.load} cannot be imported: {error!r}"
        ) from error
    require(
        isinstance(found, click.Command), f"command {command.name}: {command.load} is not a click command"
    )
    made: click.Command = found
    return made


def command_faults(name: str, command: click.Command) -> Iterator[str]:
    """What of a command and of those below it has no help."""
    if not command.help:
        yield f"command {name} has no help; write a docstring"
    for param in command.params:
        if isinstance(param, click.Option) and not param.hidden and not param.help:
            yield f"command {name}: option {param.opts[0]} has no help"
    if isinstance(command, click.Group):
        for below, member in sorted(command.commands.items()):
            yield from command_faults(f"{name} {below}", member)
