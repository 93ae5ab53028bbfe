"""Running the command line inside the test's process, away from the developer's own files."""

from __future__ import annotations

import io
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from kaiwo.api.crds import render_crds
from kaiwo.cli.failures import run
from kaiwo.cli.main import kaiwo
from kaiwo.client.kinds import KAIWO_JOB
from kaiwo.plugin.loader import load

if TYPE_CHECKING:
    from pathlib import Path

    from kaiwo_sandbox.sandbox import Sandbox


@dataclass(frozen=True)
class Result:
    """How a call ended."""

    code: int
    out: str
    err: str


class Cli(Protocol):
    """Runs ``kaiwo`` with arguments."""

    def __call__(self, *args: str, stdin: bytes = b"") -> Result:
        """Run to the end."""


@pytest.fixture(autouse=True)
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal that understands escape sequences, wherever the tests run."""
    monkeypatch.setenv("TERM", "xterm")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home and working directory, and no settings in the environment."""
    directory = tmp_path / "home"
    directory.mkdir()
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.setenv("HOME", str(directory))
    monkeypatch.chdir(work)
    for name in (
        "KUBECONFIG",
        "KAIWOCONFIG",
        "XDG_CONFIG_HOME",
        "KUBERNETES_SERVICE_HOST",
        "NO_COLOR",
        "KAIWO_PLUGINS",
        "KAIWO_PLUGINS_DISABLED",
        "KAIWO_PLUGINS_REQUIRED",
        "KAIWO_PLUGINS_ALLOWED",
    ):
        monkeypatch.delenv(name, raising=False)
    return directory


@pytest.fixture
def cli(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    """Run ``kaiwo`` as a shell would, without a kubeconfig unless the test gives one."""
    assert home.is_dir()

    def call(*args: str, stdin: bytes = b"") -> Result:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8"))
        capsys.readouterr()
        code = run(kaiwo, args, "kaiwo")
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return call


CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture(scope="session")
def kaiwo_crds(control_plane: Sandbox) -> None:
    """Kaiwo's kinds are served; what is there already keeps its fields."""
    plugins = load()
    live = control_plane.api.get(CRDS)["items"]
    for crd in render_crds(plugins.fields(), plugins.settings_models(), live):
        control_plane.api.apply(f"{CRDS}/{crd['metadata']['name']}", crd)
    path = KAIWO_JOB.path()
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            control_plane.api.get(path)
        except Exception:  # noqa: BLE001  not served yet, whatever the words
            time.sleep(1)
        else:
            return
    pytest.fail("the CRDs are not served after 30 s")


@pytest.fixture
def here(
    cli: Cli, control_plane: Sandbox, namespace: str, kaiwo_crds: None, monkeypatch: pytest.MonkeyPatch
) -> Cli:
    """The command line with a kubeconfig, and -n with the test's own namespace.

    The control plane has no Kueue, so the plugin kueue is left out, as its administrator would.
    """
    assert kaiwo_crds is None
    monkeypatch.setenv("KAIWO_PLUGINS_DISABLED", "kueue")
    monkeypatch.setenv("KUBECONFIG", str(control_plane.kubeconfig))

    def call(*args: str, stdin: bytes = b"") -> Any:
        return cli("-n", namespace, *args, stdin=stdin)

    return call


JOB = """\
apiVersion: kaiwo.silogen.ai/v1alpha1
kind: KaiwoJob
metadata:
  name: train
spec:
  image: example.org/train:1
  gpus: 1
"""


@pytest.fixture
def job_file(home: Path) -> Path:
    """A valid KaiwoJob named train in the working directory."""
    path = home.parent / "work" / "job.yaml"
    path.write_text(JOB)
    return path
