"""``kaiwo demo``: the story it tells, and that it leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.text import Text

from kaiwo.cli.demo import remains, stores
from kaiwo.cli.demo.board import _fit
from kaiwo.cli.demo.script import BARE, FETCHING, JOINING_NODE, NODES, QUEUES, WHOLE, Script
from kaiwo.cli.demo.story import DemoRun

KAIWO = [sys.executable, "-c", "from kaiwo.cli.main import main; main()"]
SCRIPTS = pytest.mark.parametrize("script", [BARE, WHOLE, FETCHING], ids=["bare", "whole", "fetching"])


def _object(
    name: str, status: str, reason: str = "", message: str = "", started: str = ""
) -> dict[str, object]:
    said = {"status": status, "reason": reason, "message": message, "startTime": started}
    return {"metadata": {"name": name}, "status": said}


def _time(second: int) -> str:
    return f"2026-01-01T00:00:{second:02d}Z"


ENDS = {
    "train": _object("train", "COMPLETE"),
    "sixteen-gpus": _object("sixteen-gpus", "ERROR", "InsufficientGPUs", "asked 16, largest node 8"),
    "exits-3": _object("exits-3", "FAILED", "BackoffLimitExceeded", "exit code 3"),
    "image-typo": _object("image-typo", "STARTING", "ImagePullBackOff", "Back-off pulling image"),
    "chat": _object("chat", "READY"),
    "ray-train": _object("ray-train", "COMPLETE", started=_time(5)),
    "urgent": _object("urgent", "COMPLETE", started=_time(20)),
    "patient": _object("patient", "COMPLETE", started=_time(30)),
    "needs-nvidia": _object("needs-nvidia", "COMPLETE"),
    "with-data": _object("with-data", "COMPLETE"),
}
WAITS = {
    "urgent": _object("urgent", "PENDING", "Pending", "insufficient unused quota for amd.com/gpu"),
    "patient": _object("patient", "PENDING", "Pending", "insufficient unused quota for amd.com/gpu"),
    "needs-nvidia": _object("needs-nvidia", "ERROR", "NoGPUs", "no node has NVIDIA GPUs"),
    "with-data": _object("with-data", "PENDING", "Downloading", "Downloading"),
}
WAITING = [*(each for name, each in ENDS.items() if name not in WAITS), *WAITS.values()]


def _files(script: Script) -> list[dict[str, Any]]:
    directories = [*script.files, *(each for each in (script.later, script.downloads) if each)]
    return [
        yaml.safe_load(path.read_text())
        for directory in directories
        for path in sorted(directory.glob("*.yaml"))
    ]


@SCRIPTS
def test_every_chapter_is_a_file_that_names_its_workload(script: Script) -> None:
    """What is submitted is exactly what the story speaks of."""
    names = [file["metadata"]["name"] for file in _files(script)]
    assert sorted(names) == sorted(chapter.name for chapter in script.chapters)


def test_the_nodes_of_the_first_act_have_no_nvidia_gpus() -> None:
    """The vendor that one job waits for comes with the joining node only."""
    first = [node["status"]["capacity"] for node in yaml.safe_load_all(NODES.read_text())]
    joining = yaml.safe_load(JOINING_NODE.read_text())["status"]["capacity"]
    assert not any("nvidia.com/gpu" in capacity for capacity in first)
    assert joining["nvidia.com/gpu"] == "8"


def test_the_queues_make_the_rivals_wait_and_no_longer_than_told() -> None:
    """The one that runs first must borrow; nobody else fits beside it, and each fits after the other."""
    quota = {
        queue["name"]: sum(
            int(resource["nominalQuota"])
            for group in queue["spec"]["resourceGroups"]
            for flavor in group["flavors"]
            for resource in flavor["resources"]
            if resource["name"] == "amd.com/gpu"
        )
        for queue in yaml.safe_load(QUEUES.read_text())["spec"]["clusterQueues"]
    }
    asked = {file["metadata"]["name"]: file["spec"]["gpus"] for file in _files(FETCHING)}
    stay = asked["chat"] + asked["image-typo"]
    there = sum(
        int(n["status"]["capacity"].get("amd.com/gpu", 0)) for n in yaml.safe_load_all(NODES.read_text())
    )
    assert sum(quota.values()) == there
    short = asked["train"] + asked["exits-3"] + asked["with-data"]
    assert quota["research"] < asked["ray-train"] <= there - stay - short
    for rival in ("urgent", "patient"):
        assert asked["ray-train"] + asked[rival] > there - stay
        assert asked[rival] <= there - stay
    assert asked["urgent"] + asked["patient"] > there - stay


def test_the_node_joins_only_after_its_job_was_seen_refused() -> None:
    """Without the refusal on the screen the healing would show nothing."""
    story = DemoRun(WHOLE)
    story.see([each for each in WAITING if each is not WAITS["needs-nvidia"]])
    assert not story.node_may_join()
    story.see(WAITING)
    assert story.node_may_join()
    assert not story.over()


def test_the_rivals_come_when_the_first_has_passed_its_queue() -> None:
    """If they came earlier, one of them could get the GPUs first."""
    story = DemoRun(WHOLE)
    assert not story.rivals_may_come()
    story.see([_object("ray-train", "PENDING")])
    assert not story.rivals_may_come()
    story.see([_object("ray-train", "STARTING")])
    assert story.rivals_may_come()
    story.rivals_came = True
    assert not story.rivals_may_come()
    assert DemoRun(BARE).rivals_came


@pytest.mark.parametrize("name", WAITS)
def test_a_job_that_never_waited_is_not_the_story(name: str) -> None:
    """COMPLETE without the waiting before it does not count for a job that has to wait."""
    story = DemoRun(FETCHING)
    story.see([each for each in WAITING if each is not WAITS[name]])
    story.see(ENDS.values())
    [chapter] = [chapter for chapter in FETCHING.chapters if not story.as_told(chapter)]
    assert chapter.name == name
    assert chapter.first is not None
    assert f"should have been {chapter.first.status} first" in story.missing(chapter)


def test_priority_that_did_not_count_is_not_the_story() -> None:
    """Both rivals waited and completed, but in the wrong order."""
    story = DemoRun(WHOLE)
    story.see(WAITING)
    story.see({**ENDS, "patient": _object("patient", "COMPLETE", started=_time(10))}.values())
    [chapter] = [chapter for chapter in WHOLE.chapters if not story.as_told(chapter)]
    assert chapter.name == "patient"
    assert "should have started after urgent" in story.missing(chapter)


@SCRIPTS
def test_the_story_is_over_when_every_workload_has_its_end(script: Script) -> None:
    """All ends, those of the waiting ones after they were seen waiting."""
    story = DemoRun(script)
    story.see(WAITING)
    waited = {chapter.name for chapter in script.chapters if chapter.name in WAITS}
    assert {chapter.name for chapter in story.see(ENDS.values())} == waited
    assert story.over()


@pytest.mark.parametrize("name", [chapter.name for chapter in WHOLE.chapters])
def test_another_end_is_not_as_told(name: str) -> None:
    """A workload with no status, or still starting, keeps the story open and is named with what it is."""
    story = DemoRun(WHOLE)
    story.see(WAITING)
    late = _object(name, "STARTING", "Starting", "soon", str(ENDS[name]["status"]["startTime"]))  # type: ignore[index]  # an object of this file
    story.see({**ENDS, name: late}.values())
    assert not story.over()
    [chapter] = [chapter for chapter in WHOLE.chapters if not story.as_told(chapter)]
    assert chapter.name == name
    assert "STARTING, Starting, soon" in story.missing(chapter)


def test_a_small_screen_shortens_the_longest_reasons() -> None:
    """Every workload keeps a line, and what was cut shows it."""
    reasons = [[Text(f"line {number}") for number in range(length)] for length in (1, 5, 2)]
    _fit(reasons, 5)
    assert [len(reason) for reason in reasons] == [1, 2, 2]
    assert reasons[1][-1].plain.endswith("…")
    assert reasons[2][-1].plain == "line 1"
    _fit(reasons, 1)
    assert [len(reason) for reason in reasons] == [1, 1, 1]


def test_stop_ends_only_the_process_that_was_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pid that the kernel gave to another process since is left alone."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    remains.directory().mkdir(parents=True)
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        try:
            remains.record(process.pid)
            (remains.directory() / "operator.json").write_text(f'{{"pid": {process.pid}, "started": 1}}')
            assert remains.kept() is None
            assert not remains.stop()
            assert process.poll() is None
            remains.directory().mkdir(parents=True)
            remains.record(process.pid)
            assert remains.kept() == process.pid
            assert remains.stop()
            assert process.wait(10) == -signal.SIGTERM
        finally:
            process.kill()
    assert not remains.directory().exists()


def _started_below(state: Path) -> list[int]:
    """Processes whose environment carries the state directory of one demo: all that it started."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                words = (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if str(state).encode() in words:
                found.append(int(entry.name))
    return found


