"""Keeping named paths of an object and dropping the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

Tree = dict[str, Any]
"""Nested keys; an empty branch keeps everything below it."""


def tree(paths: Iterable[tuple[str, ...]]) -> Tree:
    """Paths as nested keys. A path keeps all below it, also where another names something deeper."""
    root: Tree = {}
    for path in sorted(paths, key=len):
        node = root
        for depth, key in enumerate(path):
            if depth and not node:
                break
            if key not in node:
                node[key] = {}
                node = node[key]
                for rest in path[depth + 1 :]:
                    node = node.setdefault(rest, {})
                break
            node = node[key]
    return root


def prune(value: Any, kept: Tree) -> Any:
    """The value with only what the tree names; ``*`` names every item of a list."""
    if not kept:
        return value
    if isinstance(value, dict):
        return {key: prune(value[key], branch) for key, branch in kept.items() if key in value}
    if isinstance(value, list) and "*" in kept:
        return [prune(item, kept["*"]) for item in value]
    return value
