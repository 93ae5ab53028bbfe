"""``kaiwo init`` against a real API server: a difference, a question, and nothing the second time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.api.crds import KAIWO_CONFIG
from kaiwo.engine.resource import Resource
from kaiwo_sandbox.api import SandboxApiError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.cluster

QUEUE_CONFIG = Resource("kaiwo.silogen.ai", "v1alpha1", "KaiwoQueueConfig", "kaiwoqueueconfigs", False)  # noqa: FBT003
CONFIGS = (KAIWO_CONFIG, QUEUE_CONFIG)


def configs(sandbox: Any) -> dict[str, Any]:
    """The configuration objects, by kind."""
    return {kind.kind: obj for kind in CONFIGS for obj in sandbox.api.get(kind.path())["items"]}


@pytest.fixture
def init(control_plane: Any, crds: None) -> Iterator[Callable[..., Any]]:
    """Run ``kaiwo init`` in a cluster without configuration."""
    del crds

    def clear() -> None:
        for kind in CONFIGS:
            for obj in control_plane.api.get(kind.path())["items"]:
                control_plane.api.request("DELETE", kind.path(name=obj["metadata"]["name"]))

    def run(*args: str) -> Any:
        return subprocess.run(
            [sys.executable, "-c", "from kaiwo.cli.main import main; main()", "init", *args],
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "KUBECONFIG": str(control_plane.kubeconfig)},
        )

    deadline = time.monotonic() + 60
    while True:
        try:
            clear()
        except SandboxApiError:  # storage of new CRDs that is not ready yet
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)
        else:
            break
    yield run
    clear()


def test_the_set_up_is_shown_written_once_and_then_as_it_should_be(
    init: Callable[..., Any], control_plane: Any
) -> None:
    """A dry run and a missing answer write nothing; the second run changes no resourceVersion."""
    shown = init("--dry-run")
    assert shown.returncode == 0, shown.stderr
    assert "KaiwoConfig kaiwo: create\n  +defaultClusterQueueName: kaiwo\n" in shown.stdout
    assert "KaiwoQueueConfig kaiwo: create\n  +clusterQueues:\n" in shown.stdout
    assert "ClusterQueue kaiwo: create (made by the operator)" in shown.stdout
    assert "amd-mi300x-8gpu" in shown.stdout
    assert "Kueue is not installed" in shown.stderr
    assert init().returncode == 2
    assert configs(control_plane) == {}
    assert init("--yes").returncode == 0
    first = configs(control_plane)
    assert set(first) == {"KaiwoConfig", "KaiwoQueueConfig"}
    again = init("--yes", "-o", "json")
    assert again.returncode == 0
    report = json.loads(again.stdout)
    assert report["applied"] is False
    ours = {obj["kind"]: obj["action"] for obj in report["objects"] if obj["writtenBy"] == "init"}
    assert ours == {"KaiwoConfig": "unchanged", "KaiwoQueueConfig": "unchanged"}
    assert configs(control_plane) == first


def test_a_configuration_of_an_administrator_is_left_alone(
    init: Callable[..., Any], control_plane: Any
) -> None:
    """It is said whose it is; only what is missing is written."""
    spec = {"clusterQueues": [{"name": "mine", "spec": {"cohort": "c"}}]}
    obj = {
        "apiVersion": QUEUE_CONFIG.api_version,
        "kind": QUEUE_CONFIG.kind,
        "metadata": {"name": "kaiwo"},
        "spec": spec,
    }
    control_plane.api.create(QUEUE_CONFIG.path(), obj)
    result = init("--yes")
    assert result.returncode == 0
    assert "stays as it is" in result.stderr
    assert configs(control_plane)["KaiwoQueueConfig"]["spec"] == spec
    assert "KaiwoConfig" in configs(control_plane)
