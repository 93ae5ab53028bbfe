"""Values as JSON and YAML."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable

_WIDE = 0x10000
"""The first character that four hexadecimal digits do not express."""


def dump(value: Any, form: str) -> None:
    """Write one value as JSON or YAML."""
    click.echo(to_json(value) if form == "json" else to_yaml(value), nl=False)


def to_json(value: Any) -> str:
    """Indented JSON with a final line end."""
    import msgspec

    return (
        _escaped(msgspec.json.format(msgspec.json.encode(value), indent=2).decode(), wide=_surrogates) + "\n"
    )


def to_yaml(value: Any, *, documents: bool = False) -> str:
    """YAML in the order of the keys; several documents if requested.

    Multi-line text is written as a block, as people write scripts.
    """
    import yaml

    from kaiwo.engine.yaml_scalars import is_text

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
    text_of_all = yaml.dump_all(
        given, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=1_000_000, explicit_start=documents
    )
    return _escaped(text_of_all, wide=lambda code: f"\\U{code:08X}")


def _surrogates(code: int) -> str:
    """Two escapes for a character beyond the four digits of one."""
    rest = code - 0x10000
    return f"\\u{0xD800 + (rest >> 10):04x}\\u{0xDC00 + (rest & 0x3FF):04x}"


def _escaped(text: str, *, wide: Callable[[int], str]) -> str:
    """Escape what a terminal obeys or hides: control characters, and those that turn the direction of text.

    In JSON, and in YAML as `to_yaml` writes it, they stand only inside of double quotes, so a parser reads
    the same data.
    """
    if all(map(str.isprintable, text.split("\n"))):
        return text
    return "".join(
        char
        if char == "\n" or char.isprintable()
        else f"\\u{ord(char):04x}"
        if ord(char) < _WIDE
        else wide(ord(char))
        for char in text
    )
