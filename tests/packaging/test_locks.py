"""Requirements with hashes: what images and release tools are installed from."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.metadata import distribution
from typing import TYPE_CHECKING

import pytest
from packaging.requirements import Requirement
from packaging.tags import Tag
from packaging.utils import canonicalize_name

from kaiwo_sandbox.paths import cache_dir
from release import lock
from release.projects import ROOT
from release.sbom import locked_versions

if TYPE_CHECKING:
    from pathlib import Path

LOCKS = lock.locks()
EVERY = pytest.mark.parametrize("each", LOCKS, ids=lambda each: str(each.file.relative_to(ROOT)))
CONSTRAINED = pytest.mark.parametrize(
    "each", [each for each in LOCKS if each.constrained], ids=lambda each: str(each.file.relative_to(ROOT))
)
_HASH = re.compile(r"    --hash=sha256:[0-9a-f]{64}( \\)?")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_PINNED = re.compile(r"[a-z0-9][a-z0-9-]*==[0-9][0-9a-z.]*( ; [^\\]+)? \\")


@EVERY
def test_a_lock_pins_with_hashes_and_names_no_index(each: lock.Lock) -> None:
    """Every line is a comment, a version or a hash; nothing says where to get it."""
    text = each.file.read_text("utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert len(lines) > 10
    assert [line for line in lines if not _HASH.fullmatch(line) and not _PINNED.fullmatch(line)] == []
    assert "://" not in text
    for block in re.split(r"(?m)^(?=[a-z0-9])", "\n".join(lines))[1:]:
        assert _HASH.search(block), block


@CONSTRAINED
def test_a_lock_has_the_versions_that_the_tests_run_with(each: lock.Lock) -> None:
    """What is in an image is what was tested: the versions of ``constraints.txt``. `make lock` renews it."""
    versions = lock.constrained((ROOT / "constraints.txt").read_text("utf-8"))
    locked = locked_versions(each.file.read_text("utf-8"))
    assert {name: versions.get(name) for name in locked} == locked


@CONSTRAINED
def test_a_lock_has_all_that_is_needed_and_no_more(each: lock.Lock) -> None:
    """The requirements of the distributions and theirs in turn, as they are installed here. `make lock`."""
    needed: set[str] = set()
    waiting = [Requirement(text) for text in each.requirements]
    while waiting:
        requirement = waiting.pop()
        found = list(requirement.extras or {""})
        if requirement.marker and not any(
            requirement.marker.evaluate({"extra": "", "sys_platform": "linux"}) for _ in found
        ):
            continue
        name = canonicalize_name(requirement.name)
        if name in needed and not requirement.extras:
            continue
        needed.add(name)
        for text in distribution(name).requires or ():
            inner = Requirement(text)
            if inner.marker is None or any(inner.marker.evaluate({"extra": extra}) for extra in found):
                inner.marker = None
                waiting.append(inner)
    locked = locked_versions(each.file.read_text("utf-8"))
    assert needed == set(locked)


@pytest.mark.parametrize(
    ("tag", "python", "machine", "expected"),
    [
        ("py3-none-any", "3.11", "x86_64", True),
        ("cp313-cp313-manylinux_2_28_aarch64", "3.13", "aarch64", True),
        ("cp313-cp313-manylinux_2_28_aarch64", "3.13", "x86_64", False),
        ("cp313-cp313t-manylinux_2_28_x86_64", "3.13", "x86_64", False),
        ("cp39-abi3-manylinux2014_x86_64", "3.14", "x86_64", True),
        ("cp314-abi3-manylinux2014_x86_64", "3.13", "x86_64", False),
        ("cp312-cp312-manylinux2014_x86_64", "3.13", "x86_64", False),
        ("cp313-cp313-musllinux_1_2_x86_64", "3.13", "x86_64", False),
        ("cp313-cp313-macosx_11_0_arm64", "3.13", "aarch64", False),
        ("pp311-pypy311_pp73-manylinux2014_x86_64", "3.11", "x86_64", False),
    ],
)
def test_which_wheels_are_locked(tag: str, python: str, machine: str, *, expected: bool) -> None:
    """Those that CPython on Linux with glibc installs."""
    assert lock.fits(Tag(*tag.split("-")), python, machine) is expected


@pytest.mark.slow
@pytest.mark.timeout(600)
@EVERY
@pytest.mark.parametrize(("python", "machine"), [("3.11", "x86_64"), ("3.14", "aarch64")])
def test_a_lock_can_be_installed(
    each: lock.Lock, python: str, machine: str, release_tools: Path, tmp_path: Path
) -> None:
    """The index has wheels with the locked hashes, and nothing else is needed.

    That there are wheels for the Pythons and machines in between is checked when a lock is written.
    """
    command = [
        *(
            str(release_tools / "uv"),
            "pip",
            "install",
            "--quiet",
            "--require-hashes",
            "--only-binary",
            ":all:",
        ),
        *("--target", str(tmp_path / "target"), "--python", sys.executable, "--python-version", python),
        *("--python-platform", f"{machine}-manylinux_2_28", "--requirement", str(each.file)),
    ]
    environment = {**os.environ, "UV_CACHE_DIR": str(cache_dir() / "uv")}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=500
    )
    assert done.returncode == 0, done.stderr
    directories = (tmp_path / "target").glob("*.dist-info")
    found = {canonicalize_name(each.name.partition("-")[0]) for each in directories}
    text = each.file.read_text("utf-8")
    assert found <= set(locked_versions(text))
    assert set(locked_versions(text)) - found <= set(re.findall(r"^([a-z0-9-]+)==\S+ ;", text, re.MULTILINE))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_renewing_a_lock_changes_nothing(release_tools: Path) -> None:
    """`make lock` was run after the last change of requirements or of ``constraints.txt``."""
    program = (
        "import json, sys\n"
        "from release import lock\n"
        "print(json.dumps({str(each.file): lock.text_of(each) for each in lock.locks() if each.constrained}))"
    )
    done = subprocess.run(
        [str(release_tools / "python"), "-c", program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    for file, text in json.loads(done.stdout).items():
        committed = (ROOT / file).read_text("utf-8")
        assert locked_versions(text) == locked_versions(committed)
        # An index may get further wheels of a version later; none that was locked may disappear.
        assert set(_DIGEST.findall(committed)) <= set(_DIGEST.findall(text))


def test_a_version_without_fitting_wheels_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names the distribution and the machines that it leaves out."""
    package = {
        "name": "tool",
        "version": "1.0",
        "wheels": [
            {
                "url": "x/tool-1.0-cp311-abi3-manylinux2014_x86_64.whl",
                "hashes": {"sha256": "0" * 64},
            }
        ],
    }
    monkeypatch.setattr(lock, "PYTHONS", ("3.11",))
    with pytest.raises(lock.LockError, match=r"tool==1.0 has no wheel for CPython 3.11 on aarch64"):
        list(lock._lines([package], None))


def test_a_distribution_without_a_version_in_the_constraints_is_refused() -> None:
    """The message says which line to add."""
    package = {"name": "tool", "version": "1.0"}
    with pytest.raises(lock.LockError, match=r"constraints.txt does not have tool; add tool==1.0"):
        list(lock._lines([package], {}))


def test_the_command_takes_no_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    """A mistaken option writes nothing."""
    assert lock.main(["--upgrade"]) == 2
    assert capsys.readouterr().err.startswith("usage: ")
