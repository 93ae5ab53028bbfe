"""Loading plugins in a test: the given modules and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.plugin.discovery import Candidate
from kaiwo.plugin.loader import load_modules

if TYPE_CHECKING:
    from types import ModuleType

    from kaiwo.plugin.registry import Plugins


def plugins(*modules: ModuleType) -> Plugins:
    """Load plugin modules by the rules of the real loader; installed plugins are not discovered.

    A plugin is named like its package without ``kaiwo_``: ``kaiwo_gpu_acme.plugin`` becomes ``gpu_acme``.

    Args:
        modules: imported plugin modules.

    Raises:
        AssertionError: one of them would be listed as broken; with the reason.
    """
    given = []
    for module in modules:
        package = module.__name__.partition(".")[0]
        name = package.removeprefix("kaiwo_")
        given.append((Candidate(name, package.replace("_", "-"), "0", module.__name__), module))
    loaded = load_modules(given)
    broken = [f"{state.name}: {state.message}" for state in loaded.states if state.state == "broken"]
    if broken:
        raise AssertionError(f"plugins that do not load: {'; '.join(broken)}")
    return loaded
