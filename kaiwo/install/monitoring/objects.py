"""Renders what the Prometheus operator and a Grafana with a sidecar for dashboards read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaiwo.api.installation import NAME, OPERATOR, PART_OF, SCHEDULER, head
from kaiwo.install.monitoring.alerts import rules
from kaiwo.install.monitoring.dashboard import dashboard

if TYPE_CHECKING:
    from kaiwo.engine.resource import Object

_API: Final = "monitoring.coreos.com/v1"
_PORT: Final = "metrics"
_DASHBOARD: Final = "kaiwo-dashboard"
_SIDECAR: Final = {"grafana_dashboard": "1"}
"""The label by which the usual charts of Grafana find dashboards."""


def monitoring_objects(namespace: str) -> list[Object]:
    """A PodMonitor, a PrometheusRule, and a ConfigMap with the dashboard.

    A PodMonitor and no ServiceMonitor: each replica is scraped, and the operator has no Service for metrics.

    Args:
        namespace: of the operator.
    """
    monitor = head(_API, "PodMonitor", OPERATOR, app=OPERATOR, installation=namespace, namespace=namespace)
    monitor["spec"] = {
        # Operators of further shards have names of their own.
        "selector": {
            "matchLabels": {PART_OF: "kaiwo"},
            "matchExpressions": [{"key": NAME, "operator": "NotIn", "values": [SCHEDULER]}],
        },
        "podMetricsEndpoints": [{"port": _PORT, "path": "/metrics", "interval": "30s"}],
    }
    alerts = head(_API, "PrometheusRule", OPERATOR, app=OPERATOR, installation=namespace, namespace=namespace)
    alerts["spec"] = rules()
    board = head("v1", "ConfigMap", _DASHBOARD, app=OPERATOR, installation=namespace, namespace=namespace)
    board["metadata"]["labels"] |= _SIDECAR
    board["data"] = {f"{_DASHBOARD}.json": dashboard()}
    return [monitor, alerts, board]
