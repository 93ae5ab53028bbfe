"""The page of ``kaiwo why``: the verdict stands first, and a cluster's text cannot change a terminal."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from datetime import UTC, datetime
from os import terminal_size
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec
import pytest

from kaiwo.cli.options import GlobalOptions
from kaiwo.cli.output.verdict_page import write_verdict
from kaiwo.client.why import Verdict, judge
from kaiwo.plugin.diagnosis import ChainLink, QueueExplanation
from kaiwo.plugin.observation import Finding
from kaiwo.testing.golden import assert_golden
from kaiwo.workload.diagnosis.model import DiagnosisFacts

if TYPE_CHECKING:
    from collections.abc import Callable

GOLDEN = Path(__file__).parent / "golden"
HOSTILE = "\x1b]0;owned\x07\x9b31m\u202e"
NOW = datetime(2026, 1, 31, 12, 0, 0, tzinfo=UTC)
CREATED = "2026-01-31T11:58:00Z"


def _workload(status: str, reason: str, message: str) -> dict[str, Any]:
    return {
        "kind": "KaiwoJob",
        "metadata": {
            "name": "train", "namespace": "team", "uid": "u", "generation": 1, "creationTimestamp": CREATED,
        },
        "spec": {"clusterQueue": "blue"},
        "status": {
            "status": status, "reason": reason, "message": message, "observedGeneration": 1, "childUID": "j",
        },
    }  # fmt: skip


def _pod(state: dict[str, Any], **more: Any) -> dict[str, Any]:
    container = {"name": "workload", "image": "registry.example/trian:1", "state": state, **more}
    return {
        "kind": "Pod",
        "metadata": {"name": "train-x7k2p", "uid": "p", "creationTimestamp": CREATED},
        "spec": {"nodeName": "node-1"},
        "status": {"phase": "Pending", "containerStatuses": [container]},
    }


CHILD = {"kind": "Job", "metadata": {"name": "train", "uid": "j"}, "spec": {}, "status": {"active": 1}}
LEASE = {
    "kind": "Lease",
    "metadata": {"name": "kaiwo-operator"},
    "spec": {"holderIdentity": "kaiwo-0", "renewTime": "2026-01-31T11:59:59Z"},
}


def _image() -> Verdict:
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "manifest unknown"}}
    event = {
        "reason": "Failed",
        "message": "Failed to pull image: manifest unknown",
        "count": 3,
        "lastTimestamp": "2026-01-31T11:59:40Z",
        "involvedObject": {"uid": "p"},
    }
    workload = _workload("STARTING", "ImagePullBackOff", "image")
    facts = DiagnosisFacts(workload, NOW, CHILD, pods=(_pod(waiting),), events=(event,), lease=LEASE)
    return judge(facts)


def _crash() -> Verdict:
    last = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
    pod = _pod({"waiting": {"reason": "CrashLoopBackOff"}}, restartCount=12, lastState=last)
    logs = {"train-x7k2p/workload": ("loading checkpoint", "step 12000")}
    workload = _workload("STARTING", "CrashLoopBackOff", "crash")
    facts = DiagnosisFacts(workload, NOW, CHILD, pods=(pod,), logs=logs, lease=LEASE)
    return judge(replace(facts, findings=(("xid", Finding("XidError", "GPU 3 fell off the bus")),)))


def _queued() -> Verdict:
    text = "insufficient unused quota for amd.com/gpu in flavor mi300x, 2 more needed"
    links = (
        ChainLink("Workload", "job-train-1a2b3", "waits", text),
        ChainLink("LocalQueue", "blue", "ok", "1 wait, 2 hold quota"),
        ChainLink("ClusterQueue", "blue", "ok", "1 wait, 2 hold quota"),
        ChainLink("ResourceFlavor", "mi300x", "waits", "amd.com/gpu 8 of 8 used"),
        ChainLink("Cohort", "all", "waits", "amd.com/gpu 16 of 16 used (blue 8, red 8)"),
    )
    evidence = ("KaiwoJob team/big holds 8 amd.com/gpu, KaiwoJob team/urgent is ahead: higher priority",)
    queue = QueueExplanation(links, Finding("Pending", text), evidence)
    return judge(DiagnosisFacts(_workload("PENDING", "Pending", text), NOW, CHILD, queue=queue, lease=LEASE))


def _forbidden() -> Verdict:
    workload = _workload("STARTING", "Starting", "no container of Job train runs yet")
    unread = ('pods: pods is forbidden: User "jane" cannot list resource "pods"',)
    return judge(DiagnosisFacts(workload, NOW, CHILD), unread)


PAGES: dict[str, Callable[[], Verdict]] = {
    "image": _image,
    "crash": _crash,
    "queued": _queued,
    "forbidden": _forbidden,
}


def page(verdict: Verdict, capsys: pytest.CaptureFixture[str], **chosen: Any) -> str:
    """What is written about a verdict, notes included."""
    with click.Context(click.Command("why"), obj=GlobalOptions(**chosen)):
        write_verdict(verdict)
    captured = capsys.readouterr()
    return captured.out + captured.err


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_as_it_was_reviewed(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Headline, evidence, next command, other causes, chain; in a pipe one line each."""
    assert_golden(page(PAGES[name](), capsys), GOLDEN / f"why-{name}.txt")


