"""Docstrings name parameters, attributes and exceptions that there are."""

from __future__ import annotations

import ast
import builtins
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
SOURCES = [
    path
    for folder in (ROOT / "kaiwo", *ROOT.glob("plugins/*/kaiwo_*/"))
    for path in sorted(folder.rglob("*.py"))
]


def section(docstring: str, title: str) -> list[str]:
    """The names that a section of a docstring explains."""
    found = re.search(rf"^{title}:\n((?:    .*\n?|\n)*)", f"{docstring}\n", flags=re.MULTILINE)
    entries = re.findall(r"^    ([\w*]+(?:, [\w*]+)*):", found[1], flags=re.MULTILINE) if found else []
    return [name.lstrip("*") for entry in entries for name in entry.split(", ")]


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """The names of a function's parameters."""
    given = function.args
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    return {one.arg for one in every if one is not None}


def attributes(class_: ast.ClassDef) -> set[str]:
    """What a class itself declares, defines or assigns."""
    names: set[str] = set()
    for node in ast.walk(class_):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                names.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                names.add(name)
    return names


def mistakes(tree: ast.Module, exceptions: set[str]) -> Iterator[str]:
    """One line for each name in a docstring of a module that stands for nothing."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            known, title = attributes(node), "Attributes"
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            known, title = parameters(node), "Args"
        else:
            continue
        docstring = ast.get_docstring(node) or ""
        for name in set(section(docstring, title)) - known:
            yield f"{node.lineno}: {node.name}: {title} has {name}"
        for name in set(section(docstring, "Raises")) - exceptions:
            yield f"{node.lineno}: {node.name}: Raises has {name}"


def test_docstrings_name_what_there_is() -> None:
    """A parameter, attribute or exception that is renamed is renamed in what explains it."""
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in SOURCES}
    classes = {
        node.name for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)
    }
    exceptions = {*classes, *dir(builtins)}
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path, tree in trees.items()
        for line in mistakes(tree, exceptions)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ('def f(a):\n    """Do.\n\n    Args:\n        b: it.\n    """', ["1: f: Args has b"]),
        ('def f(*a, b):\n    """Do.\n\n    Args:\n        a, b: both.\n    """', []),
        ('def f():\n    """Do.\n\n    Raises:\n        Gone: it.\n    """', ["1: f: Raises has Gone"]),
        (
            'class A:\n    """It.\n\n    Attributes:\n        a: it.\n    """\n    b: int',
            ["1: A: Attributes has a"],
        ),
    ],
)
def test_a_name_that_stands_for_nothing_is_found(source: str, expected: list[str]) -> None:
    """Each kind of section is read, and several names of one entry."""
    assert list(mistakes(ast.parse(source), {"ValueError"})) == expected
