"""Resource keys: which of them are GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def matches(key: str, pattern: str) -> bool:
    """Whether a resource key is meant by a vendor's declaration, which may end in ``*``."""
    return key.startswith(pattern[:-1]) if pattern.endswith("*") else key == pattern


def is_gpu(key: str, patterns: Iterable[str]) -> bool:
    """Whether a resource key is a GPU of any of the declared keys."""
    for pattern in patterns:  # noqa: SIM110 (a generator takes longer than the comparison; called for each key)
        if matches(key, pattern):
            return True
    return False
