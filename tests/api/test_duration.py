"""Durations are read as Go reads them."""

from __future__ import annotations

import contextlib
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaiwo.api.duration import InvalidDuration, parse_duration


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", timedelta()),
        ("0s", timedelta()),
        ("90s", timedelta(seconds=90)),
        ("1h30m", timedelta(minutes=90)),
        ("1.5h", timedelta(minutes=90)),
        (".5h", timedelta(minutes=30)),
        ("1.h", timedelta(hours=1)),
        ("30m1h", timedelta(minutes=90)),
        ("500ms", timedelta(milliseconds=500)),
        ("5us", timedelta(microseconds=5)),
        ("5µs", timedelta(microseconds=5)),
        ("1500ns", timedelta(microseconds=1)),
        ("24h", timedelta(days=1)),
    ],
)
def test_documented_forms_are_read(text: str, expected: timedelta) -> None:
    """Every form that a Go program takes has its meaning here."""
    assert parse_duration(text) == expected


@pytest.mark.parametrize(
    "text", ["", "5", "1d", "h", "1h 30m", "-1h", "1H", "1.5.5h", "1e3s", "1h\n", None, 5, ["1h"]]
)
def test_other_texts_are_refused_with_examples(text: object) -> None:
    """One who writes 1d learns how to write it."""
    with pytest.raises(InvalidDuration, match="is not a duration; write it as"):
        parse_duration(text)


def test_the_longest_duration_is_named() -> None:
    """What Go's 64 bits cannot hold is refused with the limit."""
    assert parse_duration("2562047h") == timedelta(hours=2562047)
    with pytest.raises(InvalidDuration, match="292 years"):
        parse_duration("2562048h")


@given(st.text(max_size=40))
def test_any_text_is_either_a_duration_or_refused(text: str) -> None:
    """No input crashes."""
    with contextlib.suppress(InvalidDuration):
        assert parse_duration(text) >= timedelta()
