"""`kaiwo demo` shows what it promises and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner
from packaging.requirements import Requirement
from rich.text import Text

from kaiwo.cli import kit
from kaiwo_sandbox.demo import download_servers
from kaiwo_sandbox.demo.command import _require_plugins, _scenario, demo
from kaiwo_sandbox.demo.display import shorten
from kaiwo_sandbox.demo.scenario import (
    BARE,
    FULL,
    FULL_WITH_DOWNLOADS,
    JOINING_NODE,
    NODES,
    QUEUES,
    REAL,
    Scenario,
)
from kaiwo_sandbox.demo.scenario_run import ScenarioRun
from kaiwo_sandbox.demo.texts import explanations
from kaiwo_sandbox.real_node import requirements
from kaiwo_sandbox.real_node.node import GPUS

KAIWO = str(Path(sys.executable).with_name("kaiwo"))
SCENARIOS = pytest.mark.parametrize(
    "scenario", [BARE, FULL, FULL_WITH_DOWNLOADS, REAL], ids=["bare", "full", "downloads", "real"]
)


def _object(name: str, word: str, reason: str = "", message: str = "", started: str = "") -> dict[str, Any]:
    status = {"status": word, "reason": reason, "message": message, "startTime": started}
    return {"metadata": {"name": name}, "status": status}


def _time(second: int) -> str:
    return f"2026-01-01T00:00:{second:02d}Z"


ENDS = {
    "train": _object("train", "COMPLETE"),
    "sixteen-gpus": _object("sixteen-gpus", "ERROR", "InsufficientGPUs", "requested 16, largest node 8"),
    "exits-3": _object("exits-3", "FAILED", "BackoffLimitExceeded", "exit code 3"),
    "image-typo": _object("image-typo", "STARTING", "ImagePullBackOff", "Back-off pulling image"),
    "chat": _object("chat", "READY"),
    "ray-train": _object("ray-train", "COMPLETE", started=_time(5)),
    "finetune": _object("finetune", "COMPLETE", started=_time(5)),
    "urgent": _object("urgent", "COMPLETE", started=_time(20)),
    "patient": _object("patient", "COMPLETE", started=_time(30)),
    "needs-nvidia": _object("needs-nvidia", "COMPLETE"),
    "with-data": _object("with-data", "COMPLETE"),
    "plain-job": _object("plain-job", "COMPLETE"),
    "overdue": _object("overdue", "TERMINATED", "DurationExceeded", started=_time(4)),
    "deadline": _object("deadline", "COMPLETE", started=_time(15)),
}
WAITS = {
    "urgent": _object("urgent", "PENDING", "Pending", "insufficient unused quota for amd.com/gpu"),
    "patient": _object("patient", "PENDING", "Pending", "insufficient unused quota for amd.com/gpu"),
    "needs-nvidia": _object("needs-nvidia", "ERROR", "NoGPUs", "no node has NVIDIA GPUs"),
    "with-data": _object("with-data", "PENDING", "Downloading", "Downloading"),
    "overdue": _object("overdue", "RUNNING", started=_time(4)),
    "deadline": _object("deadline", "PENDING", "Pending", "insufficient unused quota for amd.com/gpu"),
}
"""Those that are observed in another status first."""

VERDICTS = {
    "sixteen-gpus": "✘ GPUsExceedNode: ",
    "exits-3": "✘ ExitCode: container workload of pod exits-3-",
    "image-typo": "✘ ImagePullBackOff: ",
}
"""What `kaiwo why` says of the workloads in trouble at the end."""

WAITING = [*(each for name, each in ENDS.items() if name not in WAITS), *WAITS.values()]


def _files(scenario: Scenario) -> list[dict[str, Any]]:
    more = (scenario.competing, scenario.downloads, scenario.plain)
    directories = [*scenario.files, *(each for each in more if each)]
    return [
        yaml.safe_load(path.read_text())
        for directory in directories
        for path in sorted(directory.glob("*.yaml"))
    ]


def _requested(scenario: Scenario) -> dict[str, int]:
    """The GPUs of each workload, by name."""
    found = {}
    for file in _files(scenario):
        spec = file["spec"]
        if file["kind"] == "Job":
            [container] = spec["template"]["spec"]["containers"]
            found[file["metadata"]["name"]] = container["resources"]["limits"]["amd.com/gpu"]
        else:
            found[file["metadata"]["name"]] = spec["gpus"]
    return found


@SCENARIOS
def test_every_workload_is_a_file_of_that_name(scenario: Scenario) -> None:
    """What is submitted is exactly what the table shows."""
    names = [file["metadata"]["name"] for file in _files(scenario)]
    assert sorted(names) == sorted(workload.name for workload in scenario.workloads)


def test_only_the_joining_node_has_nvidia_gpus() -> None:
    """One job waits for that vendor."""
    first = [node["status"]["capacity"] for node in yaml.safe_load_all(NODES.read_text())]
    joining = yaml.safe_load(JOINING_NODE.read_text())["status"]["capacity"]
    assert not any("nvidia.com/gpu" in capacity for capacity in first)
    assert joining["nvidia.com/gpu"] == "8"


def _quota(file: Path) -> dict[str, int]:
    """The AMD GPUs of each queue."""
    return {
        queue["name"]: sum(
            int(resource["nominalQuota"])
            for group in queue["spec"]["resourceGroups"]
            for flavor in group["flavors"]
            for resource in flavor["resources"]
            if resource["name"] == "amd.com/gpu"
        )
        for queue in yaml.safe_load(file.read_text())["spec"]["clusterQueues"]
    }


def _amd_gpus(file: Path) -> int:
    """The AMD GPUs of the nodes in a file."""
    nodes = yaml.safe_load_all(file.read_text())
    return sum(int(node["status"]["capacity"].get("amd.com/gpu", 0)) for node in nodes)


@pytest.mark.parametrize(
    ("scenario", "there"),
    [pytest.param(FULL_WITH_DOWNLOADS, _amd_gpus(NODES), id="full"), pytest.param(REAL, GPUS, id="real")],
)
def test_the_queues_make_the_competing_jobs_wait_for_each_other(scenario: Scenario, there: int) -> None:
    """The first job must borrow; no other fits beside it, and each fits after the other."""
    assert scenario.queues is not None
    quota = _quota(scenario.queues)
    requested = _requested(scenario)
    stay = requested["chat"] + requested["image-typo"]
    assert sum(quota.values()) == there
    assert quota["research"] < requested[scenario.holder] <= there - stay
    for name in ("urgent", "patient"):
        assert requested[scenario.holder] + requested[name] > there - stay
        assert requested[name] <= there - stay
    assert requested["urgent"] + requested["patient"] > there - stay


def test_the_first_job_fits_beside_the_short_ones() -> None:
    """It holds its GPUs before the competing jobs are submitted."""
    requested = _requested(FULL_WITH_DOWNLOADS)
    beside = ("chat", "image-typo", "train", "exits-3", "with-data", "plain-job", "overdue")
    assert requested["ray-train"] <= _amd_gpus(NODES) - sum(requested[name] for name in beside)


def test_one_job_has_to_be_ended_for_another() -> None:
    """They are in a queue of their own that has room for one of them."""
    pair = [file for file in _files(FULL) if file["spec"].get("clusterQueue") == "evaluation"]
    assert {file["metadata"]["name"] for file in pair} == {"overdue", "deadline"}
    assert [file["spec"]["gpus"] for file in pair] == [1, 1]
    assert _quota(QUEUES)["evaluation"] == 1


def test_a_real_node_is_no_bare_demo() -> None:
    """The demo on a real node shows queues."""
    ended = subprocess.run(
        [KAIWO, "demo", "--bare", "--real-node"], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 2
    assert "--bare and --real-node" in ended.stderr


def test_missing_programs_of_the_real_node_are_named_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With the command that installs them."""
    monkeypatch.setattr(requirements.os, "geteuid", lambda: 0)
    monkeypatch.setattr(requirements, "find", lambda name: None if name == "runc" else f"/bin/{name}")
    ended = CliRunner().invoke(demo, ["--real-node"], standalone_mode=False)
    assert isinstance(ended.exception, kit.Failure)
    assert "not installed: runc" in str(ended.exception)
    assert "apt-get install --no-install-recommends runc" in ended.exception.next_step
    assert ended.output == ""


