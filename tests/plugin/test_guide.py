"""The plugin guide is right: what it shows works, and what it lists is complete."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path

import pytest

from kaiwo import testing
from kaiwo.plugin.loader import HOOKS
from kaiwo.plugin.selection import DISABLED_VARIABLE, NAMES_VARIABLE, REQUIRED_VARIABLE

GUIDE = (Path(__file__).parents[2] / "docs" / "plugins.md").read_text(encoding="utf-8")


def test_the_vendor_of_the_guide_works_as_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody who types in the guide's plugin and its test has a plugin and a test that passes."""
    plugin_source, test_source = re.findall(r"```python\n(.*?)```", GUIDE, flags=re.DOTALL)
    package = types.ModuleType("kaiwo_gpu_acme")
    plugin = types.ModuleType("kaiwo_gpu_acme.plugin")
    exec(plugin_source, plugin.__dict__)  # noqa: S102 - running the guide's code is the test
    package.__dict__["plugin"] = plugin
    monkeypatch.setitem(sys.modules, "kaiwo_gpu_acme", package)
    monkeypatch.setitem(sys.modules, "kaiwo_gpu_acme.plugin", plugin)
    test = types.ModuleType("test_acme")
    exec(test_source, test.__dict__)  # noqa: S102 - likewise
    test.__dict__["test_the_vendor_keeps_the_contract"]()


def test_the_guide_lists_every_hook_and_every_part_of_the_kit() -> None:
    """Nothing an author could use is missing from the tables."""
    assert set(re.findall(r"^\| `(kaiwo_\w+)` ", GUIDE, flags=re.MULTILINE)) == set(HOOKS)
    assert all(f"`{name}(" in GUIDE for name in testing.__all__)
    assert all(f"`{name}`" in GUIDE for name in (NAMES_VARIABLE, DISABLED_VARIABLE, REQUIRED_VARIABLE))


@pytest.mark.parametrize("module", re.findall(r"\| `(kaiwo\.plugin\.\w+)` \|", GUIDE))
def test_the_modules_that_the_guide_names_exist(module: str) -> None:
    """The types that the table points at are there."""
    assert __import__(module, fromlist=["*"]).__doc__
