"""The generated blocks about metrics, from their definitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry

from docs.generate.pages import table
from kaiwo.engine.metric_definitions import CONFIGURATION
from kaiwo.host.metrics.definitions import DEFINITIONS, SECTIONS
from kaiwo.install.monitoring.alerts import ALERTS
from kaiwo_kueue.capacity_gauges import CapacityGauges

if TYPE_CHECKING:
    from collections.abc import Iterator


def of_plugins() -> Iterator[tuple[str, str]]:
    """Names and help texts of the metrics of first-party plugins."""
    registry = CollectorRegistry()
    CapacityGauges(registry)
    for family in registry.collect():
        yield family.name, family.documentation


def metric_tables() -> dict[str, str]:
    """A block for each section, and one for the alerts."""
    found = {}
    for section in SECTIONS:
        rows = [
            (f"`{item.name}`", item.type, ", ".join(item.labels), item.text)
            for item in DEFINITIONS
            if item.section == section
        ]
        if section == CONFIGURATION:
            rows += [(f"`{name}`", "gauge", "", f"Plugin kueue: {text}") for name, text in of_plugins()]
        found[f"metrics-{section.split()[0].lower()}"] = table(("metric", "type", "labels", "meaning"), rows)
    found["alerts"] = table(
        ("alert", "severity", "when", "meaning and what to do"),
        (
            (f"`{alert.name}`", alert.severity, f"`{alert.expr}`{_pending(alert.seconds)}", alert.text)
            for alert in ALERTS
        ),
    )
    return found


def _pending(seconds: int) -> str:
    return f" for {seconds // 60} min" if seconds else ""
