"""Metrics of the engine."""

from __future__ import annotations

import prometheus_client

from kaiwo.engine.metrics import Metrics


def test_metrics_of_two_engines_do_not_collide() -> None:
    """Each has a registry of its own, and all can be scraped."""
    for metrics in (Metrics(), Metrics()):
        metrics.request("get", "pods", 200, 0.01)
        metrics.reconcile("workloads", "ok", 0.001)
        metrics.watch_restart("pods", "gone")
        metrics.watch_queue("workloads", lambda: 7)
        metrics.watch_store("pods", lambda: 3)
        metrics.leading(now=True)
        metrics.event("sent")
        text = prometheus_client.generate_latest(metrics.registry).decode()
        for line in (
            'kaiwo_api_requests_total{code="200",resource="pods",verb="get"} 1.0',
            'kaiwo_queue_depth{controller="workloads"} 7.0',
            'kaiwo_cache_objects{resource="pods"} 3.0',
            'kaiwo_watch_restarts_total{reason="gone",resource="pods"} 1.0',
            "kaiwo_leader 1.0",
        ):
            assert line in text
