"""Fixtures for tests with a real node: the operator runs on this machine, the containers really run."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

_HERE = Path(__file__).parent
_MOST_SECONDS = 300


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests here need the real node, and wait for containers."""
    for item in items:
        if item.path.is_relative_to(_HERE):
            item.add_marker(pytest.mark.node)
            item.add_marker(pytest.mark.timeout(_MOST_SECONDS))


def wait_for(what: str, read: Callable[[], Any], seconds: float = 60.0) -> Any:
    """Call `read` until it returns something true, and return that.

    Raises:
        AssertionError: it does not in time; with what it returned last.
    """
    deadline = time.monotonic() + seconds
    while not (found := read()):
        assert time.monotonic() < deadline, f"{what} did not happen within {seconds:.0f} s: {found!r}"
        time.sleep(0.2)
    return found


@pytest.fixture(name="wait_for")
def wait_for_fixture() -> Callable[..., Any]:
    """Wait for a condition: ``wait_for("the pod's end", read)``."""
    return wait_for
