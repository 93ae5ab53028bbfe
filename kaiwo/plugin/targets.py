"""What a declaration names as ``module:name``: its import, and whether it exists, found without importing it.

A listener, a command or a controller is imported when it is first needed. A misspelt one would otherwise be
noticed only then.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterable, Iterator
    from importlib.machinery import ModuleSpec


def imported(target: str) -> Any:
    """Import what ``module:name`` names.

    Raises:
        Exception: whatever the module raises; AttributeError where it has no such name.
    """
    module, _, name = target.partition(":")
    return getattr(importlib.import_module(module), name)


def missing(target: str) -> str:
    """What does not exist of ``module:name``; empty if it exists, or if only importing could tell."""
    module, _, name = target.partition(":")
    if loaded := sys.modules.get(module):
        return "" if hasattr(loaded, name) else f"module {module} has no {name}"
    spec = find_module(module)
    if spec is None:
        return f"there is no module {module}"
    if not spec.origin or not spec.origin.endswith(".py"):
        return ""
    try:
        present = _defines(Path(spec.origin).read_bytes(), name)
    except (OSError, SyntaxError) as error:
        return f"module {module} cannot be read: {error}"
    return "" if present else f"module {module} has no {name}"


def find_module(module: str) -> ModuleSpec | None:
    """Where a module is imported from; unlike ``importlib.util.find_spec`` this imports no parent package."""
    if module in sys.builtin_module_names:
        return sys.modules["builtins"].__spec__
    found: ModuleSpec | None = None
    path: Iterable[str] | None = None
    parts = module.split(".")
    for number in range(1, len(parts) + 1):
        name = ".".join(parts[:number])
        loaded = sys.modules.get(name)
        found = loaded.__spec__ if loaded else _spec(name, list(path) if path else None)
        if found is None:
            return None
        path = found.submodule_search_locations
        if path is None and number < len(parts):
            return None
    return found


def _spec(name: str, path: list[str] | None) -> ModuleSpec | None:
    """Where a module is, as the import system finds it; editable installations may have their own finders."""
    for finder in sys.meta_path:
        find = getattr(finder, "find_spec", None)
        spec: ModuleSpec | None = find(name, path) if find is not None else None
        if spec is not None:
            return spec
    return None


def _defines(source: bytes, name: str) -> bool:
    """Whether the top level of a module's source gives something this name, or may do so."""
    import ast

    names = set(_names(ast.parse(source).body))
    return bool(names & {name, "*", "__getattr__"})


def _names(body: Iterable[ast.AST]) -> Iterator[str]:
    """Names that statements bind, also within ``if`` and ``try``."""
    import ast

    for statement in body:
        match statement:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield statement.name
            case ast.Import() | ast.ImportFrom():
                yield from ((alias.asname or alias.name).partition(".")[0] for alias in statement.names)
            case ast.Name(ctx=ast.Store()):
                yield statement.id
            case _:
                yield from _names(ast.iter_child_nodes(statement))
