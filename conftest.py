"""The order of all tests: what needs no control plane comes first, so that plain mistakes show at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the files with tests of a control plane, wheels or environments last; a file stays together."""
    late = {item.path for item in items if _is_slow(item)}
    items.sort(key=lambda item: item.path in late)


def _is_slow(item: pytest.Item) -> bool:
    return any(item.get_closest_marker(name) for name in ("cluster", "node", "slow"))
