"""Times of the Kubernetes API are read and written in one way."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from kaiwo.engine.timestamps import format_time, parse_time

NINE = datetime(2026, 1, 31, 9, tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    [
        "2026-01-31T09:00:00Z",
        "2026-01-31T09:00:00.000000Z",
        "2026-01-31T10:00:00+01:00",
        "2026-01-31T09:00:00",
    ],
)
def test_a_time_is_read_in_every_form_that_the_api_server_accepts(text: str) -> None:
    """Whole seconds, micro-seconds and other zones; without a zone it is UTC."""
    assert parse_time(text) == NINE


@pytest.mark.parametrize("value", [None, "", "soon", 5, {}, "2026-13-01T00:00:00Z"])
def test_anything_else_is_no_time(value: object) -> None:
    """A status of another controller may hold anything."""
    assert parse_time(value) is None


def test_a_time_is_written_in_whole_seconds_of_utc() -> None:
    """As the API server itself writes metav1.Time."""
    moment = datetime(2026, 1, 31, 10, 0, 0, 999_999, tzinfo=timezone(timedelta(hours=1)))
    assert format_time(moment) == "2026-01-31T09:00:00Z"
