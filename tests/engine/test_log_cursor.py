"""Every line of a log once, wherever connections break."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import example, given
from hypothesis import strategies as st

from kaiwo.engine.log_cursor import LONGEST_LINE, LogCursor, epoch, split_time

START = 1_800_000_000


def line(millisecond: int, text: str = "x") -> bytes:
    """A line as a kubelet sends it with its time."""
    moment = datetime.fromtimestamp(START + millisecond // 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{millisecond % 1000:03d}000000Z {text}".encode()


def served(lines: list[bytes], since: str) -> bytes:
    """What a kubelet sends: it knows whole seconds only."""
    first = epoch(f"{since} ".encode()) or 0
    return b"".join(each + b"\n" for each in lines if (epoch(each) or 0) >= first)


@given(
    steps=st.lists(st.tuples(st.integers(-300, 1500), st.sampled_from("abc")), min_size=1, max_size=40),
    cuts=st.lists(st.integers(0, 2000), max_size=6),
    size=st.integers(1, 60),
)
@example(steps=[(-1, "a"), (0, "a"), (-1, "a"), (1000, "a")], cuts=[132], size=50)
def test_every_line_comes_once_over_connections_cut_at_any_byte(
    steps: list[tuple[int, str]], cuts: list[int], size: int
) -> None:
    """Equal lines, equal times and times that go back a little included."""
    now, lines = 10_000, []
    for step, text in steps:
        lines.append(line(now + step, text))
        now += max(step, 0)
    cursor, got = LogCursor(), []
    for cut in (*cuts, 1 << 30):
        body = served(lines, cursor.since)[:cut]
        for start in range(0, len(body), size):
            got += cursor.feed(body[start : start + size])
        if cut < 1 << 30:
            cursor.disconnect()
    assert got + cursor.finish() == lines
    assert not cursor.has_gap


def test_a_log_that_was_rotated_meanwhile_is_a_gap() -> None:
    """The lines between cannot be read any more, and the cursor says so."""
    cursor = LogCursor()
    cursor.feed(line(0) + b"\n")
    cursor.disconnect()
    assert cursor.feed(line(9000, "later") + b"\n") == [line(9000, "later")]
    assert cursor.has_gap


def test_a_restart_is_no_gap() -> None:
    """The log of the container that was started again does not have the lines of the one before."""
    cursor = LogCursor()
    cursor.feed(line(0) + b"\n")
    cursor.restart()
    assert cursor.feed(line(9000, "later") + b"\n") == [line(9000, "later")]
    assert not cursor.has_gap


def test_a_line_without_end_is_cut() -> None:
    """Memory is bounded, and all bytes come."""
    cursor = LogCursor()
    body = line(0, "y" * (LONGEST_LINE + 100))
    got = [
        each
        for start in range(0, len(body), 1 << 20)
        for each in cursor.feed(body[start : start + (1 << 20)])
    ]
    assert [len(each) for each in got] == [LONGEST_LINE]
    assert b"".join((*got, *cursor.finish())) == body


def test_times_are_split_from_the_text() -> None:
    """A kubelet's own words have no time, and are kept whole."""
    assert split_time(b"2026-01-31T09:00:00.123456789+02:00 a  b ") == (
        "2026-01-31T09:00:00.123456789+02:00",
        b"a  b ",
    )
    own = b"unable to retrieve container logs for containerd://12"
    assert split_time(own) == ("", own)
    assert split_time(b"2026-01-31T09:00:00Z ") == ("2026-01-31T09:00:00Z", b"")