def test_a_quiet_page_has_no_warnings(capsys: pytest.CaptureFixture[str]) -> None:
    """-q leaves errors alone, as in every command."""
    assert "\nwarning: not read: pods" in page(_forbidden(), capsys)
    assert "warning" not in page(_forbidden(), capsys, verbosity=-1)


def test_marks_are_ascii_where_the_terminal_has_no_others(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for kaiwo doctor."""
    monkeypatch.setattr("kaiwo.cli.output.verdict_page.can_show", str.isascii)
    text = page(_image(), capsys)
    assert "\nx ImagePullBackOff" in text
    assert text.isascii()


@pytest.mark.parametrize("width", [40, 80, 200])
def test_a_page_fits_its_terminal(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Long sentences are wrapped between words; only a single long word may be longer than a line."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(shutil, "get_terminal_size", lambda *_, **__: terminal_size((width, 24)))
    text = click.unstyle(page(_queued(), capsys))
    assert max(map(len, text.splitlines())) <= max(width, 50)
    assert "2 more needed" in " ".join(text.split())


def test_no_text_of_a_cluster_reaches_the_terminal_unescaped(capsys: pytest.CaptureFixture[str]) -> None:
    """Names, reasons, messages, events, logs and rules may all be written by others."""
    hostile = f"Word{HOSTILE}"
    waiting = {"waiting": {"reason": "CreateContainerError", "message": hostile}}
    pod = _pod(waiting, lastState={"terminated": {"exitCode": 1, "message": hostile}})
    pod["metadata"]["name"] = hostile
    workload = _workload(hostile, hostile, hostile)
    workload["metadata"] |= {"name": hostile, "namespace": hostile}
    event = {"reason": hostile, "message": hostile, "involvedObject": {"uid": "p"}}
    facts = DiagnosisFacts(
        workload,
        NOW,
        CHILD,
        objects=({"kind": hostile, "metadata": {"name": hostile}, "status": {"phase": hostile}},),
        pods=(pod,),
        events=(event,),
        logs={f"{hostile}/workload": (hostile,)},
        lease={"metadata": {"name": hostile}, "spec": {"holderIdentity": hostile}},
        findings=((hostile, Finding(hostile, hostile)),),
        queue=QueueExplanation((ChainLink(hostile, hostile, "ok", hostile),), Finding(hostile, hostile)),
    )
    text = page(judge(facts, (hostile,)), capsys)
    assert "Word" in text
    assert all(char.isprintable() for char in text.replace("\n", ""))


def test_the_data_are_those_of_the_documentation() -> None:
    """The names of fields are an interface: ``-o json`` of a command that scripts read."""
    data = msgspec.to_builtins(_crash())
    assert list(data) == [
        "kind", "namespace", "name", "status", "reason", "code", "message", "state", "object", "evidence",
        "command", "rule", "others", "chain", "unread",
    ]  # fmt: skip
    assert [*data["others"][0]] == ["code", "message", "state", "object", "evidence", "command", "rule"]
    assert [*data["chain"][0]] == ["kind", "name", "state", "message"]
    assert msgspec.json.decode(msgspec.json.encode(_crash()), type=Verdict) == _crash()


def test_a_message_that_is_its_code_is_written_once(capsys: pytest.CaptureFixture[str]) -> None:
    """A download whose progress is not known has no other words than its reason."""
    facts = DiagnosisFacts(_workload("PENDING", "Downloading", "Downloading"), NOW, lease=LEASE)
    with click.Context(click.Command("why"), obj=GlobalOptions()):
        write_verdict(judge(facts))
    printed = capsys.readouterr().out
    assert "Downloading\n" in printed
    assert "Downloading: Downloading" not in printed
