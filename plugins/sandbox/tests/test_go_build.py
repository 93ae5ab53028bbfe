"""Builds with Go: announced, reported, done once, and cleaned up. The Go command is a fake."""

from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING

import pytest

from kaiwo_sandbox.binaries import cache, ensure, go_build
from kaiwo_sandbox.builds.binary_sets import APPWRAPPER, CORE, COREDNS, KUBERAY
from kaiwo_sandbox.errors import SandboxError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kaiwo_sandbox.builds.binary_sets import BinarySet

BUILDS = """
modules = pathlib.Path({modules!r})
made = pathlib.Path(arguments[arguments.index('-o') + 1]) if '-o' in arguments else None
if arguments[0] == 'list':
    print(modules)
elif arguments[0] == 'build' and arguments[-1] == '.':
    assert 'func main()' in open('main.go').read()
    path = made / open('go.mod').readline().split()[-1].split('/')[-1]
    path.write_text('#!/bin/sh')
    path.chmod(0o755)
elif arguments[0] == 'build':
    assert arguments[-1] == 'tool' and '-trimpath' in arguments
    assert os.environ['CGO_ENABLED'] == '0'
    print('go: downloading example.test v1', flush=True)
    pathlib.Path(os.environ['GOCACHE']).mkdir(parents=True, exist_ok=True)
    time.sleep(0.3)
    for line in open('go.mod'):
        if line.startswith('tool ') or line.startswith('\\t') and ' ' not in line.strip():
            name = line.split()[-1].split('/')
            name = name[-2] if name[-1] == 'v3' else name[-1]
            path = made / name
            path.write_text('#!/bin/sh')
            path.chmod(0o755)
"""
FAILS = """
pathlib.Path(os.environ['GOCACHE']).mkdir(parents=True, exist_ok=True)
print('go: downloading example.test v1')
print('example.test/x: undefined: Y')
sys.exit(1)
"""


@pytest.fixture
def modules(tmp_path: Path) -> Path:
    """A module directory that has all files that addons need."""
    directory = tmp_path / "modules"
    for source in (
        "config/components/crd/bases",
        "config/components/webhook",
        "config/crd/bases",
        "config/webhook",
    ):
        (directory / source).mkdir(parents=True)
        (directory / source / "manifests.yaml").write_text("kind: CustomResourceDefinition\n")
    return directory


