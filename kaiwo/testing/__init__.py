"""What the author of a plugin imports in tests; Kaiwo's own plugins use exactly this.

* :func:`plugins` loads modules by the real rules, with discovery of installed plugins blocked.
* :func:`job`, :func:`service`, :func:`node`, :func:`config` build objects.
* :func:`render` gives what would be created for a workload as YAML, :func:`assert_golden` compares it with
  a file (``KAIWO_GOLDEN=write`` writes the file).
* :func:`assert_backend_contract`, :func:`assert_source_contract`, :func:`assert_vendor_contract` check what
  the host relies on.

A real control plane comes from the distribution ``kaiwo-sandbox``: once installed, its pytest fixtures
``control_plane`` and ``namespace`` are there without any import.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kaiwo.testing.backend_contract import assert_backend_contract
    from kaiwo.testing.builders import config, job, node, service
    from kaiwo.testing.golden import assert_golden
    from kaiwo.testing.managers import plugins
    from kaiwo.testing.rendering import render
    from kaiwo.testing.source_contract import assert_source_contract
    from kaiwo.testing.vendor_contract import assert_vendor_contract

__all__ = [
    "assert_backend_contract",
    "assert_golden",
    "assert_source_contract",
    "assert_vendor_contract",
    "config",
    "job",
    "node",
    "plugins",
    "render",
    "service",
]

_MODULES = {
    "assert_backend_contract": "backend_contract",
    "assert_golden": "golden",
    "assert_source_contract": "source_contract",
    "assert_vendor_contract": "vendor_contract",
    "config": "builders",
    "job": "builders",
    "node": "builders",
    "plugins": "managers",
    "render": "rendering",
    "service": "builders",
}


def __getattr__(name: str) -> Any:
    """Import a name on first use: a test of a vendor need not import the models of workloads."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
