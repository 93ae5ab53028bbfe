"""Log lines on terminals and in pipes."""

from __future__ import annotations

from kaiwo.cli.output.log_text import LogText, cleaned
from kaiwo.client.logs import LogLine


def line(text: bytes, pod: str = "train-0", container: str = "main") -> LogLine:
    """One line."""
    return LogLine(pod, container, text, "2026-01-31T09:00:00.000000001Z")


def text(*, terminal: bool = False, prefixed: bool | None = None, timestamps: bool = False) -> LogText:
    """Text without colours."""
    return LogText(terminal=terminal, color=False, timestamps=timestamps, prefixed=prefixed, containers=False)


def test_a_pipe_gets_the_bytes_of_the_container() -> None:
    """Escape sequences and bytes that are no text included."""
    raw = b"\x1b[31mred\x1b[0m \xff\x00"
    assert text().render([line(raw), line(b"")]) == raw + b"\n\n"


def test_prefixes_begin_when_a_second_pod_writes() -> None:
    """One pod needs none, and --no-prefix means never."""
    made, never = text(), text(prefixed=False)
    assert made.render([line(b"a")]) == b"a\n"
    assert made.render([line(b"b", pod="train-1")]) == b"[train-1] b\n"
    assert made.render([line(b"c")]) == b"[train-0] c\n"
    never.render([line(b"a")])
    assert never.render([line(b"b", pod="train-1")]) == b"b\n"


def test_times_stand_before_the_text() -> None:
    """With --timestamps."""
    assert text(timestamps=True).render([line(b"a")]) == b"2026-01-31T09:00:00.000000001Z a\n"


def test_a_terminal_gets_no_escape_sequences() -> None:
    """Colours, cursor movements, titles, links, 8-bit controls and text directions are left out."""
    for raw in (
        b"\x1b[31mred\x1b[0m",
        b"\x1b]0;title\x07red",
        b"\x1b]8;;http://evil\x1b\\red\x1b]8;;\x1b\\",
        b"\x1b[2J\x1b[Hred",
        b"\x1bcred",
        "\x9b31mred".encode(),
        b"\x1bPq#0\x1b\\red",
    ):
        assert cleaned(raw) == b"red"
    assert cleaned("a\u202eb\x07c\x7f".encode()) == b"a b c "
    assert cleaned(b"tab\tbed \xff") == "tab\tbed �".encode()
    assert b"\x1b" not in cleaned(b"\x1b\x1b[\x1b]")


def test_a_progress_bar_shows_its_last_state_on_a_terminal() -> None:
    """Carriage returns would write over the prefix."""
    assert text(terminal=True, prefixed=True).render([line(b" 10%|#  |\r 50%|## |\r100%|###|\r")]) == (
        b"[train-0] 100%|###|\n"
    )


def test_a_long_line_of_beginnings_is_cleaned_in_one_pass() -> None:
    """A container may write megabytes without a line break; who reads its log must not wait for hours."""
    for piece in ("\x90", "\x1b]", "\x1b[", "\x9b0", "\x1b ", "\x9d;"):
        assert cleaned((piece * 500_000 + "\x1b").encode()).decode().isprintable(), piece


def test_a_title_that_is_not_ended_hides_only_itself() -> None:
    """As on a terminal, where the next escape sequence ends it."""
    assert cleaned(b"\x1b]0;title\x1b[31mred") == b"red"
    assert cleaned(b"red\x1b]0;title") == b"red"
