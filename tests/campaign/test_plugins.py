"""The plugins that set M writes."""

from __future__ import annotations

from campaign.plugin_sources import DECLARATIONS
from kaiwo.plugin import hookspecs


def test_every_hook_has_a_declaration() -> None:
    """A new hook needs one in campaign/plugin_sources.py; without it set M would pass it over."""
    assert set(DECLARATIONS) == {name for name in vars(hookspecs) if name.startswith("kaiwo_")}
