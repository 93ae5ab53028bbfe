"""Text that fits a terminal: widths, wrapping by words, and columns spread over several lines."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

GAP = 3
"""Blanks between two columns."""


def width_of(text: str) -> int:
    """How many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    # Not `unicodedata.combining`, which is 0 for the vowel signs of many scripts.
    return sum(
        0
        if unicodedata.category(char) in ("Mn", "Me")
        else 2
        if unicodedata.east_asian_width(char) in "WF"
        else 1
        for char in text
    )


def wrap(text: str, width: int) -> list[str]:
    """The text in lines of at most so many columns, broken between words; a longer word stays whole."""
    lines: list[str] = []
    used = 0
    for word in text.split():
        size = width_of(word)
        if lines and used + 1 + size <= width:
            lines[-1] += f" {word}"
            used += 1 + size
        else:
            lines.append(word)
            used = size
    return lines or [""]


def groups(widths: Sequence[int], width: int) -> list[list[int]]:
    """Indexes of columns, one list for each line that a row takes in a terminal of this width.

    Args:
        widths: of the columns.
        width: of the terminal. The second line of a row and those after it are indented by `GAP`.
    """
    found: list[list[int]] = [[]]
    used = 0
    for index, size in enumerate(widths):
        if found[-1] and used + GAP + size > width:
            found.append([])
            used = 0
        used += size + GAP if found[-1] or len(found) > 1 else size
        found[-1].append(index)
    return found
