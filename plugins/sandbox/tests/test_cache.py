"""The cache of binaries: a key for exactly one content, and places that are whole or absent."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest

from kaiwo_sandbox.binaries import cache
from kaiwo_sandbox.catalogue import CORE, KUBERAY, SETS, BinarySet, Program

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable
    from pathlib import Path


@dataclasses.dataclass(frozen=True)
class _Elsewhere(BinarySet):
    """A set whose wrapper module lies in a directory of the test."""

    directory: Traversable | None = None

    @property
    def wrapper(self) -> Traversable:
        assert self.directory is not None
        return self.directory


def _set(directory: Path, **changes: object) -> BinarySet:
    values: dict[str, object] = {
        "name": "tiny",
        "programs": (Program("hello", "example.test/hello"),),
        "ldflags": "-s",
        "minutes": 1,
        "directory": directory,
    }
    return _Elsewhere(**{**values, **changes})  # type: ignore[arg-type]  # overridden by keyword


@pytest.fixture
def module(tmp_path: Path) -> Path:
    """A wrapper module."""
    directory = tmp_path / "wrapper"
    directory.mkdir()
    (directory / "go.mod").write_text("module tiny\n")
    (directory / "go.sum").write_text("")
    return directory


def test_the_key_changes_with_everything_that_changes_the_programs(
    module: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stale binaries after an upgrade would be found out only by strange test failures."""
    keys = [cache.key(_set(module))]
    keys.append(cache.key(_set(module, ldflags="-w")))
    keys.append(cache.key(_set(module, programs=(Program("hello", "example.test/other"),))))
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    keys.append(cache.key(_set(module)))
    (module / "go.sum").write_text("example.test/hello v1.0.0 h1:x=\n")
    keys.append(cache.key(_set(module)))
    (module / "go.mod").write_text("module tiny2\n")
    keys.append(cache.key(_set(module)))
    assert len(set(keys)) == len(keys)


def test_the_key_stays_when_nothing_changed(module: Path) -> None:
    """Another estimate of the time is no reason to build again."""
    assert cache.key(_set(module)) == cache.key(_set(module, minutes=9))


def test_a_set_counts_as_complete_only_with_all_programs(home: Path, module: Path) -> None:
    """A build that ended half-way must be done again."""
    two = _set(module, programs=(Program("a", "example.test/a"), Program("b", "example.test/b")))
    assert not cache.complete(two)
    prepared = home / "prepared"
    (prepared / "bin").mkdir(parents=True)
    (prepared / "bin" / "a").touch()
    cache.location(two).parent.mkdir(parents=True)
    cache.store(two, prepared)
    assert not cache.complete(two)
    (cache.location(two) / "bin" / "b").touch()
    assert cache.complete(two)


@pytest.mark.parametrize("binary_set", SETS, ids=lambda each: each.name)
def test_every_program_has_a_tool_line_in_its_wrapper_module(binary_set: BinarySet) -> None:
    """`go build tool` builds what go.mod lists; a program without a line would be missing at the end."""
    text = binary_set.wrapper.joinpath("go.mod").read_text()
    tools = {line.strip().removeprefix("tool ") for line in text.splitlines()}
    for program in binary_set.programs:
        assert program.package in tools, program
    assert len({program.built_as for program in binary_set.programs}) == len(binary_set.programs)


def test_the_server_knows_its_version() -> None:
    """Without linker flags it would call itself v0.0.0, which clients parse."""
    assert "-X k8s.io/component-base/version.gitVersion=v1.36.3" in CORE.ldflags
    assert "-X k8s.io/client-go/pkg/version.gitMinor=36" in CORE.ldflags


def test_wrapper_modules_are_packaged() -> None:
    """An installed distribution must be able to build."""
    for binary_set in (CORE, KUBERAY):
        assert (
            binary_set.wrapper.joinpath("go.sum").read_text().startswith(("cel.dev", "github.com", "cloud"))
        )
