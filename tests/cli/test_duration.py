"""Time spans are read as Go writes them and shown as kubectl shows ages."""

from __future__ import annotations

from datetime import UTC, datetime

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaiwo.cli.duration import SECONDS, since, span

NOW = datetime(2026, 1, 31, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"), (-5, "0s"), (119, "119s"), (120, "2m"), (200, "3m20s"), (600, "10m"), (7200, "120m"),
        (3 * 3600, "3h"), (3 * 3600 + 60, "3h1m"), (9 * 3600, "9h"), (3 * 86400, "3d"),
        (3 * 86400 + 7200, "3d2h"), (40 * 86400, "40d"), (800 * 86400, "2y"),
    ],
)  # fmt: skip
def test_ages_have_the_format_of_kubectl(seconds: int, text: str) -> None:
    """At most two units, the finer one only while it matters."""
    assert span(seconds) == text


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("1h30m", 5400), ("1.5h", 5400), ("2d", 172800), ("500ms", 0.5), ("7", 7)],
)
def test_durations_are_read_as_go_writes_them(text: str, seconds: float) -> None:
    """And a plain number is seconds."""
    assert SECONDS.convert(text, None, None) == seconds


@given(st.text())
def test_no_text_for_a_duration_crashes(text: str) -> None:
    """It is a duration or wrong usage."""
    try:
        assert SECONDS.convert(text, None, None) >= 0
    except click.BadParameter as error:
        assert "expected a duration such as 90s" in error.message  # noqa: PT017  either outcome is right


def test_times_that_are_none_are_empty() -> None:
    """A strange object must not break the page."""
    assert since(None, NOW) == ""
    assert since("yesterday", NOW) == ""
    assert since("2026-01-31T11:59:00", NOW) == "60s"
