"""The Grafana dashboard: a row for each section of the metrics, a panel for each metric."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from kaiwo.host.metrics.definitions import DEFINITIONS, SECTIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaiwo.engine.metric_definition import MetricDefinition, Panel

UID: Final = "kaiwo-operator"

_WIDTH: Final = 8
_HEIGHT: Final = 8
_COLUMNS: Final = 24
_SCHEMA: Final = 36  # Grafana 9 and later
_SOURCE: Final = {"type": "prometheus", "uid": "${source}"}
_TOTAL: Final = "_total"
_QUANTILES: Final = (0.5, 0.99)
_ONLY_PROBLEMS: Final = {"kaiwo_config_condition": '{status!="True"}'}
"""Series that the panel of a metric is limited to."""


def dashboard() -> str:
    """The dashboard as JSON."""
    found: list[dict[str, Any]] = []
    at = 0
    for section in SECTIONS:
        drawn = [item for item in DEFINITIONS if item.section == section and item.panel is not None]
        found.append(_row(section, len(found) + 1, at))
        at += 1
        for number, item in enumerate(drawn):
            line, column = divmod(number, _COLUMNS // _WIDTH)
            found.append(_panel(item, len(found) + 1, column * _WIDTH, at + line * _HEIGHT))
        at += -(-len(drawn) // (_COLUMNS // _WIDTH)) * _HEIGHT
    board = {
        "uid": UID,
        "title": "Kaiwo",
        "description": "Generated from the definitions of the operator's metrics.",
        "tags": ["kaiwo"],
        "schemaVersion": _SCHEMA,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "1m",
        "time": {"from": "now-6h", "to": "now"},
        "timezone": "browser",
        "templating": {
            "list": [{"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"}],
        },
        "annotations": {"list": []},
        "links": [],
        "panels": found,
    }
    return json.dumps(board, indent=2) + "\n"


def expressions(item: MetricDefinition) -> Iterator[tuple[str, str]]:
    """PromQL of the series of a panel, each with its legend.

    Args:
        item: a metric that is drawn.
    """
    panel = item.panel
    if panel is None:
        return
    by = f" by ({', '.join(panel.by)})" if panel.by else ""
    legend = " ".join(f"{{{{{label}}}}}" for label in panel.by) or panel.title
    if item.type == "histogram":
        within = ", ".join(("le", *panel.by))
        for quantile in _QUANTILES:
            rate = f"sum by ({within}) (rate({item.name}_bucket[$__rate_interval]))"
            yield f"histogram_quantile({quantile}, {rate})", f"p{quantile * 100:g} {legend}"
    elif item.type == "counter" and panel.over_pods == "sum":
        yield f"sum{by} (rate({item.name}[$__rate_interval]))", legend
    elif item.type == "counter":
        yield _once(item, panel, "rate({name}[$__rate_interval])"), legend
    else:
        yield (
            f"{_once(item, panel, '{name}') if panel.over_pods == 'max' else f'sum{by} ({item.name})'}",
            legend,
        )


def _once(item: MetricDefinition, panel: Panel, form: str) -> str:
    """What every process shows of the same cluster, counted once."""
    name = item.name + _ONLY_PROBLEMS.get(item.name, "")
    inner = f"max by ({', '.join(item.labels)}) ({form.format(name=name)})" if item.labels else f"max({name})"
    if set(panel.by) == set(item.labels):
        return inner
    return f"sum by ({', '.join(panel.by)}) ({inner})" if panel.by else f"sum({inner})"


def _row(section: str, number: int, at: int) -> dict[str, Any]:
    return {
        "id": number, "type": "row", "title": section, "collapsed": False, "panels": [],
        "gridPos": {"h": 1, "w": _COLUMNS, "x": 0, "y": at},
    }  # fmt: skip


def _panel(item: MetricDefinition, number: int, left: int, top: int) -> dict[str, Any]:
    targets = [
        {"refId": chr(ord("A") + at), "datasource": _SOURCE, "expr": expr, "legendFormat": legend}
        for at, (expr, legend) in enumerate(expressions(item))
    ]
    return {
        "id": number,
        "type": "timeseries",
        "title": item.panel.title if item.panel is not None else item.name,
        "description": f"{item.name}: {item.text}",
        "datasource": _SOURCE,
        "gridPos": {"h": _HEIGHT, "w": _WIDTH, "x": left, "y": top},
        "fieldConfig": {
            "defaults": {
                "unit": _unit(item), "min": 0,
                "custom": {"drawStyle": "line", "fillOpacity": 10, "showPoints": "never"},
            },
            "overrides": [],
        },
        "options": {
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
        "targets": targets,
    }  # fmt: skip


def _unit(item: MetricDefinition) -> str:
    """Grafana's name of the unit; the rate of a counter of seconds has none: GPUs at work."""
    if item.type == "counter":
        return "short" if item.name.endswith(f"_seconds{_TOTAL}") else "ops"
    return "s" if item.name.endswith("_seconds") else "short"