@pytest.mark.cluster
def test_the_demo_tells_its_story_and_leaves_nothing(tmp_path: Path) -> None:
    """`kaiwo demo` in a pipe ends with 0, shows every chapter's end, and nothing of it runs afterwards."""
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
    ended = subprocess.run(
        [*KAIWO, "demo"], env=environment, capture_output=True, text=True, check=False, timeout=170
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    words = " ".join(ended.stdout.split())
    assert "no container really runs, nothing is computed" in words
    assert "Kueue, KubeRay and AppWrapper" in words
    script = FETCHING if stores.available() else WHOLE
    assert ("Only the download of one job is real" in words) == (script is FETCHING)
    for chapter in script.chapters:
        assert f"✔ {chapter.name:<13} {chapter.lesson}" in ended.stdout
    seen = ("RUNNING", "COMPLETE", "ERROR", "FAILED", "READY", "ImagePullBackOff", "adds a node")
    for said in (*seen, "insufficient unused quota for amd.com/gpu"):
        assert said in ended.stdout
    assert _started_below(tmp_path) == []
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.cluster
def test_an_interrupted_demo_leaves_nothing(tmp_path: Path) -> None:
    """SIGTERM in the middle ends it with 130 and everything is removed."""
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        [*KAIWO, "demo", "--bare"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("✔"):
                process.send_signal(signal.SIGTERM)
                break
        _, errors = process.communicate(timeout=120)
    assert process.returncode == 130, errors
    assert _started_below(tmp_path) == []
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.cluster
def test_what_is_kept_can_be_used_and_ended(tmp_path: Path) -> None:
    """After --keep the printed commands work, and --stop ends all of it, whatever plugins are selected."""
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}

    def kaiwo(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*KAIWO, *arguments],
            env=environment | more,
            capture_output=True,
            text=True,
            check=False,
            timeout=170,
        )

    try:
        kept = kaiwo("demo", "--bare", "--keep")
        assert kept.returncode == 0, kept.stdout + kept.stderr
        assert "Kueue" not in kept.stdout
        kubeconfig = kept.stdout.partition("export KUBECONFIG=")[2].split()[0]
        shown = kaiwo("status", "sixteen-gpus", KUBECONFIG=kubeconfig)
        assert shown.returncode == 0, shown.stderr
        assert "nearest that fits: 8" in shown.stdout
        again = kaiwo("demo")
        assert again.returncode == 1
        assert "kaiwo demo --stop" in again.stderr
    finally:
        stopped = kaiwo("demo", "--stop", KAIWO_PLUGINS="batch_job")
    assert stopped.returncode == 0, stopped.stderr
    assert _started_below(tmp_path) == []
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
