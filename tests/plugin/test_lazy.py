"""Functions of a declaration that are imported when they are first called."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from kaiwo.plugin.lazy import Lazy

if TYPE_CHECKING:
    from pathlib import Path

MODULE = "lazily_imported_by_a_test"


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module that can be imported and is not."""
    (tmp_path / f"{MODULE}.py").write_text("def double(number):\n    return 2 * number\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    return MODULE


def test_nothing_is_imported_before_the_first_call(module: str) -> None:
    """A command that renders nothing pays for no backend's libraries."""
    double = Lazy(f"{module}:double")
    assert module not in sys.modules
    assert double(21) == 42
    assert module in sys.modules


def test_a_wrong_name_is_reported_when_it_is_called(module: str) -> None:
    """The error names what is missing; whoever calls a plugin shows it as the plugin's."""
    with pytest.raises(AttributeError, match="triple"):
        Lazy(f"{module}:triple")(1)
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        Lazy("no_such_module:double")(1)
