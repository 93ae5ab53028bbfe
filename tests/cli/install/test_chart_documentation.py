"""The commands with Helm in docs/install.md work as they are written."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from charts.generate.switches import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.cluster

NAMESPACE = "kaiwo-system"


def helm_commands() -> list[str]:
    """All commands with Helm of the page, in their order."""
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```console\n(.*?)```", page, re.DOTALL)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    return [line.removeprefix("$ ") for line in lines if line.startswith("$ helm ")]


@pytest.fixture
def kaiwo_system(control_plane: Any) -> Iterator[str]:
    """The namespace of the documentation, removed after the test."""
    yield NAMESPACE
    control_plane.delete_namespace(NAMESPACE)


def test_the_documented_commands_install_upgrade_and_remove(
    helm: Path, control_plane: Any, home: Path, kaiwo_system: str
) -> None:
    """Word by word, from the top of the repository; the definitions of other tests are taken over."""
    commands = helm_commands()
    assert [command.split()[1] for command in commands] == ["install", "upgrade", "rollback", "uninstall"]
    env = {
        "HOME": str(home),
        "KUBECONFIG": str(control_plane.kubeconfig),
        "PATH": f"{helm.parent}{os.pathsep}{os.environ['PATH']}",
    }
    versions = []
    for command in commands:
        words = shlex.split(command)
        if words[1] == "install":
            words += ["--take-ownership", "--force-conflicts"]
        done = subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        if words[1] != "uninstall":
            path = f"/apis/apps/v1/namespaces/{kaiwo_system}/deployments/kaiwo-operator"
            (container,) = control_plane.api.get(path)["spec"]["template"]["spec"]["containers"]
            versions.append((container["image"], next(e["value"] for e in container["env"])))
    installed, upgraded, rolled_back = versions
    assert installed == rolled_back
    assert installed[0] == upgraded[0] == "registry.example.com/ml/kaiwo-operator:0.1.0"
    assert "kueue" in upgraded[1]
    assert "kueue" not in installed[1]
