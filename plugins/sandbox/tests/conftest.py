"""Fixtures: directories of the test's own, and a fake Go command."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home: no cache, no state, no sources of binaries from the environment."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for variable in (
        "KUBEBUILDER_ASSETS",
        "GOPROXY",
        "GOENV",
        "KAIWO_SANDBOX_REUSE",
        "KAIWO_SANDBOX_GENERATION",
    ):
        monkeypatch.delenv(variable, raising=False)
    # A test that downloads programs has a registry of its own.
    monkeypatch.setenv("KAIWO_SANDBOX_IMAGES", "off")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path


@pytest.fixture
def fake_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Puts a Python script called `go` first on the path; it logs its arguments to the file it returns."""

    def install(body: str) -> Path:
        directory = tmp_path / "go-bin"
        directory.mkdir(exist_ok=True)
        calls = tmp_path / "go-calls"
        script = directory / "go"
        script.write_text(
            f"#!{sys.executable}\n"
            "import os, pathlib, sys, time\n"
            "arguments = sys.argv[1:]\n"
            f"with open({str(calls)!r}, 'a') as log:\n"
            "    print(*arguments[:1], file=log)\n"
            "if arguments == ['env', 'GOVERSION']:\n"
            "    print(os.environ.get('FAKE_GO_VERSION', 'go1.26.8'))\n"
            "    sys.exit()\n"
            f"{body}\n"
        )
        script.chmod(0o755)
        monkeypatch.setenv("PATH", str(directory))
        return calls

    return install
