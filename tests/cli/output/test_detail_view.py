"""The page of ``kaiwo status`` shows what a cluster says, and obeys none of it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from kaiwo.cli.options import GlobalOptions
from kaiwo.cli.output.detail_view import write_details
from kaiwo.cli.workload_details import WorkloadDetails

if TYPE_CHECKING:
    import pytest

HOSTILE = "\x1b]0;owned\x07\x9b31m\u202e"
NOW = datetime(2026, 1, 31, 12, 0, 0, tzinfo=UTC)


def workload(**status: Any) -> dict[str, Any]:
    """A live job with a status."""
    return {
        "apiVersion": "kaiwo.silogen.ai/v1alpha1",
        "kind": "KaiwoJob",
        "metadata": {"name": "train", "namespace": "team", "uid": "u"},
        "spec": {"user": f"jane{HOSTILE}"},
        "status": status,
    }


def page(obj: dict[str, Any], details: WorkloadDetails, capsys: pytest.CaptureFixture[str]) -> str:
    """What is written about a workload, with all notes."""
    with click.Context(click.Command("status"), obj=GlobalOptions()):
        write_details(obj, details, NOW)
    captured = capsys.readouterr()
    return captured.out + captured.err


def test_no_text_of_a_cluster_reaches_the_terminal_unescaped(capsys: pytest.CaptureFixture[str]) -> None:
    """Statuses, reasons, messages, conditions, objects, pods and events may all be written by others."""
    hostile = f"Word{HOSTILE}"
    container = {"name": "c", "state": {"waiting": {"reason": hostile, "message": hostile}}}
    details = WorkloadDetails(
        objects=[{"kind": hostile, "metadata": {"name": hostile}, "status": {"phase": hostile}}],
        pods=[{"metadata": {"name": hostile}, "spec": {}, "status": {"containerStatuses": [container]}}],
        events=[{"metadata": {}, "reason": hostile, "message": hostile, "type": hostile}],
        missing=[hostile],
    )
    condition = {"type": hostile, "status": hostile, "reason": hostile, "message": hostile}
    obj = workload(
        status=hostile,
        reason=hostile,
        message=hostile,
        conditions=[condition],
        startTime="2026-01-31T11:00:00Z",
    )
    text = page(obj, details, capsys)
    assert all(char.isprintable() for char in text.replace("\n", ""))
    assert "Word" in text


def test_a_reason_that_is_no_word_is_dropped(capsys: pytest.CaptureFixture[str]) -> None:
    """A reason is a CamelCase word; anything else is not one of Kubernetes' and is left out."""
    events = [
        {"metadata": {}, "reason": "BackOff", "message": "first", "type": "Warning"},
        {"metadata": {}, "reason": "Back off now", "message": "second", "type": "Warning"},
    ]
    text = page(workload(status="RUNNING", reason="a b"), WorkloadDetails(events=events), capsys)
    assert "Status:    RUNNING\n" in text
    assert "BackOff" in text
    assert "Back off now" not in text


def test_a_workload_without_a_status_has_a_hint_about_the_operator(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The next command shows whether one runs."""
    text = page(workload(), WorkloadDetails(), capsys)
    assert "not yet observed by an operator; is one running? (kaiwo doctor)" in text
