"""Data on standard output: stable for programs, harmless for terminals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaiwo.cli.commands.list import columns
from kaiwo.cli.options import FORMATS, GlobalOptions
from kaiwo.cli.output import detail_view
from kaiwo.cli.output.objects import emit, name_of
from kaiwo.cli.output.serialization import to_json
from kaiwo.cli.output.table import Column
from kaiwo.cli.terminal import clean
from kaiwo.workload.diagnosis.evidence import event_time

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime


@pytest.fixture
def shown(
    capsys: pytest.CaptureFixture[str], workload: Callable[..., dict[str, Any]], now: datetime
) -> Callable[..., str]:
    """What a command that shows two workloads writes with some settings: ``shown(output="wide")``."""

    @click.command()
    def show() -> None:
        emit([workload(), workload(spec={}, status={})], columns(now=now))

    def text(**chosen: Any) -> str:
        show.main([], standalone_mode=False, obj=GlobalOptions(**chosen))
        return capsys.readouterr().out

    return text


def test_a_table_in_a_pipe_is_plain_columns(shown: Callable[..., str]) -> None:
    """No colours, no lines, no cut text: grep and awk see the same every time; nothing is a dash."""
    assert shown() == (
        "NAME    KIND   STATUS    REASON       GPUS   QUEUE   DURATION   AGE\n"
        "train   job    RUNNING   JobRunning   4      blue    90s        2m\n"
        "train   job    -         -            0      -       -          2m\n"
    )


@pytest.mark.parametrize(("variable", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_a_terminal_without_colours_gets_none(
    shown: Callable[..., str], monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    """The terminal of an editor would show escape sequences as they are."""
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[" in shown()
    monkeypatch.setenv(variable, value)
    assert "\x1b[" not in shown()


@pytest.mark.parametrize("width", [20, 60, 100, 200])
@pytest.mark.parametrize("form", ["table", "wide"])
def test_a_narrow_terminal_cuts_nothing(
    shown: Callable[..., str], monkeypatch: pytest.MonkeyPatch, width: int, form: Any
) -> None:
    """Names can be copied and states be read, however long the longest name and narrow the window."""
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", str(width))
    text = click.unstyle(shown(output=form))
    words = {"NAME", "train", "STATUS", "RUNNING", "JobRunning", "blue", "90s", "AGE"}
    assert words <= set(text.split())


def test_wide_shows_more(shown: Callable[..., str]) -> None:
    """-o wide adds columns and takes none away."""
    header = shown(output="wide").splitlines()[0].split()
    assert set(header) == {
        "NAME", "KIND", "STATUS", "REASON", "GPUS", "QUEUE", "USER", "DURATION", "AGE", "MESSAGE",
    }  # fmt: skip


def test_names_are_those_of_kubectl(shown: Callable[..., str]) -> None:
    """What -o name prints can be given to kubectl."""
    assert shown(output="name").splitlines() == ["kaiwojob.kaiwo.silogen.ai/train"] * 2
    assert name_of({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}}) == "pod/x"


def test_json_and_yaml_of_several_objects_are_a_list(shown: Callable[..., str]) -> None:
    """As kubectl writes them, without the bookkeeping of field owners."""
    for form in ("json", "yaml"):
        text = shown(output=form)
        assert "List" in text
        assert "managedFields" not in text
    assert "table" in FORMATS


@given(st.text())
def test_text_of_others_cannot_reach_the_terminal(text: str) -> None:
    """An escape sequence in a message of the cluster is not obeyed by a terminal."""
    assert all(char.isprintable() for char in clean(text))


def test_an_empty_table_writes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """Not even a header, as kubectl does."""

    @click.command()
    def nothing() -> None:
        emit([], [Column("NAME", str)])

    nothing.main([], standalone_mode=False)
    assert capsys.readouterr().out == ""


def test_json_keeps_text_as_it_is() -> None:
    """Names in any language stay readable."""
    assert to_json({"a": "ü"}) == '{\n  "a": "ü"\n}\n'


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ({"phase": "Running"}, "Running"),
        ({"phase": "Pending"}, "Pending"),
        ({"phase": "Failed", "reason": "Evicted"}, "Evicted"),
        (
            {
                "phase": "Pending",
                "containerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff"}}}],
            },
            "ImagePullBackOff",
        ),
        (
            {
                "phase": "Pending",
                "containerStatuses": [{"state": {"waiting": {"reason": "ContainerCreating"}}}],
            },
            "Pending",
        ),
        (
            {
                "phase": "Failed",
                "containerStatuses": [{"state": {"terminated": {"reason": "OOMKilled", "exitCode": 137}}}],
            },
            "OOMKilled (exit code 137)",
        ),
    ],
)
def test_a_pods_state_names_its_trouble(status: dict[str, Any], state: str) -> None:
    """The phase alone hides why a pod does not run."""
    assert detail_view.pod_state({"metadata": {}, "status": status}) == state


def test_events_are_in_the_order_of_their_times() -> None:
    """Some events carry fractions of a second and others do not; their ages never go back and forth."""
    whole = {"metadata": {}, "lastTimestamp": "2026-01-01T00:00:01Z"}
    finer = {"metadata": {}, "eventTime": "2026-01-01T00:00:01.500000Z"}
    later = {"metadata": {}, "lastTimestamp": "2026-01-01T00:00:02Z"}
    assert sorted([later, finer, whole], key=event_time) == [whole, finer, later]