def test_the_node_joins_only_after_its_job_was_observed_in_error() -> None:
    """Without the error on the screen, the recovery would show nothing."""
    run = ScenarioRun(FULL)
    run.observe([each for each in WAITING if each is not WAITS["needs-nvidia"]])
    assert not run.node_may_join()
    run.observe(WAITING)
    assert run.node_may_join()
    assert not run.finished()


def test_the_competing_jobs_are_submitted_when_the_first_has_left_its_queue() -> None:
    """Earlier, one of them could get the GPUs first."""
    run = ScenarioRun(FULL)
    assert not run.competing_may_be_submitted()
    run.observe([_object("ray-train", "PENDING")])
    assert not run.competing_may_be_submitted()
    run.observe([_object("ray-train", "STARTING")])
    assert run.competing_may_be_submitted()
    run.competing_submitted = True
    assert not run.competing_may_be_submitted()
    assert ScenarioRun(BARE).competing_submitted


@pytest.mark.parametrize("name", WAITS)
def test_a_job_that_never_waited_is_not_done(name: str) -> None:
    """The end alone does not count for a job that has to wait, or to run first."""
    run = ScenarioRun(FULL_WITH_DOWNLOADS)
    run.observe([each for each in WAITING if each is not WAITS[name]])
    run.observe(ENDS.values())
    [workload] = [workload for workload in FULL_WITH_DOWNLOADS.workloads if not run.is_done(workload)]
    assert workload.name == name
    assert workload.earlier is not None
    assert f"expected {workload.earlier.status} before {workload.final.status}" in run.mismatch(workload)


