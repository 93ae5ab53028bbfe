"""``kaiwo manage`` without a terminal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from kaiwo.cli import kit

if TYPE_CHECKING:
    from collections.abc import Callable


def test_it_needs_a_terminal_and_loads_nothing_without_one(cli: Callable[..., Any]) -> None:
    """In a pipe the hint is the list that works there; the alias is the same command."""
    loaded = "textual" in sys.modules
    for name in ("manage", "ui"):
        result = cli(name)
        assert (result.code, result.out) == (kit.USAGE, "")
        assert result.err == (
            "error: kaiwo manage needs a terminal for standard input, output and error\nhint: kaiwo list -w\n"
        )
    assert ("textual" in sys.modules) == loaded
    both = cli("manage", "--user", "ann", "--all-users")
    assert both.code == kit.USAGE
