"""The page of ``kaiwo why``: verdict, evidence, next command, other causes, chain."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from kaiwo.cli import kit
from kaiwo.cli.options import settings
from kaiwo.cli.output.layout import wrap
from kaiwo.cli.output.table import terminal_width
from kaiwo.cli.terminal import can_show, clean, styled_status
from kaiwo.client.kinds import SHORT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaiwo.client.why import Verdict
    from kaiwo.plugin.diagnosis import ChainLink

_MARKS = {"ok": ("✔", "green"), "waits": ("…", "yellow"), "failed": ("✘", "red"), "unknown": ("?", "yellow")}
_ASCII_MARKS = {"ok": "+", "waits": ".", "failed": "x", "unknown": "?"}
"""For a terminal that cannot show the others."""

_NARROWEST = 30
_INDENT = "  "
_WIDEST_NAME = 48


def write_verdict(verdict: Verdict) -> None:
    """Write the page to standard output, and what could not be read to standard error."""
    word = styled_status(verdict.status) if verdict.status else "not yet observed by an operator"
    kind = SHORT.get(verdict.kind, verdict.kind)
    click.echo(f"{clean(f'{kind}/{verdict.name} in namespace {verdict.namespace}')}: {word}\n")
    _headline(verdict.state, verdict.code, verdict.message)
    shown = f"found by rule {verdict.rule}" if verdict.rule else verdict.object
    if shown:
        _text(shown, first=_INDENT, rest=_INDENT)
    _section("Evidence", verdict.evidence)
    if verdict.command:
        click.echo(f"\nNext:\n{_INDENT}{clean(verdict.command)}")
    if verdict.others:
        click.echo("\nAlso:")
        for cause in verdict.others:
            by = f" (rule {cause.rule})" if cause.rule else ""
            _headline(cause.state, cause.code + by, cause.message, indent=_INDENT)
    _chain(verdict.chain)
    for sentence in verdict.unread:
        kit.say(f"warning: not read: {sentence}")


def _section(title: str, lines: Sequence[str]) -> None:
    if lines:
        click.echo(f"\n{title}:")
        for line in lines:
            _text(line, first=_INDENT, rest=_INDENT * 2)


def _headline(state: str, code: str, message: str, *, indent: str = "") -> None:
    # Of a download without progress the message is the code once more.
    text = code if message == code else f"{code}: {message}"
    _text(text, first=f"{indent}{_mark(state)} ", rest=f"{indent}  ", bold=clean(code))


def _chain(links: Sequence[ChainLink]) -> None:
    if not links:
        return
    click.echo("\nChain:")
    names = [clean(f"{link.kind} {link.name}") for link in links]
    width = min(_WIDEST_NAME, max(map(len, names)))
    room = terminal_width() - len(_INDENT) - 2 - width - 2
    for link, name in zip(links, names, strict=True):
        first = f"{_INDENT}{_mark(link.state)} {name:<{width}}  "
        if not link.message:
            click.echo(first.rstrip())
        elif room < _NARROWEST:
            click.echo(first.rstrip())
            _text(link.message, first=_INDENT * 3, rest=_INDENT * 3)
        else:
            _text(link.message, first=first, rest=" " * (len(_INDENT) + 2 + width + 2))


def _text(text: str, *, first: str, rest: str, bold: str = "") -> None:
    """Write a paragraph in the width of the terminal; a pipe gets one line."""
    plain = clean(text)
    lines = [plain]
    if sys.stdout.isatty():
        # The marks may be coloured: their escape sequences take no room.
        room = terminal_width() - len(click.unstyle(first))
        lines = wrap(plain, max(_NARROWEST, room))
    if bold and _colored() and lines[0].startswith(bold):
        lines[0] = click.style(bold, bold=True) + lines[0][len(bold) :]
    click.echo(first + f"\n{rest}".join(lines))


def _mark(state: str) -> str:
    state = state if state in _MARKS else "unknown"
    mark, color = _MARKS[state]
    mark = mark if can_show(mark) else _ASCII_MARKS[state]
    return click.style(mark, fg=color) if _colored() else mark


def _colored() -> bool:
    return sys.stdout.isatty() and settings().color
