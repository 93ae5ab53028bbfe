"""How conditions of configuration objects are reported."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry

from kaiwo.engine.condition_report import ConditionMetrics, ConditionReporter
from kaiwo.engine.resource import NODE
from kaiwo.engine.store import Cache
from kaiwo.engine.wire import encode

if TYPE_CHECKING:
    import pytest

    from kaiwo.engine.resource import Object

ENTRY: Any = SimpleNamespace(uid="u", name="kaiwo", resource=NODE)


def condition(type_: str, status: str, reason: str, message: str = "") -> Object:
    """A condition."""
    return {"type": type_, "status": status, "reason": reason, "message": message}


GOOD = [condition("Ready", "True", "InForce")]
BAD = [condition("Ready", "False", "InvalidValues", "spec.x: too large")]


class Events:
    """Collects events."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, str]] = []

    def event(self, _: object, type_: str, reason: str, message: str) -> None:
        """Take an event."""
        self.seen.append((type_, reason, message))


def reporter(events: Events, **how: Any) -> ConditionReporter:
    """A reporter whose events are collected."""
    recorder: Any = events
    return ConditionReporter(recorder, **how)


def test_a_condition_that_turns_bad_is_one_warning_and_one_error(caplog: pytest.LogCaptureFixture) -> None:
    """However often it is written again; its end is one Normal event and one line."""
    caplog.set_level(logging.INFO)
    events = Events()
    report = reporter(events)
    report.report(ENTRY, [], GOOD)
    assert events.seen == []
    report.report(ENTRY, GOOD, BAD)
    report.report(ENTRY, BAD, BAD)
    assert events.seen == [("Warning", "InvalidValues", "Ready: spec.x: too large")]
    assert [(r.levelno, r.getMessage()) for r in caplog.records] == [
        (logging.ERROR, "Node kaiwo: Ready: InvalidValues: spec.x: too large")
    ]
    report.report(ENTRY, BAD, GOOD)
    assert events.seen[1:] == [("Normal", "InForce", "Ready: InvalidValues is over")]
    assert caplog.records[-1].levelno == logging.INFO


def test_after_a_restart_a_bad_condition_is_logged_and_is_no_new_event(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The log of the new process has the cause; the object's events are not repeated."""
    events = Events()
    reporter(events).report(ENTRY, BAD, BAD)
    assert events.seen == []
    assert "too large" in caplog.text


def test_a_condition_that_names_a_problem_is_bad_while_it_is_true(caplog: pytest.LogCaptureFixture) -> None:
    """Its removal ends it; other conditions than Ready are warnings."""
    outside = [condition("GpusOutsideQueues", "True", "NoFlavorSelects", "8 GPUs")]
    events = Events()
    report = reporter(events, bad_when_true=("GpusOutsideQueues",))
    report.report(ENTRY, [], outside)
    report.report(ENTRY, outside, [])
    assert [(type_, reason) for type_, reason, _ in events.seen] == [
        ("Warning", "NoFlavorSelects"),
        ("Normal", "GpusOutsideQueues"),
    ]
    assert caplog.records[0].levelno == logging.WARNING


def test_conditions_are_metrics_in_the_form_of_kube_state_metrics() -> None:
    """1 for the status that holds, 0 for the others; nothing while the object does not exist."""
    cache, registry = Cache(), CollectorRegistry()
    store = cache.register(NODE)
    shown = ConditionMetrics("kaiwo", cache)
    shown.add(NODE, "kaiwo")
    registry.register(shown)

    def value(status: str) -> float | None:
        labels = {"kind": "Node", "condition": "Ready", "status": status}
        return registry.get_sample_value("kaiwo_config_condition", labels)

    assert value("True") is None
    obj = {"metadata": {"name": "kaiwo", "uid": "u", "resourceVersion": "1"}, "status": {"conditions": BAD}}
    store.observe("ADDED", store.decode(encode(obj)))
    assert (value("True"), value("False"), value("Unknown")) == (0, 1, 0)
