"""Field paths, as tuples and as people write them."""

from __future__ import annotations

import re
from typing import TypeAlias

Path: TypeAlias = tuple[str | int, ...]
"""Where a value is: keys and list indexes from the document's root."""

_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


def dot(path: Path) -> str:
    """A path as people write it: ``spec.env[0].name``, ``metadata.labels["a/b"]``."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif _PLAIN_KEY.fullmatch(part):
            text += f".{part}" if text else part
        else:
            text += f'["{part}"]'
    return text


_SEGMENT = re.compile(r'\.?([^.\[\]"]+)|\[(\d+)\]|\[["\']?([^\]"\']+)["\']?\]')


def undot(text: str) -> Path | None:
    """The path that `dot`, the API server or ``--set`` writes; None for text that is none."""
    path: list[str | int] = []
    end = 0
    for match in _SEGMENT.finditer(text):
        if match.start() != end:
            return None
        end = match.end()
        name, index, key = match.groups()
        path.append(int(index) if index is not None else name or key)
    return tuple(path) if path and end == len(text) else None
