"""Rendered objects as YAML, with the origin of each value as a comment at its line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.cli.output.serialization import to_yaml
from kaiwo.cli.terminal import clean
from kaiwo.engine.field_paths import find_path
from kaiwo.engine.yaml_reader import parse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaiwo.engine.resource import Object


def annotated(obj: Object, origins: Mapping[str, tuple[str, str]]) -> str:
    """One document; it stays the same YAML, comments aside.

    Args:
        obj: the object.
        origins: path (``spec.template.spec.containers[0].image``) to the kind of source and its words.
    """
    text = to_yaml([obj], documents=True)
    lines = text.splitlines()
    positions = next(iter(parse(text))).positions
    for written, (origin, words) in origins.items():
        path = find_path(obj, written)
        if path is None or path not in positions:
            continue
        index = positions[path][0] - 1
        comment = f"# {origin}: {words}" if words and words != origin else f"# {origin}"
        if "  # " not in lines[index]:
            lines[index] += "  " + clean(comment)
    return "\n".join(lines) + "\n"
