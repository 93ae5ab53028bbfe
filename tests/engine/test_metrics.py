"""Metrics of the engine."""

from __future__ import annotations

import prometheus_client

from kaiwo.engine.metrics import Metrics
from kaiwo.engine.workqueue import Key, WorkQueue


def test_metrics_of_two_engines_do_not_collide() -> None:
    """Each has a registry of its own, and all can be scraped."""
    for metrics in (Metrics(), Metrics()):
        metrics.request("get", "pods", 200, 0.01)
        metrics.request("create", "a", 0, 0.01)
        metrics.reconcile("workloads", "success", 0.001)
        metrics.watch_restart("pods", "gone")
        queue = WorkQueue()
        metrics.watch_controller("workloads", queue, 4)
        queue.add(Key("team", "a"))
        metrics.watch_store("pods", lambda: 3)
        metrics.leading("kaiwo", now=True)
        metrics.event("sent")
        text = prometheus_client.generate_latest(metrics.registry).decode()
        for line in (
            'rest_client_requests_total{code="200",host="",method="GET",resource="pods",verb="get"} 1.0',
            'rest_client_requests_total{code="<error>",host="",method="POST",resource="a",verb="create"} 1.0',
            'workqueue_depth{controller="workloads",name="workloads"} 1.0',
            'workqueue_adds_total{controller="workloads",name="workloads"} 1.0',
            'controller_runtime_max_concurrent_reconciles{controller="workloads"} 4.0',
            'kaiwo_cache_objects{resource="pods"} 3.0',
            'kaiwo_watch_restarts_total{reason="gone",resource="pods"} 1.0',
            'leader_election_master_status{name="kaiwo"} 1.0',
        ):
            assert line in text


def test_a_scrape_has_every_count_that_came_before_it() -> None:
    """Counts are put aside until somebody reads them; thousands are neither lost nor counted twice."""
    metrics = Metrics()
    value = metrics.registry.get_sample_value
    labels = {"code": "200", "host": "", "method": "PATCH", "resource": "jobs.batch", "verb": "patch"}
    for _ in range(2500):
        metrics.request("patch", "jobs.batch", 200, 0.5)
    assert value("rest_client_requests_total", labels) == 2500
    metrics.request("patch", "jobs.batch", 200, 0.5)
    assert value("rest_client_requests_total", labels) == 2501
    times = {"host": "", "verb": "patch"}
    assert value("rest_client_request_duration_seconds_count", times) == 2501
    assert value("rest_client_request_duration_seconds_sum", times) == 1250.5
