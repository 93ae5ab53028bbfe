"""``python -m campaign.plugin_host``: loads all installed plugins as the operator does, and uses them.

It prints, as JSON, the states of the plugins and what a call came to. A process of its own, because a plugin
may do anything to it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kaiwo.api.resolved_config import ResolvedConfig
from kaiwo.host.assembly import assemble
from kaiwo.host.lifecycles import Lifecycles
from kaiwo.host.plugin_coroutines import PluginCoroutines
from kaiwo.host.plugin_timeout import TimeLimit, guarded_registry
from kaiwo.host.settings import Settings
from kaiwo.host.transitions import Listeners
from kaiwo.plugin.lifecycle import Transition
from kaiwo.plugin.loader import load
from kaiwo.plugin.selection import PluginSelection
from kaiwo.testing.builders import NOW, job, node
from kaiwo.testing.kubeconfig import NOWHERE, write_kubeconfig
from kaiwo.testing.observed import observation
from kaiwo.workload.gpus.nodes import node_fact
from kaiwo.workload.model import Facts, Registry
from kaiwo.workload.namespace_defaults import values_in_use
from kaiwo.workload.plan import plan_object
from kaiwo.workload.plugin_calls import findings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaiwo.engine.resource import Object
    from kaiwo.plugin.registry import Plugins

LIMIT: Final = 5.0
"""Seconds that a plugin may take to load, and for a call; only those that hang meet it."""

_LONG: Final = 60.0
_HEARD: Final = 2.0

_BYSTANDER: Final = job("bystander", gpus=1, entrypoint="python train.py", user="jane")


def _plan(workload: Object, registry: Registry, faulty: Sequence[str] = ()) -> dict[str, Any]:
    """What a workload comes to in a namespace with defaults of the kinds of some plugins."""
    nodes = (node_fact(node(gpus={"amd.com/gpu": 8}), registry.vendors),)
    metadata = {"name": "default", "namespace": "team"}
    given = [(each, [{"metadata": metadata}]) for each in registry.namespace_defaults if each.name in faulty]
    defaults = values_in_use(given)
    facts = Facts(now=NOW, config=ResolvedConfig.defaults(), nodes=nodes, namespace_defaults=defaults)
    planned = plan_object(workload, registry, facts)
    status = planned.statuses[-1] if planned.statuses else {}
    said = {name: str(status.get(name, "")) for name in ("status", "reason", "message")}
    return {"kinds": [rendered.child["kind"] for rendered in planned.rendered], **said}


def _assembled(plugins: Plugins) -> Plugins:
    """What an operator works with; its API server is nowhere, and nothing is sent."""
    with tempfile.TemporaryDirectory(prefix="kaiwo-campaign-") as directory:
        path = write_kubeconfig(Path(directory) / "kubeconfig", NOWHERE)
        return assemble(Settings(kubeconfig=path), plugins).plugins


async def _run_beside(plugins: Plugins) -> None:
    """Start what runs beside reconciliation, with one status change, and stop it."""
    with TimeLimit(LIMIT) as limit:
        coroutines = PluginCoroutines(limit)
        lifecycles = Lifecycles(plugins.lifecycles, lambda _: None, coroutines)
        await asyncio.wait_for(lifecycles.start(), _LONG)
        listeners = Listeners(plugins.listeners, lambda _: None, coroutines)
        listeners.start()
        listeners.notify(Transition("KaiwoJob", "team", "a", "uid", "", "PENDING", "Creating", "soon", NOW))
        await asyncio.sleep(_HEARD)
        await asyncio.wait_for(listeners.close(), _LONG)
        await asyncio.wait_for(lifecycles.stop(), _LONG)


def main() -> None:
    """Load, use and print."""
    parser = argparse.ArgumentParser(prog="python -m campaign.plugin_host", description="Use all plugins.")
    parser.add_argument("--disabled", action="append", default=[], help="a plugin that is not loaded")
    parser.add_argument("--faulty", action="append", default=[], help="a plugin that a case is about")
    parser.add_argument("--workload", type=json.loads, help="a workload to plan")
    options = parser.parse_args()
    disabled, workload = frozenset(options.disabled), options.workload
    # What is imported on first use is not to count against the limit of whoever comes first.
    others = load(PluginSelection(disabled=disabled.union(options.faulty)), deadline=_LONG)
    _plan(_BYSTANDER, Registry.of(others))
    plugins = load(PluginSelection(disabled=disabled), deadline=LIMIT)
    plugins = _assembled(plugins)
    found: dict[str, Any] = {
        "states": {state.name: [state.state, state.reason, state.message] for state in plugins.states}
    }
    began = time.monotonic()
    with TimeLimit(LIMIT) as limit:
        registry = guarded_registry(plugins, limit)
        found["bystander"] = _plan(_BYSTANDER, registry, options.faulty)
        if workload is not None:
            found["user"] = _plan(workload, registry)
        found["findings"] = [name for name, _ in findings(registry.diagnosis, observation({}), {})]
    asyncio.run(_run_beside(plugins))
    found["seconds"] = time.monotonic() - began
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
