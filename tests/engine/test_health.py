"""Health checks: what /readyz says."""

from __future__ import annotations

from kaiwo.engine.health import Health


def test_health_names_what_is_not_ready() -> None:
    """/readyz says which check fails and why."""
    health = Health()
    assert health.ready() == (True, {})
    health.check("cache a", lambda: (True, "ok"))
    health.check("cache b", lambda: (False, "not listed yet"))
    assert health.ready() == (False, {"cache a": "ok", "cache b": "not listed yet"})
