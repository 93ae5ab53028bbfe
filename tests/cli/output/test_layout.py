"""Tables and pages fit the terminal: nothing is cut, words stay whole, and a watch keeps its first lines."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaiwo.cli.commands.list import columns
from kaiwo.cli.manage.layout import column_layout
from kaiwo.cli.manage.rows import workload_row
from kaiwo.cli.options import GlobalOptions
from kaiwo.cli.output.detail_view import write_details
from kaiwo.cli.output.layout import GAP, groups, width_of, wrap
from kaiwo.cli.output.responsive import write_pair, write_rows
from kaiwo.cli.output.table import write_table
from kaiwo.cli.output.verdict_page import write_verdict
from kaiwo.cli.output.watching import visible
from kaiwo.cli.terminal import STATUS_COLORS, state_color
from kaiwo.cli.workload_details import WorkloadDetails
from kaiwo.client.why import judge
from kaiwo.workload.diagnosis.model import DiagnosisFacts

if TYPE_CHECKING:
    from collections.abc import Callable

NOW = datetime(2026, 1, 31, 12, 0, 0, tzinfo=UTC)
MESSAGE = "asked for 16 amd GPUs in one pod; the largest node has 8, 3 nodes have 24 in total; nearest: 8"


@pytest.fixture
def drawn(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[[Callable[[], None], int], list[str]]:
    """The lines that something writes on a terminal of some width, without colours."""

    def lines(write: Callable[[], None], width: int, **chosen: Any) -> list[str]:
        monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
        monkeypatch.setenv("COLUMNS", str(width))
        capsys.readouterr()
        with click.Context(click.Command("x"), obj=GlobalOptions(**chosen)):
            write()
        return click.unstyle(capsys.readouterr().out).splitlines()

    return lines


def job(name: str, word: str = "ERROR") -> dict[str, Any]:
    """A job with a long message."""
    return {
        "apiVersion": "kaiwo.silogen.ai/v1alpha1",
        "kind": "KaiwoJob",
        "metadata": {"name": name, "namespace": "team", "creationTimestamp": "2026-01-31T11:58:00Z"},
        "spec": {"gpus": 16, "user": "jane@example.org", "clusterQueue": "research"},
        "status": {"status": word, "reason": "GPUsExceedNode", "message": MESSAGE},
    }


@pytest.mark.parametrize("output", [None, "wide"])
@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_a_table_fits_the_terminal_and_cuts_no_word(
    drawn: Callable[..., list[str]], width: int, output: Any
) -> None:
    """At 60 columns a row takes several lines; the words are those of a wide terminal."""
    rows = [job("train"), job("fine-tune-llama-70b-2026-01-31")]
    lines = drawn(lambda: write_table(columns(now=NOW), rows), width, output=output)
    assert max(map(len, lines)) <= width
    words = {"train", "fine-tune-llama-70b-2026-01-31", "ERROR", "GPUsExceedNode", "16", "research", "2m"}
    words |= {"NAME", "STATUS", "REASON", "GPUS", "QUEUE", "DURATION", "AGE"}
    words |= set(MESSAGE.split()) if output == "wide" else set()
    assert words <= {word for line in lines for word in line.split()}


def test_the_list_shows_messages_where_there_is_room(drawn: Callable[..., list[str]]) -> None:
    """A wide terminal has room for them; a narrow one and a pipe keep the short table."""
    rows = [job("train")]
    assert "MESSAGE" in drawn(lambda: write_table(columns(now=NOW), rows), 200)[0]
    assert "MESSAGE" not in drawn(lambda: write_table(columns(now=NOW), rows), 80)[0]


@pytest.mark.parametrize("width", [60, 80, 200])
def test_the_page_of_a_workload_fits_the_terminal(drawn: Callable[..., list[str]], width: int) -> None:
    """A long message goes on below its beginning; events are wrapped between words."""
    pod = {"metadata": {"name": "train-abcde"}, "spec": {"nodeName": "gpu-1"}, "status": {"phase": "Pending"}}
    event = {
        "metadata": {"creationTimestamp": "2026-01-31T11:59:00Z"},
        "involvedObject": {"kind": "Pod", "name": "train-abcde"},
        "type": "Warning",
        "reason": "FailedScheduling",
        "message": MESSAGE,
    }
    found = WorkloadDetails(pods=[pod], events=[event])
    lines = drawn(lambda: write_details(job("train"), found, NOW), width)
    assert max(map(len, lines)) <= width
    assert set(MESSAGE.split()) <= {word for line in lines for word in line.split()}
    assert lines[0] == "Name:      job/train"


def test_a_watch_keeps_its_first_lines_on_the_screen() -> None:
    """Header and state stay; how much is hidden is said; a long line counts as the lines that it takes."""
    lines = [f"line {number}" for number in range(40)]
    shown = visible(lines, 80, 24)
    assert shown[:22] == lines[:22]
    assert shown[22] == "... 18 more lines: enlarge the window, or leave out -w"
    assert len(shown) == 23
    assert visible(lines[:23], 80, 24) == lines[:23]
    assert len(visible(["x" * 170, *lines], 80, 24)) == 21


def test_colors_mean_the_same_everywhere() -> None:
    """Green is good, yellow waits, red needs the user, for workloads, pods and objects alike."""
    assert set(STATUS_COLORS.values()) == {"green", "yellow", "red"}
    assert state_color("Running") == state_color("Complete") == STATUS_COLORS["RUNNING"] == "green"
    assert state_color("Pending") == state_color("Suspended") == STATUS_COLORS["PENDING"] == "yellow"
    for bad in ("CrashLoopBackOff", "ImagePullBackOff", "OOMKilled (exit code 137)", "Failed", "Error"):
        assert state_color(bad) == STATUS_COLORS["FAILED"] == "red"
    assert state_color("anything") == ""


WIDE = "\u7814\u7a76"
"""Two characters that take four columns."""

ACCENT = "e\u0301"
VOWEL_SIGN = "\u0915\u0941"
"""Two characters in one column each; the second one of the vowel sign has the combining class 0."""


@pytest.mark.parametrize(
    ("text", "columns"), [("ada", 3), (WIDE, 4), (ACCENT, 1), (VOWEL_SIGN, 1), ("1\u20dd", 1), ("", 0)]
)
def test_the_width_of_a_text_is_that_on_a_screen(text: str, columns: int) -> None:
    """Of wide characters two columns, of marks above, below and around another one none."""
    assert width_of(text) == columns


def test_columns_stay_below_their_titles_whatever_the_names_are(capsys: pytest.CaptureFixture[str]) -> None:
    """The user of a workload is any text."""
    rows = [(name, "7") for name in ("ada", WIDE * 4, ACCENT * 6, VOWEL_SIGN * 3, "\x1b[31m")]
    with click.Context(click.Command("x"), obj=GlobalOptions()):
        write_rows(("USER", "GPUS"), rows)
    lines = capsys.readouterr().out.splitlines()
    assert {width_of(line[: line.rindex(" ")]) for line in lines} == {18}


@pytest.mark.parametrize("width", [40, 60, 80])
def test_wide_text_fits_the_terminal(drawn: Callable[..., list[str]], width: int) -> None:
    """In tables that become blocks, in pairs, and in a verdict."""
    text = " ".join([WIDE * 3] * 20)

    def write() -> None:
        write_rows(("USER", "MESSAGE"), [(WIDE * 4, text)])
        write_pair("Message:", text)
        workload = {**job("train"), "status": {"status": "ERROR", "reason": "Refused", "message": text}}
        write_verdict(judge(DiagnosisFacts(workload, NOW, None), ()))

    assert max(map(width_of, drawn(write, width))) <= width


def test_a_full_screen_has_room_for_the_whole_of_a_wide_name() -> None:
    """A column is as wide as what it shows."""
    obj = job("train")
    row = workload_row({**obj, "spec": {**obj["spec"], "user": WIDE * 3}})
    found = {column.title: column.width for column in column_layout(120, [row], everywhere=False)}
    assert found["USER"] == 12


@given(st.text(), st.integers(1, 200))
def test_wrapping_keeps_every_word_and_the_width(text: str, width: int) -> None:
    """Only a single word may be longer than a line."""
    lines = wrap(text, width)
    assert " ".join(lines).split() == text.split()
    assert all(width_of(line) <= width or " " not in line for line in lines)


@given(st.lists(st.integers(1, 50), min_size=1), st.integers(1, 200))
def test_every_column_is_on_exactly_one_line(widths: list[int], width: int) -> None:
    """Lines fit, unless one column alone does not."""
    found = groups(widths, width)
    assert [index for group in found for index in group] == list(range(len(widths)))
    for number, group in enumerate(found):
        used = sum(widths[index] for index in group) + GAP * (len(group) - (number == 0))
        assert used <= width or len(group) == 1
