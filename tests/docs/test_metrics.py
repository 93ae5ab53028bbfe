"""The page about metrics names what /metrics has."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry

from docs.generate.blocks import first_party
from docs.generate.metrics import of_plugins
from docs.generate.pages import DOCS
from kaiwo.host import operator as operator_module
from kaiwo.host.metrics.definitions import DEFINITIONS
from kaiwo.host.monitoring.metrics import MonitoringMetrics
from kaiwo.host.operator import Operator
from kaiwo.host.settings import Settings
from kaiwo.testing.kubeconfig import NOWHERE, write_kubeconfig

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

_ROW = re.compile(r"^\| `([a-z_]+)` \|", re.MULTILINE)
_PROCESS = "process_"
"""The first word of the metrics of the Python client about the process."""


def names(registry: CollectorRegistry) -> set[str]:
    """The metrics of a registry as they are queried; all of a process as ``process_``."""
    found = set()
    for family in registry.collect():
        name = f"{family.name}_total" if family.type == "counter" else family.name
        found.add(_PROCESS if name.startswith(_PROCESS) else name)
    return found


def test_every_metric_is_described(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an administrator finds in Prometheus is explained, and nothing else is."""
    kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", NOWHERE)
    registry = CollectorRegistry()
    made = operator_module.Metrics(registry=registry)
    monkeypatch.setattr(operator_module, "Metrics", lambda **_: made)
    Operator(Settings(kubeconfig=kubeconfig, webhooks=True), first_party())
    MonitoringMetrics(registry)
    described = set(_ROW.findall((DOCS / "metrics.md").read_text(encoding="utf-8")))
    assert described | {_PROCESS} == names(registry)
    defined = {item.name for item in DEFINITIONS} | {name for name, _ in of_plugins()}
    assert described == defined
