"""Running the command line inside the test's process, away from the developer's own files."""

from __future__ import annotations

import io
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import pytest

from kaiwo.cli.failures import run
from kaiwo.cli.main import kaiwo

if TYPE_CHECKING:
    from pathlib import Path


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
