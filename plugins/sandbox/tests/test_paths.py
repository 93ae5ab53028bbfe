"""Names and directories."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from kaiwo_sandbox import paths
from kaiwo_sandbox.errors import SandboxError

if TYPE_CHECKING:
    import pytest


def test_directories_follow_the_xdg_variables(home: Path) -> None:
    """Users who move their caches find the sandbox's there too."""
    assert paths.cache_dir() == home / "cache" / "kaiwo" / "sandbox"
    assert paths.state_dir("dev") == home / "state" / "kaiwo" / "sandbox" / "dev"


def test_a_relative_xdg_variable_counts_as_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    """The XDG standard says so; files must not depend on where a command was typed."""
    monkeypatch.setenv("XDG_STATE_HOME", "here")
    assert paths.state_root() == Path.home() / ".local" / "state" / "kaiwo" / "sandbox"


@given(st.text(max_size=60))
def test_no_name_leads_out_of_the_state_directory(name: str) -> None:
    """`down` removes a directory made from the name: slashes and dots must never get in."""
    try:
        directory = paths.state_dir(name)
    except SandboxError:
        return
    assert directory.parent == paths.state_root()
    assert directory.name == name
    assert len(name) <= 40
    assert name.strip(".") == name
