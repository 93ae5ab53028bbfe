"""`kaiwo demo --real-node` shows its workloads in containers that really run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kaiwo_sandbox.demo.scenario import REAL

if TYPE_CHECKING:
    from collections.abc import Mapping

KAIWO = str(Path(sys.executable).with_name("kaiwo"))


def run(*arguments: str, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run `kaiwo` to its end."""
    return subprocess.run(
        [KAIWO, *arguments], env=environment, capture_output=True, text=True, check=False, timeout=240
    )


def test_the_demo_on_a_real_node_shows_every_workload(tmp_path: Path) -> None:
    """With the exit code of a real process, a real pull error and a service behind its readiness probe."""
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
    try:
        ended = run("demo", "--real-node", "--keep", environment=environment)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        for workload in REAL.workloads:
            assert f"✔ {workload.name:<13} {workload.lesson}" in ended.stdout
        for text in ("exited with code 3", "it does not exist there", "of 1 pods run, not all are ready"):
            assert text in ended.stdout
        config = ended.stdout.partition("export KUBECONFIG=")[2].split()[0]
        shown = run("status", "chat", environment=environment | {"KUBECONFIG": config})
        assert "READY" in shown.stdout
        assert "real-1" in shown.stdout
    finally:
        stopped = run("demo", "--stop", environment=environment)
    assert stopped.returncode == 0, stopped.stderr
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
