"""Options that somebody wrote after the command of ``kaiwo run``: they go to the command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

_SEPARATED: Final = "kaiwo.cli.separated"
_SEPARATOR: Final = "--"


class CommandWithTail(click.Command):
    """A command whose last argument is another command, with options of its own."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Note whether ``--`` says where the other command begins, since click leaves it out."""
        ctx.meta[_SEPARATED] = _SEPARATOR in args
        return super().parse_args(ctx, args)


def misplaced(ctx: click.Context, tail: Sequence[str]) -> list[str]:
    """The words of the other command that are options of this one; none where ``--`` comes before it.

    Args:
        ctx: of a `CommandWithTail`.
        tail: the other command.
    """
    if ctx.meta.get(_SEPARATED):
        return []
    own = {name for param in ctx.command.params for name in param.opts if name.startswith(_SEPARATOR)}
    words = (word.partition("=")[0] for word in tail)
    return list(dict.fromkeys(word for word in words if word in own))
