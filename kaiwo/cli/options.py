"""The options that every command takes, before its name and after it.

``kaiwo -n team list`` and ``kaiwo list -n team`` mean the same. The root group declares the options, and
`share` adds them to every command when it is loaded, also to commands of plugins, which need not know. An
option that a command declares itself is left to the command.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from kaiwo.client.user_config import UserConfig

Format = Literal["table", "wide", "json", "yaml", "name"]

FORMATS: tuple[Format, ...] = ("table", "wide", "json", "yaml", "name")

DUMB = "dumb"
"""``TERM`` of a terminal that understands no escape sequences."""


@dataclass(slots=True)
class GlobalOptions:
    """Values of the options that every command takes.

    Attributes:
        namespace: ``-n``, None for the kubeconfig context's.
        all_namespaces: ``-A``.
        context: kubeconfig context, None for the current one.
        kubeconfig: path of a kubeconfig, None for kubectl's own search.
        output: how data is written to standard output, None for the command's usual way.
        color: False with ``--no-color`` or a non-empty ``NO_COLOR``, and on a terminal without colours.
        verbosity: times ``-v`` was given, less times ``-q``: below 0 only errors are shown, above 0 more.
        watch: ``-w``, for commands that can show something again and again.
    """

    namespace: str | None = None
    all_namespaces: bool = False
    context: str | None = None
    kubeconfig: str | None = None
    output: Format | None = None
    color: bool = field(
        default_factory=lambda: not os.environ.get("NO_COLOR") and os.environ.get("TERM") != DUMB
    )
    verbosity: int = 0
    watch: bool = False


class ShortOption(click.Option):
    """An option with a value whose short form may be written with ``=``, as kubectl takes it (``-o=json``).

    No value of such an option begins with that character.
    """

    def type_cast_value(self, ctx: click.Context, value: Any) -> Any:
        """As click's, which takes the character for the first one of the value."""
        if isinstance(value, str):
            value = value.removeprefix("=")
        elif isinstance(value, list | tuple):
            value = tuple(each.removeprefix("=") if isinstance(each, str) else each for each in value)
        return super().type_cast_value(ctx, value)


def settings(ctx: click.Context | None = None) -> GlobalOptions:
    """The settings of the running command."""
    return (ctx or click.get_current_context()).find_root().ensure_object(GlobalOptions)


def complete_files(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Leave it to the shell, which completes names of files and directories."""
    from click.shell_completion import CompletionItem

    del ctx, param
    return [CompletionItem(incomplete, type="file")]


def one_namespace() -> None:
    """For a command that means single objects by their names.

    Raises:
        click.UsageError: ``-A`` was given, and would be ignored.
    """
    if settings().all_namespaces:
        raise click.UsageError("-A is not supported here; name one namespace with -n")


def use_configured_namespace(config: UserConfig) -> None:
    """Use the namespace of kaiwoconfig.yaml unless ``-n`` or ``-A`` was given, as ``submit`` does."""
    chosen = settings()
    if not chosen.all_namespaces:
        chosen.namespace = chosen.namespace or config.namespace


def _check_namespace(name: str, ctx: click.Context, param: click.Parameter) -> None:
    """Refuse what no namespace can be called, without asking a cluster.

    Raises:
        click.BadParameter: it is not a DNS label.
    """
    from kaiwo.api.name_rules import PLAIN

    if PLAIN.problem(name):
        text = f'"{name}" cannot be a namespace; expected at most {PLAIN.limit} {PLAIN.words}'
        raise click.BadParameter(text, ctx, param)


def _store(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    """Keep what was given; what was not given must not undo what was given before the command's name."""
    if not value:
        return
    if param.name == "namespace" and not ctx.resilient_parsing:
        _check_namespace(value, ctx, param)
    chosen = settings(ctx)
    match param.name:
        case "no_color":
            chosen.color = False
        case "verbose":
            chosen.verbosity += value
        case "quiet":
            chosen.verbosity -= value
        case name:
            setattr(chosen, str(name), value)


def _options() -> list[click.Option]:
    common: dict[str, Any] = {"expose_value": False, "callback": _store}
    return [
        ShortOption(
            ["-n", "--namespace"], metavar="NAME", help="Namespace (default: the context's).", **common
        ),
        click.Option(["-A", "--all-namespaces"], is_flag=True, help="All namespaces.", **common),
        click.Option(["--context"], metavar="NAME", help="Kubeconfig context.", **common),
        click.Option(
            ["--kubeconfig"],
            metavar="FILE",
            help="Kubeconfig file.",
            shell_complete=complete_files,
            **common,
        ),
        ShortOption(["-o", "--output"], type=click.Choice(FORMATS), help="How data is written.", **common),
        click.Option(["--no-color"], is_flag=True, help="No colours (also: NO_COLOR=1).", **common),
        click.Option(["-v", "--verbose"], count=True, help="Say more; -vv with tracebacks.", **common),
        click.Option(["-q", "--quiet"], count=True, help="Say only errors.", **common),
    ]


config_option = click.option(
    "--config",
    metavar="FILE",
    shell_complete=complete_files,
    help="kaiwoconfig.yaml (also: KAIWOCONFIG).",
)
"""For the commands that read kaiwoconfig.yaml; its value is the argument of `user_config.load`."""

WATCH = click.Option(
    ["-w", "--watch"],
    is_flag=True,
    expose_value=False,
    callback=_store,
    help="Show every change, until Ctrl-C.",
)
"""For the commands that can: those name it among their parameters, and the root group takes it for them."""


def watchable(command: click.Command) -> click.Command:
    """Add the option ``-w`` to a command, which reads ``settings().watch``."""
    command.params.append(WATCH)
    return command


def share(command: click.Command, *, hidden: bool = True) -> click.Command:
    """Add the options that the command does not declare itself; groups pass them on to their commands.

    Args:
        command: changed in place; doing it twice changes nothing more.
        hidden: leave them out of the command's own help, which points at ``kaiwo --help`` instead.
    """
    taken = {option for param in command.params for option in (*param.opts, *param.secondary_opts)}
    for option in _options():
        free = [word for word in option.opts if word not in taken]
        if free:
            option.opts = free
            option.hidden = hidden
            command.params.append(option)
    if hidden and command.epilog is None:
        command.epilog = "Options of every command (-n, -A, -o, --context and others): kaiwo --help"
    if isinstance(command, click.Group):
        for member in command.commands.values():
            share(member, hidden=hidden)
    return command
