"""The table of security checks names tests that exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from docs.generate.pages import DOCS

ROOT = Path(__file__).parents[2]
ROWS = re.findall(
    r"^\| (\d+) \| (.+) \| (.+) \| (.+) \|$", (DOCS / "security.md").read_text("utf-8"), re.MULTILINE
)
NONE = "\N{EN DASH}"


@cache
def functions(path: Path) -> frozenset[str]:
    """Names of the test functions of a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(
        node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )


def test_every_item_is_listed_once() -> None:
    """All 25, in order."""
    assert [int(number) for number, *_ in ROWS] == list(range(1, 26))


@pytest.mark.parametrize(("tests", "reason"), [row[2:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_an_item_is_proved_or_says_why_it_is_open(tests: str, reason: str) -> None:
    """Each named test is there; an item without a test has a reason."""
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", tests)
    assert len(named) == tests.count("::"), "a test is written as `path.py::name`"
    assert named or (tests == NONE and reason != NONE)
    assert [f"{path}::{name}" for path, name in named if name not in functions(ROOT / path)] == []
