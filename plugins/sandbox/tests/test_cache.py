"""The cache of binaries: one key per content, and directories that are complete or absent."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest

from kaiwo_sandbox.binaries import cache
from kaiwo_sandbox.builds.binary_sets import CORE, SETS, BinarySet, Program
from kaiwo_sandbox.errors import SandboxError
from kaiwo_sandbox.generations import GENERATIONS, Generation, generation
from kaiwo_sandbox.paths import state_dir
from kaiwo_sandbox.state import SandboxState

if TYPE_CHECKING:
    from pathlib import Path


@dataclasses.dataclass(frozen=True)
class _Elsewhere(BinarySet):
    """A set whose wrapper module lies in a directory of the test."""

    directory: Path | None = None

    @property
    def files(self) -> dict[str, bytes]:
        assert self.directory is not None
        return {file.name: file.read_bytes() for file in sorted(self.directory.iterdir())}


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
    (module / "main.go").write_text("package main\n")
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


def _made(binary_set: BinarySet, home: Path) -> Path:
    """Put the set into the cache, with empty programs."""
    prepared = home / "prepared"
    (prepared / "bin").mkdir(parents=True)
    for program in binary_set.programs:
        (prepared / "bin" / program.name).touch()
    cache.location(binary_set).parent.mkdir(parents=True, exist_ok=True)
    return cache.store(binary_set, prepared)


def test_an_earlier_definition_with_the_same_programs_needs_no_build(home: Path, module: Path) -> None:
    """The removal of a program from a set is no reason to compile Kubernetes again."""
    before = _set(module, programs=(Program("hello", "example.test/hello"), Program("b", "example.test/b")))
    place = _made(before, home)
    after = _set(module)
    assert not cache.complete(after)
    after = _set(module, earlier=(cache.key(before),))
    assert cache.complete(after)
    assert cache.location(after) == place


def test_a_new_build_removes_what_earlier_versions_left(home: Path, module: Path) -> None:
    """Each set is hundreds of megabytes; other sets, also of a similar name, stay."""
    old = _made(_set(module), home)
    other = _made(_set(module, name="tiny-other"), home)
    new = _made(_set(module, ldflags="-w"), home)
    assert (old.exists(), other.exists(), new.exists()) == (False, True, True)


def test_programs_of_a_running_sandbox_are_kept(home: Path, module: Path) -> None:
    """Its API server may be started again from there."""
    old = _made(_set(module), home)
    directory = state_dir("running")
    directory.mkdir(parents=True)
    running = SandboxState(
        "running", {}, [], {"hello": str(old / "bin" / "hello")}, {}, template="", nodes=[]
    )
    running.save(directory)
    _made(_set(module, ldflags="-w"), home)
    assert old.exists()


@pytest.mark.parametrize("binary_set", SETS, ids=lambda each: each.name)
def test_every_program_is_built_by_its_wrapper_module(binary_set: BinarySet) -> None:
    """`go build tool` builds what go.mod lists, and `go build .` names the program after the module."""
    text = binary_set.files["go.mod"].decode()
    tools = {line.strip().removeprefix("tool ") for line in text.splitlines()}
    for program in binary_set.programs:
        assert (program.package if binary_set.source is None else f"module {program.package}") in tools
    assert len({program.built_as for program in binary_set.programs}) == len(binary_set.programs)


@pytest.mark.parametrize("column", GENERATIONS.values(), ids=lambda each: each.name)
def test_each_generation_is_built_from_the_versions_that_it_says(column: Generation) -> None:
    """What is printed before a test run is what runs."""
    for addon, version in column.versions.items():
        binary_set = column.addons[addon]
        (module,) = (source.module for source in binary_set.manifests if source.addon == addon)
        assert f"{module} v{version}" in binary_set.files["go.mod"].decode()


def test_an_unknown_generation_is_rejected() -> None:
    """With the names that exist."""
    with pytest.raises(SandboxError, match="known: newer, older"):
        generation("oldest")


def test_the_server_knows_its_version() -> None:
    """Without linker flags it would call itself v0.0.0, which clients parse."""
    assert "-X k8s.io/component-base/version.gitVersion=v1.36.3" in CORE.ldflags
    assert "-X k8s.io/client-go/pkg/version.gitMinor=36" in CORE.ldflags


def test_wrapper_modules_are_packaged() -> None:
    """An installed distribution must be able to build."""
    for binary_set in SETS:
        assert " h1:" in binary_set.files["go.sum"].decode()
