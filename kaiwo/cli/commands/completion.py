"""``kaiwo completion``: what a shell evaluates to complete commands, options and live names."""

from __future__ import annotations

import click
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete


class _FishComplete(FishComplete):
    """Click's, whose script cuts a value at its first comma."""

    source_template = FishComplete.source_template.replace('string split ","', 'string split --max 1 ","')


SHELLS: dict[str, type[ShellComplete]] = {"bash": BashComplete, "fish": _FishComplete, "zsh": ZshComplete}


@click.command()
@click.argument("shell", type=click.Choice(sorted(SHELLS)))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a shell.

    \b
      source <(kaiwo completion bash)       in ~/.bashrc
      source <(kaiwo completion zsh)        in ~/.zshrc, behind compinit
      kaiwo completion fish | source        in ~/.config/fish/config.fish
    """
    root = ctx.find_root()
    script = SHELLS[shell](root.command, {}, "kaiwo", "_KAIWO_COMPLETE").source()
    click.echo(script)
