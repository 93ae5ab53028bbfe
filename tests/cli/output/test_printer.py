"""Data on standard output: stable for programs, harmless for terminals."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaiwo.cli import kit
from kaiwo.cli.commands.list import columns
from kaiwo.cli.duration import SECONDS, since, span
from kaiwo.cli.options import FORMATS, GlobalOptions
from kaiwo.cli.output import detail_view, workload_fields
from kaiwo.cli.output.objects import emit, name_of
from kaiwo.cli.output.serialization import to_json
from kaiwo.cli.output.table import Column
from kaiwo.cli.terminal import clean
from kaiwo.cli.workload_details import event_order

NOW = datetime(2026, 1, 31, 12, 0, 0, tzinfo=UTC)


def workload(**over: Any) -> dict[str, Any]:
    """A live KaiwoJob that has run for 90 seconds."""
    return {
        "apiVersion": "kaiwo.silogen.ai/v1alpha1",
        "kind": "KaiwoJob",
        "metadata": {
            "name": "train",
            "namespace": "team",
            "creationTimestamp": "2026-01-31T11:58:00Z",
            "managedFields": [{"manager": "x"}],
        },
        "spec": {"gpus": 4, "user": "jane@example.org", "clusterQueue": "blue"},
        "status": {
            "status": "RUNNING",
            "reason": "JobRunning",
            "message": "one pod runs",
            "startTime": "2026-01-31T11:58:30Z",
        },
    } | over


@click.command()
def show() -> None:
    """Write two workloads."""
    emit([workload(), workload(spec={}, status={})], columns(now=NOW))


def shown(capsys: pytest.CaptureFixture[str], **chosen: Any) -> str:
    """What `show` writes with these settings."""
    show.main([], standalone_mode=False, obj=GlobalOptions(**chosen))
    return capsys.readouterr().out


def test_a_table_in_a_pipe_is_plain_columns(capsys: pytest.CaptureFixture[str]) -> None:
    """No colours, no lines, no cut text: grep and awk see the same every time; nothing is a dash."""
    assert shown(capsys) == (
        "NAME    KIND   STATUS    REASON       GPUS   QUEUE   DURATION   AGE\n"
        "train   job    RUNNING   JobRunning   4      blue    90s        2m\n"
        "train   job    -         -            0      -       -          2m\n"
    )


@pytest.mark.parametrize("width", [20, 60, 100, 200])
@pytest.mark.parametrize("form", ["table", "wide"])
def test_a_narrow_terminal_cuts_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int, form: Any
) -> None:
    """Names can be copied and states be read, however long the longest name and narrow the window."""
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", str(width))
    text = click.unstyle(shown(capsys, output=form))
    words = {"NAME", "train", "STATUS", "RUNNING", "JobRunning", "blue", "90s", "AGE"}
    assert words <= set(text.split())


def test_wide_shows_more(capsys: pytest.CaptureFixture[str]) -> None:
    """-o wide adds columns and takes none away."""
    header = shown(capsys, output="wide").splitlines()[0].split()
    assert set(header) == {
        "NAME", "KIND", "STATUS", "REASON", "GPUS", "QUEUE", "USER", "DURATION", "AGE", "MESSAGE",
    }  # fmt: skip


def test_names_are_those_of_kubectl(capsys: pytest.CaptureFixture[str]) -> None:
    """What -o name prints can be given to kubectl."""
    assert shown(capsys, output="name").splitlines() == ["kaiwojob.kaiwo.silogen.ai/train"] * 2
    assert name_of({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}}) == "pod/x"


def test_json_and_yaml_of_several_objects_are_a_list(capsys: pytest.CaptureFixture[str]) -> None:
    """As kubectl writes them, without the bookkeeping of field owners."""
    for form in ("json", "yaml"):
        text = shown(capsys, output=form)
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
    ("seconds", "text"),
    [
        (0, "0s"), (-5, "0s"), (119, "119s"), (120, "2m"), (200, "3m20s"), (600, "10m"), (7200, "120m"),
        (3 * 3600, "3h"), (3 * 3600 + 60, "3h1m"), (9 * 3600, "9h"), (3 * 86400, "3d"),
        (3 * 86400 + 7200, "3d2h"), (40 * 86400, "40d"), (800 * 86400, "2y"),
    ],
)  # fmt: skip
def test_ages_look_as_in_kubectl(seconds: int, text: str) -> None:
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


def test_a_duration_is_live_while_it_runs_and_fixed_afterwards() -> None:
    """The recorded times win once the workload ended."""
    assert workload_fields.duration(workload(), NOW) == "90s"
    assert workload_fields.duration(workload(), NOW + timedelta(seconds=10)) == "100s"
    ended = workload(
        status={
            "status": "COMPLETE",
            "startTime": "2026-01-31T11:58:30Z",
            "completionTime": "2026-01-31T11:58:45Z",
        }
    )
    assert workload_fields.duration(ended, NOW) == "15s"
    assert workload_fields.duration(workload(status={"status": "PENDING"}), NOW) == ""


def test_what_is_being_deleted_says_so() -> None:
    """Whatever status was written last."""
    doomed = workload()
    doomed["metadata"]["deletionTimestamp"] = "2026-01-31T12:00:00Z"
    assert workload_fields.word(doomed) == "TERMINATING"


def test_gpus_are_those_that_were_allocated() -> None:
    """Before that, those that were asked for."""
    assert workload_fields.gpus(workload(spec={"gpus": 9})) == "9"
    assert workload_fields.gpus(workload(spec={"replicas": 2, "gpusPerReplica": 4})) == "8"
    allocated = {"status": "RUNNING", "allocation": {"replicas": 3, "gpusPerReplica": 3}}
    assert workload_fields.gpus(workload(spec={"gpus": 9}, status=allocated)) == "9"


def test_one_user_may_be_written_in_several_ways() -> None:
    """An address and the label made of it are one user."""
    assert workload_fields.same_user("jane.doe+x@Amd.com", "jane.doe-x-amd.com")
    assert not workload_fields.same_user("jane", "joe")
    assert not workload_fields.same_user("", "joe")


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


def test_times_that_are_none_are_empty() -> None:
    """A strange object must not break the page."""
    assert since(None, NOW) == ""
    assert since("yesterday", NOW) == ""
    assert since("2026-01-31T11:59:00", NOW) == "60s"
    assert kit.FIELD_MANAGER != "kaiwo"


def test_the_queue_is_the_one_asked_for_or_given_to() -> None:
    """Without a queue in the spec, the default one that the operator chose."""
    given = {"status": "PENDING", "allocation": {"queue": "kaiwo"}}
    assert workload_fields.queue(workload(spec={}, status=given)) == "kaiwo"
    assert workload_fields.queue(workload(spec={"clusterQueue": "team"}, status=given)) == "team"
    assert workload_fields.queue(workload(spec={}, status={})) == ""


def test_events_are_in_the_order_of_their_times() -> None:
    """Some events carry fractions of a second and others do not; their ages never go back and forth."""
    whole = {"metadata": {}, "lastTimestamp": "2026-01-01T00:00:01Z"}
    finer = {"metadata": {}, "eventTime": "2026-01-01T00:00:01.500000Z"}
    later = {"metadata": {}, "lastTimestamp": "2026-01-01T00:00:02Z"}
    assert sorted([later, finer, whole], key=event_order) == [whole, finer, later]
