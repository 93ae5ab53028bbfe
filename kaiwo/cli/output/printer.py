"""Writing data to standard output: a table for people, JSON or YAML for programs, names for pipes.

On a terminal a table has colours, and Rich wraps its messages; in a pipe it is plain columns, so that grep
and awk see the same thing every time. Nothing is ever cut: a terminal that is too narrow wraps whole lines.
"""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from kaiwo.cli.options import settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rich.console import Console

    from kaiwo.engine.resource import Object

STYLES = {
    "COMPLETE": "green",
    "READY": "green",
    "RUNNING": "cyan",
    "STARTING": "cyan",
    "PENDING": "yellow",
    "TERMINATING": "yellow",
    "TERMINATED": "magenta",
    "FAILED": "red",
    "ERROR": "red",
}
"""Colour of each status word."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table.

    Attributes:
        title: in capitals.
        value: text of a row.
        wide: shown with ``-o wide`` only.
        status: coloured as a status word.
    """

    title: str
    value: Callable[[Object], str]
    wide: bool = False
    status: bool = False


def clean(text: str, keep: str = "") -> str:
    """Text of others as it may be written to a terminal: no control characters, no escape sequences."""
    return "".join(char if char.isprintable() or char in keep else " " for char in text)


def emit(objects: Sequence[Object], columns: Sequence[Column] = (), *, one: bool = False) -> None:
    """Write objects the way the user asked for; a table without ``-o``, or YAML when there are no columns.

    Args:
        objects: whole objects.
        columns: of the table.
        one: the user asked for one object, so that JSON and YAML carry it and no list.
    """
    form = settings().output or ("table" if columns else "yaml")
    match form:
        case "json" | "yaml":
            shown = [_readable(obj) for obj in objects]
            dump(shown[0] if one and len(shown) == 1 else listed(shown), form)
        case "name":
            for obj in objects:
                click.echo(name_of(obj))
        case _:
            table([c for c in columns if form == "wide" or not c.wide], objects)


def _readable(obj: Object) -> Object:
    """Without the bookkeeping of field owners, as kubectl shows objects."""
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict) or "managedFields" not in metadata:
        return obj
    return {**obj, "metadata": {key: value for key, value in metadata.items() if key != "managedFields"}}


def listed(objects: Sequence[Object]) -> Object:
    """Objects as a ``List``, as kubectl writes several."""
    return {"apiVersion": "v1", "kind": "List", "items": list(objects)}


def name_of(obj: Object) -> str:
    """``kaiwojob.kaiwo.silogen.ai/train``, as kubectl writes names."""
    group = str(obj.get("apiVersion", "")).rpartition("/")[0]
    kind = str(obj.get("kind", "")).lower()
    return f"{kind}.{group}/{obj['metadata']['name']}" if group else f"{kind}/{obj['metadata']['name']}"


def dump(value: Any, form: str) -> None:
    """Write one value as JSON or YAML."""
    click.echo(to_json(value) if form == "json" else to_yaml(value), nl=False)


def to_json(value: Any) -> str:
    """Indented JSON with a final line end."""
    import msgspec

    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n"


def to_yaml(value: Any, *, documents: bool = False) -> str:
    """YAML in the order of the keys; several documents if asked for.

    Multi-line text is written as a block, as people write scripts.
    """
    import yaml

    from kaiwo.cli.input_files.yaml_scalars import is_text

    class Dumper(yaml.SafeDumper):
        """Indents lists under their key and writes no aliases, as kubectl does."""

        def ignore_aliases(self, data: Any) -> bool:
            del data
            return True

    def text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
        style = "|" if "\n" in value else None if is_text(value) else "'"
        # Other line breaks than \n survive only as escapes.
        if not value.replace("\n", "").isprintable():
            style = '"'
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    Dumper.add_representer(str, text)
    given = list(value) if documents else [value]
    return yaml.dump_all(
        given, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=1_000_000, explicit_start=documents
    )


_MESSAGE = "MESSAGE"
"""Title of the column whose text may be wrapped."""

_MESSAGE_ROOM = 30
"""Characters below which a wrapped message is harder to read than a line that the terminal wraps."""


def table(columns: Sequence[Column], rows: Iterable[Object], *, indent: str = "") -> None:
    """Write a table; nothing at all when there are no rows.

    Args:
        columns: from left to right.
        rows: one object each.
        indent: before each line.
    """
    cells = [[clean(column.value(row)) or "-" for column in columns] for row in rows]
    if not cells:
        return
    widths = [max(len(column.title), *(len(row[i]) for row in cells)) for i, column in enumerate(columns)]
    if sys.stdout.isatty() and _fits(columns, widths, indent):
        _draw(columns, cells, indent)
        return
    for row in [[column.title for column in columns], *cells]:
        shown = [
            (page_style(cell) if column.status else cell) + " " * (width - len(cell))
            for column, cell, width in zip(columns, row, widths, strict=True)
        ]
        click.echo(indent + "   ".join(shown).rstrip())


def _fits(columns: Sequence[Column], widths: Sequence[int], indent: str) -> bool:
    """Whether the terminal has room for all but the messages, and enough for these."""
    room = [
        min(width, _MESSAGE_ROOM) if column.title == _MESSAGE else width
        for column, width in zip(columns, widths, strict=True)
    ]
    return len(indent) + sum(room) + 3 * (len(room) - 1) <= shutil.get_terminal_size().columns


def console() -> Console:
    """Rich's console on standard output, with colours unless the user wants none."""
    from rich.console import Console as RichConsole

    return RichConsole(no_color=not settings().color, highlight=False, markup=False, emoji=False)


def page_style(word: str) -> str:
    """A status word in its colour, for text on a terminal."""
    colored = sys.stdout.isatty() and settings().color and word in STYLES
    return click.style(word, fg=STYLES[word]) if colored else word


def _draw(columns: Sequence[Column], cells: Sequence[Sequence[str]], indent: str) -> None:
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold")
    for column in columns:
        drawn.add_column(column.title, overflow="fold", no_wrap=column.title != _MESSAGE)
    for row in cells:
        drawn.add_row(
            *(
                Text(cell, style=STYLES.get(cell, "") if column.status else "")
                for column, cell in zip(columns, row, strict=True)
            )
        )
    console().print(Padding(drawn, (0, 0, 0, len(indent))))
