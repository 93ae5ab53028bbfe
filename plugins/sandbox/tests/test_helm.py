"""Helm for the tests of the chart: from a directory, or from the cache of builds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kaiwo_sandbox import binaries
from kaiwo_sandbox.binaries import cache
from kaiwo_sandbox.builds.binary_sets import HELM

if TYPE_CHECKING:
    from pathlib import Path


def _program(directory: Path) -> Path:
    directory.mkdir(parents=True)
    path = directory / "helm"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def _no_progress(line: str) -> None:
    pytest.fail(f"something was built: {line}")


def test_helm_of_a_directory_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who has Helm needs no Go for the tests of the chart."""
    program = _program(tmp_path / "assets")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(program.parent))
    assert binaries.ensure_helm(_no_progress) == program


def test_helm_is_built_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second session finds the program of the first one in the cache."""
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.delenv("KAIWO_SANDBOX_IMAGES", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    program = _program(cache.location(HELM) / "bin")
    assert binaries.ensure_helm(_no_progress) == program


def test_no_sandbox_builds_helm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only tests of the chart need it: a demonstration must not wait for it."""
    monkeypatch.setattr(cache, "complete", lambda _: True)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    found = binaries.ensure(("kueue", "kuberay", "appwrapper"), real_node=True, progress=_no_progress)
    assert "helm" not in found.programs
