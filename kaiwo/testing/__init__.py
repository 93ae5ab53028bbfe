"""What the author of a plugin imports in tests; Kaiwo's own plugins use exactly this.

* :func:`plugins` loads modules by the real rules, with discovery of installed plugins blocked.
* :func:`job`, :func:`service`, :func:`node`, :func:`config` build objects; :func:`pod`, :func:`observation`
  and :func:`transition` what is observed of a workload.
* :func:`render` gives what would be created for a workload as YAML, :func:`assert_golden` compares it with
  a file (``KAIWO_GOLDEN=write`` writes the file).
* :func:`assert_backend_contract`, :func:`assert_source_contract`, :func:`assert_vendor_contract`,
  :func:`assert_queue_contract`, :func:`assert_contribution_contract`, :func:`assert_defaults_contract`,
  :func:`assert_rule_contract`, :func:`assert_listener_contract`, :func:`assert_lifecycle_contract`,
  :func:`assert_command_contract` check what the host relies on.
* :func:`assert_matches_crd` checks an object against the schema of its kind.
* :func:`download` runs the download program for items of a source.

``kaiwo plugin test`` runs the conformance suite on an installed plugin, without examples of its author's.

A real control plane comes from the distribution ``kaiwo-sandbox``: once installed, its pytest fixtures
``control_plane`` and ``namespace`` are there without any import.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kaiwo.testing.backend_contract import assert_backend_contract
    from kaiwo.testing.builders import config, job, node, service
    from kaiwo.testing.command_contract import assert_command_contract
    from kaiwo.testing.contribution_contract import assert_contribution_contract
    from kaiwo.testing.crd_schema import assert_matches_crd
    from kaiwo.testing.defaults_contract import assert_defaults_contract
    from kaiwo.testing.downloading import download
    from kaiwo.testing.golden import assert_golden
    from kaiwo.testing.listener_contract import assert_lifecycle_contract, assert_listener_contract
    from kaiwo.testing.managers import plugins
    from kaiwo.testing.observed import observation, pod, transition
    from kaiwo.testing.queue_contract import assert_queue_contract
    from kaiwo.testing.rendering import render
    from kaiwo.testing.rule_contract import assert_rule_contract
    from kaiwo.testing.source_contract import assert_source_contract
    from kaiwo.testing.vendor_contract import assert_vendor_contract

__all__ = [
    "assert_backend_contract",
    "assert_command_contract",
    "assert_contribution_contract",
    "assert_defaults_contract",
    "assert_golden",
    "assert_lifecycle_contract",
    "assert_listener_contract",
    "assert_matches_crd",
    "assert_queue_contract",
    "assert_rule_contract",
    "assert_source_contract",
    "assert_vendor_contract",
    "config",
    "download",
    "job",
    "node",
    "observation",
    "plugins",
    "pod",
    "render",
    "service",
    "transition",
]

_MODULES = {
    "assert_backend_contract": "backend_contract",
    "assert_command_contract": "command_contract",
    "assert_contribution_contract": "contribution_contract",
    "assert_defaults_contract": "defaults_contract",
    "assert_golden": "golden",
    "assert_lifecycle_contract": "listener_contract",
    "assert_listener_contract": "listener_contract",
    "assert_matches_crd": "crd_schema",
    "assert_queue_contract": "queue_contract",
    "assert_rule_contract": "rule_contract",
    "assert_source_contract": "source_contract",
    "assert_vendor_contract": "vendor_contract",
    "config": "builders",
    "download": "downloading",
    "job": "builders",
    "node": "builders",
    "observation": "observed",
    "plugins": "managers",
    "pod": "observed",
    "render": "rendering",
    "service": "builders",
    "transition": "observed",
}


def __getattr__(name: str) -> Any:
    """Import a name on first use: a test of a vendor need not import the models of workloads."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
