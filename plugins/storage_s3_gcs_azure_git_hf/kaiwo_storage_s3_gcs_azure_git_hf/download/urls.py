"""Comparison of URLs: where a request with credentials may go."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from urllib.parse import SplitResult


def crosses_origin(source: SplitResult, target: SplitResult) -> bool:
    """Whether a redirect leaves the origin, so that headers with credentials must not follow it."""
    return (target.scheme, target.netloc) != (source.scheme, source.netloc)
