"""Errors, metrics, health, logs."""

from __future__ import annotations

import io
import json
import logging
from typing import TYPE_CHECKING

import prometheus_client
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaiwo.engine import errors
from kaiwo.engine.telemetry import Health, Metrics, setup_logging

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """A place for logs; afterwards logging is as before."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield io.StringIO()
    root.handlers[:] = handlers
    root.setLevel(level)


def test_json_logs_are_one_object_per_line(stream: io.StringIO) -> None:
    """A log collector reads fields, whatever is in the message."""
    setup_logging("json", stream=stream)
    logging.getLogger("x").info("two\nlines %s", "é", extra={"fields": {"key": "ns/a", "odd": object}})
    line = json.loads(stream.getvalue())
    assert stream.getvalue().count("\n") == 1
    assert (line["level"], line["logger"], line["message"], line["key"]) == (
        "info",
        "x",
        "two\nlines é",
        "ns/a",
    )


def test_text_logs_are_one_line_per_record(stream: io.StringIO) -> None:
    """A message cannot fake another record."""
    setup_logging("text", "WARNING", stream)
    logging.getLogger("x").warning("one\n2026 ERROR fake", extra={"fields": {"key": "ns/a"}})
    logging.getLogger("x").info("hidden")
    assert stream.getvalue().count("\n") == 1
    assert "WARNING x: one\\n2026 ERROR fake key=ns/a" in stream.getvalue()


def test_tracebacks_are_logged(stream: io.StringIO) -> None:
    """A defect is found from its log."""
    for format_ in ("json", "text"):
        setup_logging(format_, stream=stream)
        try:
            _ = 1 // int("0")
        except ZeroDivisionError:
            logging.getLogger("x").exception("broken")
    assert stream.getvalue().count("ZeroDivisionError") >= 2


def test_health_names_what_is_not_ready() -> None:
    """/readyz says which check fails and why."""
    health = Health()
    assert health.ready() == (True, {})
    health.check("cache a", lambda: (True, "ok"))
    health.check("cache b", lambda: (False, "not listed yet"))
    assert health.ready() == (False, {"cache a": "ok", "cache b": "not listed yet"})


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


@pytest.mark.parametrize(
    ("status", "reason", "type_"),
    [
        (404, "NotFound", errors.NotFound),
        (409, "AlreadyExists", errors.AlreadyExists),
        (409, "Conflict", errors.Conflict),
        (422, "Invalid", errors.Invalid),
        (400, "BadRequest", errors.Invalid),
        (401, "Unauthorized", errors.Forbidden),
        (403, "Forbidden", errors.Forbidden),
        (410, "Expired", errors.Gone),
        (429, "TooManyRequests", errors.TooManyRequests),
        (500, "InternalError", errors.ServerUnavailable),
        (504, "Timeout", errors.ServerUnavailable),
    ],
)
def test_each_refusal_has_its_type_and_the_servers_words(
    status: int, reason: str, type_: type[errors.ApiError]
) -> None:
    """Callers decide by type, users read the API server's sentence."""
    body = json.dumps({"kind": "Status", "reason": reason, "message": "the words", "code": status}).encode()
    error = errors.from_response(status, body, {"Retry-After": "2"})
    assert type(error) is type_
    assert str(error) == "the words"
    assert error.retry_after == 2
    assert type(errors.from_status(json.loads(body))) is type_


@given(st.integers(300, 599), st.binary(max_size=50), st.text(max_size=5))
def test_any_answer_becomes_an_error_with_a_text(status: int, body: bytes, retry: str) -> None:
    """A proxy's HTML page, garbage, nothing at all: still an error that can be read."""
    error = errors.from_response(status, body, {"Retry-After": retry})
    assert str(error)
    assert error.status == status


def test_odd_status_objects_are_survived() -> None:
    """Fields of wrong types are taken as absent."""
    error = errors.from_status({"kind": "Status", "code": "x", "details": {"causes": [None, {"field": 3}]}})
    assert error.status == 500
    assert error.causes == (errors.Cause("", "", "3"),)
