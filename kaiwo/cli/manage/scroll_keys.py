"""The keys that move through a list or a text."""

from __future__ import annotations

from typing import Final

from textual.binding import Binding, BindingType

SCROLL_KEYS: Final[list[BindingType]] = [
    Binding("up,k", "move(-1)", show=False),
    Binding("down,j", "move(1)", show=False),
    Binding("pageup", "page(-1)", show=False),
    Binding("pagedown,space", "page(1)", show=False),
    Binding("home,g", "move(-1000000)", show=False),
    Binding("end,G", "move(1000000)", show=False),
]
"""Handled by the actions ``move`` and ``page`` of a widget, both with a number of lines or screens."""
