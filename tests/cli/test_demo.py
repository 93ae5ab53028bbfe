"""``kaiwo demo``: the story it tells, and that it leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from kaiwo.cli.demo import remains
from kaiwo.cli.demo.story import CHAPTERS, JOBS, JOINING_NODE, NODES, Story

KAIWO = [sys.executable, "-c", "from kaiwo.cli.main import main; main()"]


def _object(name: str, status: str, reason: str = "", message: str = "") -> dict[str, object]:
    return {"metadata": {"name": name}, "status": {"status": status, "reason": reason, "message": message}}


ENDS = {
    "train": _object("train", "COMPLETE"),
    "sixteen-gpus": _object("sixteen-gpus", "ERROR", "InsufficientGPUs", "asked 16, largest node 8"),
    "exits-3": _object("exits-3", "FAILED", "BackoffLimitExceeded", "exit code 3"),
    "image-typo": _object("image-typo", "STARTING", "ImagePullBackOff", "Back-off pulling image"),
    "needs-nvidia": _object("needs-nvidia", "COMPLETE"),
}
FIRST_ACT = [each for name, each in ENDS.items() if name != "needs-nvidia"]


def test_every_chapter_is_a_file_that_names_its_workload() -> None:
    """What is submitted is exactly what the story speaks of."""
    names = [yaml.safe_load(path.read_text())["metadata"]["name"] for path in sorted(JOBS.glob("*.yaml"))]
    assert names == [chapter.name for chapter in CHAPTERS]


def test_the_nodes_of_the_first_act_have_no_nvidia_gpus() -> None:
    """The vendor that one job waits for comes with the joining node only."""
    first = [node["status"]["capacity"] for node in yaml.safe_load_all(NODES.read_text())]
    joining = yaml.safe_load(JOINING_NODE.read_text())["status"]["capacity"]
    assert not any("nvidia.com/gpu" in capacity for capacity in first)
    assert joining["nvidia.com/gpu"] == "8"


def test_the_node_joins_only_after_its_job_was_seen_refused() -> None:
    """Without the refusal on the screen the healing would show nothing."""
    story = Story()
    story.see(FIRST_ACT)
    assert not story.node_may_join()
    story.see([*FIRST_ACT, _object("needs-nvidia", "ERROR", "NoGPUs", "no node has NVIDIA GPUs")])
    assert story.node_may_join()
    assert not story.over()


def test_a_job_that_never_waited_is_not_the_story() -> None:
    """COMPLETE without the refusal before it does not count for the job that has to heal."""
    story = Story()
    story.see(ENDS.values())
    assert not story.over()


def test_the_story_is_over_when_every_workload_has_its_end() -> None:
    """All five ends, the last one after the node has joined."""
    story = Story()
    story.see([*FIRST_ACT, _object("needs-nvidia", "ERROR", "NoGPUs", "")])
    story.node_joined = True
    assert [chapter.name for chapter in story.see(ENDS.values())] == ["needs-nvidia"]
    assert story.over()


@pytest.mark.parametrize("name", [chapter.name for chapter in CHAPTERS])
def test_another_end_is_not_as_told(name: str) -> None:
    """A workload with no status, or still pending, keeps the story open."""
    story = Story()
    story.see([_object("needs-nvidia", "ERROR")])
    story.node_joined = True
    story.see([*(each for other, each in ENDS.items() if other != name), _object(name, "PENDING")])
    assert not story.over()
    assert [chapter.name for chapter in CHAPTERS if not story.as_told(chapter)] == [name]


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
    assert "no container really runs" in " ".join(ended.stdout.split())
    for chapter in CHAPTERS:
        assert f"✔ {chapter.name:<13} {chapter.lesson}" in ended.stdout
    for status in ("RUNNING", "COMPLETE", "ERROR", "FAILED", "ImagePullBackOff", "adds a node"):
        assert status in ended.stdout
    assert _started_below(tmp_path) == []
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.cluster
def test_an_interrupted_demo_leaves_nothing(tmp_path: Path) -> None:
    """SIGTERM in the middle ends it with 130 and everything is removed."""
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        [*KAIWO, "demo"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
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
        kept = kaiwo("demo", "--keep")
        assert kept.returncode == 0, kept.stdout + kept.stderr
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