def test_a_priority_without_effect_is_not_done() -> None:
    """Both jobs waited and completed, but in the wrong order."""
    run = ScenarioRun(FULL)
    run.observe(WAITING)
    run.observe({**ENDS, "patient": _object("patient", "COMPLETE", started=_time(10))}.values())
    [workload] = [workload for workload in FULL.workloads if not run.is_done(workload)]
    assert workload.name == "patient"
    assert "expected a start after urgent" in run.mismatch(workload)


@SCENARIOS
def test_three_workloads_end_in_trouble_and_are_explained(scenario: Scenario) -> None:
    """The demo ends with `kaiwo why` on each of them; the others end as the table says."""
    troubled = {workload.name for workload in scenario.workloads if workload.in_trouble}
    assert troubled == VERDICTS.keys()
    for workload in scenario.workloads:
        well = workload.final.status in ("COMPLETE", "READY", "TERMINATED")
        assert well != workload.in_trouble


def test_an_explanation_stands_below_its_command() -> None:
    """As if the reader had typed it."""
    lines = explanations({"train": "job/train\n\nverdict\n"})
    assert lines[-4:] == ["$ kaiwo why train", "job/train", "", "verdict"]


@SCENARIOS
def test_the_demo_is_finished_when_every_workload_is_done(scenario: Scenario) -> None:
    """All have their final status, and those that wait were observed waiting."""
    run = ScenarioRun(scenario)
    run.observe(WAITING)
    waited = {workload.name for workload in scenario.workloads if workload.name in WAITS}
    assert {workload.name for workload in run.observe(ENDS.values())} == waited
    assert run.finished()


@pytest.mark.parametrize("name", [workload.name for workload in FULL.workloads])
def test_another_status_is_reported(name: str) -> None:
    """A workload that still starts keeps the demo running, and the mismatch contains its status."""
    run = ScenarioRun(FULL)
    run.observe(WAITING)
    starting = _object(name, "STARTING", "Starting", "soon", str(ENDS[name]["status"]["startTime"]))
    run.observe({**ENDS, name: starting}.values())
    assert not run.finished()
    [workload] = [workload for workload in FULL.workloads if not run.is_done(workload)]
    assert workload.name == name
    assert "STARTING, Starting, soon" in run.mismatch(workload)


def test_a_small_screen_shortens_the_longest_reasons() -> None:
    """Every workload keeps a line, and a cut is marked."""
    reasons = [[Text(f"line {number}") for number in range(length)] for length in (1, 5, 2)]
    shorten(reasons, 5)
    assert [len(reason) for reason in reasons] == [1, 2, 2]
    assert reasons[1][-1].plain.endswith("…")
    assert reasons[2][-1].plain == "line 1"
    shorten(reasons, 1)
    assert [len(reason) for reason in reasons] == [1, 1, 1]


@pytest.mark.parametrize(("disabled", "listed"), [("", True), ("sandbox", False)])
def test_the_command_belongs_to_the_plugin(disabled: str, listed: bool) -> None:
    """Without the sandbox plugin, `kaiwo --help` does not list the demo."""
    environment = {**os.environ, "KAIWO_PLUGINS_DISABLED": disabled}
    shown = subprocess.run([KAIWO, "--help"], env=environment, capture_output=True, text=True, check=True)
    assert ("  demo " in shown.stdout) == listed


