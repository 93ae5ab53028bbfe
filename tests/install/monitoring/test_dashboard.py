"""The dashboard shows every metric, and its queries can be read by Prometheus."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from kaiwo.host.metrics.definitions import DEFINITIONS, SECTIONS
from kaiwo.install.monitoring.dashboard import dashboard
from kaiwo.testing.golden import assert_golden

if TYPE_CHECKING:
    from collections.abc import Callable

FILE = Path(__file__).parents[3] / "deploy" / "monitoring" / "dashboard.json"
NOT_SHOWN = {
    "controller_runtime_max_concurrent_reconciles",
    "workqueue_unfinished_work_seconds",
    "kaiwo_webhook_certificate_expiry_timestamp_seconds",
    "kaiwo_monitoring_last_success_timestamp_seconds",
}
"""A constant, a sum of which the largest part is shown, and times that have alerts."""


def panels() -> list[dict[str, Any]]:
    """All panels, rows included."""
    return list(json.loads(dashboard())["panels"])


def expressions() -> list[str]:
    """All queries."""
    return [target["expr"] for panel in panels() for target in panel.get("targets", ())]


def test_the_file_is_what_the_definitions_give() -> None:
    """A metric that changes changes the dashboard."""
    assert_golden(dashboard(), FILE)


def test_every_metric_is_shown_or_left_out_on_purpose() -> None:
    """A new metric without a panel is noticed."""
    shown = {item.name for item in DEFINITIONS if any(item.name in expr for expr in expressions())}
    assert {item.name for item in DEFINITIONS} - shown == NOT_SHOWN


def test_panels_tell_apart_by_labels_that_their_metric_has() -> None:
    """A query by a label that does not exist shows one line without a name."""
    for item in DEFINITIONS:
        assert item.section in SECTIONS
        if item.panel is not None:
            assert set(item.panel.by) <= set(item.labels), item.name


def test_panels_do_not_overlap() -> None:
    """Grafana would move them about."""
    cells = [
        (x, y)
        for panel in panels()
        for place in (panel["gridPos"],)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
    numbers = [panel["id"] for panel in panels()]
    assert len(numbers) == len(set(numbers))


def test_prometheus_reads_every_query(promtool: Callable[..., None], tmp_path: Path) -> None:
    """As recording rules, the interval given as Grafana would give it."""
    rules = [
        {"record": f"panel:{number}", "expr": re.sub(r"\$__rate_interval", "5m", expr)}
        for number, expr in enumerate(expressions())
    ]
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}), encoding="utf-8")
    promtool("check", "rules", file)
