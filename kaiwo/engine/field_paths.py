"""Field paths, as tuples and as people write them."""

from __future__ import annotations

import re
from typing import Any, TypeAlias

Path: TypeAlias = tuple[str | int, ...]
"""Where a value is: keys and list indexes from the document's root."""

_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


def format_path(path: Path) -> str:
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

_QUOTED = re.compile(r'\["([^"]+)"\]')
_INDEX = re.compile(r"\[(\d+)\]")


def parse_path(text: str) -> Path | None:
    """The path that `format_path`, the API server or ``--set`` writes; None for text that is none."""
    path: list[str | int] = []
    end = 0
    for match in _SEGMENT.finditer(text):
        if match.start() != end:
            return None
        end = match.end()
        name, index, key = match.groups()
        path.append(int(index) if index is not None else name or key)
    return tuple(path) if path and end == len(text) else None


def value_at(value: Any, path: Path) -> Any:
    """The value at a path, None if there is none."""
    for part in path:
        if isinstance(value, dict):
            value = value.get(part)
        elif isinstance(value, list) and isinstance(part, int) and part < len(value):
            value = value[part]
        else:
            return None
    return value


def find_path(value: Any, text: str) -> Path | None:
    """The path in a value that a text names, also where a key contains dots: ``limits.amd.com/gpu``.

    None when there is no such value.
    """
    path: list[str | int] = []
    rest = text
    while rest:
        if isinstance(value, dict):
            rest = rest.removeprefix(".")
            quoted = _QUOTED.match(rest)
            fitting = [key for key in value if rest == key or rest.startswith((f"{key}.", f"{key}["))]
            if quoted and quoted.group(1) in value:
                key, rest = quoted.group(1), rest[quoted.end() :]
            elif fitting:
                key = max(fitting, key=len)
                rest = rest[len(key) :]
            else:
                return None
            path.append(key)
            value = value[key]
            continue
        index = _INDEX.match(rest)
        if not isinstance(value, list) or index is None or int(index.group(1)) >= len(value):
            return None
        path.append(int(index.group(1)))
        value, rest = value[int(index.group(1))], rest[index.end() :]
    return tuple(path)
