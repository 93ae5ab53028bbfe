"""The checks of the conformance suite in their order, and how they are run on one plugin."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from kaiwo.plugin.loader import load
from kaiwo.plugin.selection import PluginSelection
from kaiwo.testing.conformance import (
    behaviour_checks,
    contract_check,
    docs_check,
    fresh_process,
    rights_check,
    schema_check,
)
from kaiwo.testing.conformance.probing import probe
from kaiwo.testing.conformance.results import CheckInput, ConformanceResult, Violation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kaiwo.plugin.plugin_state import PluginState
    from kaiwo.testing.conformance.results import CheckOutput

CHECKS: Final[dict[str, Callable[[CheckInput], CheckOutput]]] = {
    "contract": contract_check.check,
    "purity": behaviour_checks.purity,
    "totality": behaviour_checks.totality,
    "time": behaviour_checks.time,
    "rights": rights_check.check,
    "schema": schema_check.check,
    "docs": docs_check.check,
}
"""The checks after ``load``, in their order."""


def check_plugin(name: str, seconds: float) -> Iterator[ConformanceResult]:
    """Run the suite on one installed plugin; one result for each check, as soon as it is there.

    Args:
        name: the plugin's name, also with its distribution (``acme@kaiwo-acme``).
        seconds: CPU for calls of its functions with random input.
    """
    alone = load(PluginSelection(names=(name,)))
    if not alone.loaded:
        (state,) = (state for state in alone.states if state.state == "broken")
        yield ConformanceResult(name, "load", "failed", "the plugin does not load", (_broken(state),))
        return
    (plugin,) = alone.loaded
    # A second queue system, for example, is tested with the first one disabled.
    others = PluginSelection(disabled=PluginSelection.of(environ=os.environ).disabled)
    beside = [
        _broken(state)
        for state in load(others).states
        if (state.name, state.distribution) == (plugin.name, plugin.distribution) and state.state == "broken"
    ]
    loaded = f"{plugin.distribution} {plugin.version}".strip()
    yield ConformanceResult(plugin.name, "load", "failed" if beside else "ok", loaded, tuple(beside))
    given = CheckInput(plugin, probe(plugin, seconds), fresh_process.run(name))
    for check, run in CHECKS.items():
        output = run(given)
        yield ConformanceResult(
            plugin.name,
            check,
            "failed" if output.violations else "ok" if output.message else "skipped",
            output.message or "nothing to check",
            output.violations,
        )


def _broken(state: PluginState) -> Violation:
    return Violation(
        where=f"plugin {state.name}",
        what=state.message,
        why="the host lists it as broken and goes on without it",
        next_step="repair it; kaiwo plugins shows the same message",
    )
