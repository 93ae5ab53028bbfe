"""The page about operations names tests that exist."""

from __future__ import annotations

import ast

import pytest

from docs.generate.pages import DOCS
from docs.generate.reasons import ROOT

COLUMNS = 7


def rows() -> list[list[str]]:
    """The cells of each row, without the heads of tables."""
    found = []
    for line in (DOCS / "operations.md").read_text(encoding="utf-8").splitlines():
        text = line.replace(r"\|", "")
        if text.startswith("| ") and not text.startswith(("| failure", "| ---")):
            found.append([cell.strip() for cell in text.strip("|").split("|")])
    return found


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0])
def test_each_failure_has_its_test(row: list[str]) -> None:
    """A row that no test shows would be a promise."""
    assert len(row) == COLUMNS
    assert all(row), "each cell says something"
    path, _, name = row[-1].strip("`").partition("::")
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    functions = {n.name for n in tree.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)}
    assert name in functions