def test_a_build_announces_its_length_before_it_starts(
    home: Path, fake_go: Callable[[str], Path], modules: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Users see the duration and the reason of a long build in the first second."""
    del home
    monkeypatch.setattr("os.sched_getaffinity", lambda _pid: {0, 1})
    fake_go(BUILDS.format(modules=str(modules)))
    lines: list[str] = []
    ensure(["kuberay"], progress=lines.append)
    assert "about 6 minutes in total" in lines[0]
    assert "about 6 minutes" in lines[1]
    assert any("about 1 minute on this machine" in line for line in lines)  # the addon after the core
    assert "etcd" in lines[1]
    built = [line for line in lines if " built, " in line and line.startswith("  ")]
    assert len(built) == 7  # one line per binary
    assert all("of about" in line for line in built)


@pytest.mark.parametrize(("cores", "minutes"), [(1, 12), (2, 6), (4, 3), (64, 1.5)])
def test_the_estimate_follows_the_machine(
    monkeypatch: pytest.MonkeyPatch, cores: int, minutes: float
) -> None:
    """Measured on two cores; a large machine is quicker, though not without bound."""
    monkeypatch.setattr("os.sched_getaffinity", lambda _pid: set(range(cores)))
    assert go_build.estimate([CORE]) == [minutes]


def test_the_estimate_of_an_addon_leaves_out_packages_of_the_core(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the core it takes seconds, and alone minutes."""
    monkeypatch.setattr("os.sched_getaffinity", lambda _pid: {0, 1})
    assert go_build.estimate([CORE, KUBERAY]) == [6, 0.2]
    assert go_build.estimate([KUBERAY]) == [2]


_REPLACED = re.compile(r"^\t(\S+) => \S+ (v\S+)$", re.MULTILINE)
_REQUIRED = re.compile(r"^\t(\S+) (v\S+)", re.MULTILINE)


def _versions(binary_set: BinarySet) -> dict[str, str]:
    """The version of each module that a set is built from."""
    text = binary_set.files["go.mod"].decode()
    return {**dict(_REQUIRED.findall(text)), **dict(_REPLACED.findall(text))}


@pytest.mark.parametrize("binary_set", [APPWRAPPER, KUBERAY], ids=lambda each: each.name)
def test_addons_are_built_from_the_modules_of_the_core(binary_set: BinarySet) -> None:
    """Another version of one module would compile a thousand packages again, two minutes on two cores."""
    core, addon = _versions(CORE), _versions(binary_set)
    assert addon["sigs.k8s.io/controller-runtime"] == core["sigs.k8s.io/controller-runtime"]
    assert {name: version for name, version in addon.items() if core.get(name, version) != version} == {}


def test_a_successful_build_leaves_binaries_and_manifests_and_nothing_else(
    home: Path, fake_go: Callable[[str], Path], modules: Path
) -> None:
    """The compiler cache of 3.4 GB is not kept."""
    fake_go(BUILDS.format(modules=str(modules)))
    found = ensure(["kueue", "kuberay", "appwrapper"], progress=lambda _line: None)
    assert sorted(path.name for path in found.programs.values()) == sorted(found.programs)
    assert all(path.is_file() for path in found.programs.values())
    assert set(found.manifests) == {"kueue", "kuberay", "appwrapper"}
    left = {path.name.partition("-")[0] for path in (home / "cache" / "kaiwo" / "sandbox").iterdir()}
    assert left == {"core", "kuberay", "appwrapper", "build.lock"}


def test_two_ups_at_once_build_once(home: Path, fake_go: Callable[[str], Path], modules: Path) -> None:
    """The second waits for the first, says so, and uses its result."""
    del home
    calls = fake_go(BUILDS.format(modules=str(modules)))
    lines: list[str] = []
    threads = [threading.Thread(target=ensure, kwargs={"progress": lines.append}) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert calls.read_text().split().count("build") == 1
    assert sum("waiting for it" in line for line in lines) == 1


def test_a_second_start_needs_no_go_at_all(
    home: Path, fake_go: Callable[[str], Path], modules: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs in the cache need neither Go nor the network."""
    del home
    fake_go(BUILDS.format(modules=str(modules)))
    first = ensure(progress=lambda _line: None)
    monkeypatch.setenv("PATH", "/nonexistent")
    assert ensure(progress=lambda _line: None) == first


def test_a_failed_build_shows_the_compiler_errors_and_keeps_the_compiler_cache(
    home: Path, fake_go: Callable[[str], Path]
) -> None:
    """The next attempt continues from there, and an incomplete set does not count as built."""
    fake_go(FAILS)
    with pytest.raises(SandboxError, match="undefined: Y") as caught:
        go_build.build([KUBERAY], lambda _line: None)
    assert "downloading" not in str(caught.value)
    assert not cache.complete(KUBERAY)
    assert (home / "cache" / "kaiwo" / "sandbox" / "go-build").is_dir()


def test_without_go_the_other_sources_are_named(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user without Go learns about all three ways on."""
    del home
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(SandboxError) as caught:
        ensure(progress=lambda _line: None)
    for way in ("install Go 1.26", "KUBEBUILDER_ASSETS", "KAIWO_SANDBOX_IMAGES"):
        assert way in caught.value.hint


def test_without_go_a_program_of_our_own_source_is_named(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No image has it, so images must not be advised."""
    del home
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(SandboxError, match="coredns is not in the cache") as caught:
        go_build.build([COREDNS], lambda _line: None)
    assert "KAIWO_SANDBOX_IMAGES" not in str(caught.value)


def test_a_generation_is_built_beside_the_other_one(
    home: Path, fake_go: Callable[[str], Path], modules: Path
) -> None:
    """The same Kubernetes, and other controllers; going back and forth builds nothing again."""
    del home
    calls = fake_go(BUILDS.format(modules=str(modules)))
    addons = ["kueue", "kuberay", "appwrapper"]
    found = [
        ensure(addons, generation=each, progress=lambda _line: None) for each in ("newer", "older", "newer")
    ]
    assert calls.read_text().split().count("build") == 6
    newer, older, again = found
    assert newer == again
    assert newer.key != older.key
    assert {name for name, path in newer.programs.items() if older.programs[name] != path} == {
        "kueue",
        "ray-operator",
        "appwrapper-controller",
    }


def test_an_old_go_is_rejected_before_any_download(
    home: Path, fake_go: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would fail minutes later with an error about go.mod."""
    del home
    calls = fake_go("")
    monkeypatch.setenv("FAKE_GO_VERSION", "go1.24.1")
    with pytest.raises(SandboxError, match=r"expected Go 1\.26 or newer, got go1\.24\.1"):
        ensure(progress=lambda _line: None)
    assert calls.read_text().split() == ["env"]


def test_a_full_disk_is_noticed_before_the_build(
    home: Path, fake_go: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Better than an error of the linker after minutes."""
    del home
    fake_go("")
    monkeypatch.setattr("shutil.disk_usage", lambda _path: type("Usage", (), {"free": 1 << 30}))
    with pytest.raises(SandboxError, match=r"1\.0 GiB free"):
        ensure(progress=lambda _line: None)


def test_an_explicit_directory_is_used_before_everything_else(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Existing binaries need no cache, no network and no Go."""
    names = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")
    directory = home / "assets"
    directory.mkdir()
    for name in names:
        (directory / name).write_text("#!/bin/sh")
        (directory / name).chmod(0o755)
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(directory))
    from_environment = ensure(progress=lambda _line: None)
    assert {path.parent for path in from_environment.programs.values()} == {directory}
    monkeypatch.setenv("KUBEBUILDER_ASSETS", "/nonexistent")
    assert ensure(directory=directory, progress=lambda _line: None) == from_environment


def test_an_explicit_directory_that_is_not_there_is_an_error(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong directory must not lead to a build that takes minutes."""
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(home / "nothing"))
    with pytest.raises(SandboxError, match="KUBEBUILDER_ASSETS"):
        ensure(progress=lambda _line: None)
