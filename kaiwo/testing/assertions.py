"""Assertions that also hold with ``python -O``."""

from __future__ import annotations


def require(condition: object, message: str) -> None:
    """Fail the test unless the condition holds.

    Raises:
        AssertionError: with the message.
    """
    if not condition:
        raise AssertionError(message)