def test_missing_plugins_are_reported_with_the_command_that_installs_them() -> None:
    """The demo needs the plugins of its workloads, and does not start without them."""
    _require_plugins(BARE)
    with pytest.raises(kit.Failure, match="plugins not installed: tpu, volcano") as failure:
        _require_plugins(replace(BARE, plugins=("batch_job", "tpu", "volcano")))
    assert "kaiwo-sandbox[demo]" in failure.value.next_step


def test_without_go_and_a_module_proxy_the_demo_runs_without_addons(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says why, and what to set; with a proxy, it is the whole demo."""
    del home
    monkeypatch.delenv("KAIWO_SANDBOX_IMAGES")
    monkeypatch.setenv("PATH", "/nonexistent")
    with click.Context(demo, obj=kit.GlobalOptions()):
        assert _scenario(bare=False, real_node=False) is BARE
        shown = capsys.readouterr().err
        assert "without kueue, kuberay, appwrapper: no Go module proxy is known" in shown
        assert "hint: set GOPROXY" in shown
        monkeypatch.setenv("GOPROXY", "https://modules.test")
        assert _scenario(bare=False, real_node=False).addons == FULL.addons
        assert capsys.readouterr().err == ""


def test_the_extra_installs_the_plugins_of_the_demo() -> None:
    """`pip install "kaiwo-sandbox[demo]"` is enough for every scenario."""
    installed = _distributions(Path(__file__).parents[1], "demo")
    assert installed >= {f"kaiwo-{name.replace('_', '-')}" for name in FULL_WITH_DOWNLOADS.plugins}


def _distributions(project: Path, extra: str) -> set[str]:
    """What an extra of a project installs, also through extras of the host."""
    found: set[str] = set()
    declared = tomllib.loads((project / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for requirement in map(Requirement, declared[extra]):
        found.add(requirement.name)
        if requirement.name == "kaiwo":
            found.update(*(_distributions(Path(__file__).parents[3], one) for one in requirement.extras))
    return found


def _left_below(state: Path) -> list[int]:
    """The processes of one demo that still run ten seconds later: its watchdog ends a moment after it."""
    deadline = time.monotonic() + 10
    while (found := _started_below(state)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return found


def _started_below(state: Path) -> list[int]:
    """Processes with the state directory of one demo in their environment or arguments."""
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
def test_the_demo_shows_every_workload_and_leaves_nothing(tmp_path: Path) -> None:
    """`kaiwo demo` in a pipe exits with 0, shows every workload, and nothing runs or stays afterwards."""
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
    ended = subprocess.run(
        [KAIWO, "demo"], env=environment, capture_output=True, text=True, check=False, timeout=170
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    words = " ".join(ended.stdout.split())
    assert "No container runs, nothing is computed" in words
    assert "Kueue, KubeRay and AppWrapper" in words
    scenario = FULL_WITH_DOWNLOADS if download_servers.available() else FULL
    assert ("Only the download of one job is real" in words) == (scenario is FULL_WITH_DOWNLOADS)
    for workload in scenario.workloads:
        assert f"✔ {workload.name:<13} {workload.lesson}" in ended.stdout
    seen = ("RUNNING", "COMPLETE", "ERROR", "FAILED", "READY", "ImagePullBackOff", "adds a node")
    for text in (*seen, "insufficient unused quota for amd.com/gpu"):
        assert text in ended.stdout
    for name, verdict in VERDICTS.items():
        assert f"$ kaiwo why {name}\n" in ended.stdout
        assert verdict in ended.stdout.partition(f"$ kaiwo why {name}\n")[2]
    assert _left_below(tmp_path) == []
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.cluster
def test_an_interrupted_demo_leaves_nothing(tmp_path: Path) -> None:
    """SIGTERM during the start ends it with 130, and everything is removed."""
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        [KAIWO, "demo", "--bare"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("✔"):
                process.send_signal(signal.SIGTERM)
                break
        _, errors = process.communicate(timeout=120)
    assert process.returncode == 130, errors
    assert _left_below(tmp_path) == []
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.cluster
def test_a_kept_demo_can_be_used_and_stopped(tmp_path: Path) -> None:
    """After --keep the printed commands work; --stop ends all of it with any selection of other plugins."""
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}

    def kaiwo(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [KAIWO, *arguments],
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
        assert "a previous demo is still running" in again.stderr
        assert "stop it with kaiwo demo --stop" in again.stderr
    finally:
        stopped = kaiwo("demo", "--stop", KAIWO_PLUGINS="sandbox")
    assert stopped.returncode == 0, stopped.stderr
    assert _left_below(tmp_path) == []
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
