"""Build binary sets with Go: one ``go build`` per wrapper module, at its exact versions."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kaiwo_sandbox.binaries import cache
from kaiwo_sandbox.builds.binary_sets import CORE
from kaiwo_sandbox.errors import SandboxError
from kaiwo_sandbox.paths import cache_dir, make_private

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kaiwo_sandbox.builds.binary_sets import BinarySet

    Progress = Callable[[str], None]

MINIMUM_GO = (1, 26)
"""The Go version that the newest Kubernetes modules require in go.mod."""

_GCFLAGS = "-gcflags=all=-dwarf=false"
"""The compiler leaves out debugging information, which the linker would drop (``-s -w``)."""

_POLL_SECONDS = 1.0
_REPORT_SECONDS = 30.0
_GIBIBYTES_NEEDED = 6
"""Measured: 3.4 GB of compiler cache, 0.6 GB of binaries, and the modules."""


def is_installed() -> bool:
    """Whether there is a Go of any version."""
    return shutil.which("go") is not None


def _find_go(binary_set: BinarySet) -> str:
    go = shutil.which("go")
    if go is None and binary_set.source is not None:
        (program,) = binary_set.programs
        raise SandboxError(
            f"{program.name} is not in the cache, and go is not installed to build it",
            hint=(
                "install Go 1.26 or newer, or set KUBEBUILDER_ASSETS to a directory with the program, "
                "or start without what needs it"
            ),
        )
    if go is None:
        raise SandboxError(
            "the control plane's programs are not in the cache, and go is not installed to build them",
            hint=(
                "install Go 1.26 or newer, or set KUBEBUILDER_ASSETS to a directory with the programs, "
                "or unset KAIWO_SANDBOX_IMAGES to download them from container images"
            ),
        )
    completed = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, check=False)
    match = re.search(r"go(\d+)\.(\d+)", completed.stdout)
    if match and (int(match[1]), int(match[2])) < MINIMUM_GO:
        raise SandboxError(
            f"{go} is too old: expected Go 1.26 or newer, got {completed.stdout.strip()}",
            hint="install Go 1.26 or newer and run the command again",
        )
    return go


def _environment(build_cache: Path) -> dict[str, str]:
    """The environment of Go: static binaries, a separate compiler cache, no workspace."""
    return {
        **os.environ,
        "GOCACHE": str(build_cache),
        "CGO_ENABLED": "0",
        "GOWORK": "off",
        "GOFLAGS": "-buildvcs=false",
    }


def _minutes(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def in_words(minutes: float) -> str:
    """Write a duration for a person, in whole minutes: at least one, because an estimate is no promise."""
    whole = max(round(minutes), 1)
    return f"{whole} minute{'' if whole == 1 else 's'}"


def estimate(binary_sets: Sequence[BinarySet]) -> list[float]:
    """Estimate the minutes of each set of a build on this machine; more cores do not speed up linking."""
    cores = len(os.sched_getaffinity(0))
    with_core = CORE in binary_sets
    measured = [(with_core and each.minutes_after_core) or each.minutes for each in binary_sets]
    return [max(minutes * 2 / cores, minutes / 4) for minutes in measured]


def build(binary_sets: Sequence[BinarySet], progress: Progress) -> None:
    """Build the sets into the cache and report the progress.

    The sets share a compiler cache. It is kept after a failure, so that the next attempt continues from
    there, and removed after success. The caller holds the build lock.

    Raises:
        SandboxError: Go is missing or too old, the disk is nearly full, or a build failed.
    """
    estimates = estimate(binary_sets)
    if len(binary_sets) > 1:
        progress(f"building {len(binary_sets)} sets of programs: about {in_words(sum(estimates))} in total")
    for binary_set, minutes in zip(binary_sets, estimates, strict=True):
        build_set(binary_set, minutes, progress)
    shutil.rmtree(_build_cache(), ignore_errors=True)


def _build_cache() -> Path:
    return cache_dir() / "go-build"


def build_set(binary_set: BinarySet, minutes: float, progress: Progress) -> None:
    """Build one set into the cache and keep the compiler cache.

    Args:
        binary_set: the set.
        minutes: the estimate.
        progress: receives lines about the build.

    Raises:
        SandboxError: Go is missing or too old, the disk is nearly full, or the build failed.
    """
    go = _find_go(binary_set)
    root = make_private(cache_dir())
    free = shutil.disk_usage(root).free / (1 << 30)
    if free < _GIBIBYTES_NEEDED:
        raise SandboxError(
            f"{root} has {free:.1f} GiB free; the build needs {_GIBIBYTES_NEEDED} GiB",
            hint="free disk space, or set XDG_CACHE_HOME to a larger disk",
        )
    names = ", ".join(program.name for program in binary_set.programs)
    progress(
        f"building {names} from source: about {in_words(minutes)} on this machine, "
        f"{_GIBIBYTES_NEEDED} GiB of disk while it runs; the result is kept in {root}"
    )
    with tempfile.TemporaryDirectory(prefix=f"{binary_set.name}-", dir=root) as temporary:
        work = Path(temporary)
        module, output, prepared = work / "module", work / "output", work / "prepared"
        for directory in (module, output, prepared / "bin"):
            directory.mkdir(parents=True)
        for name, content in binary_set.files.items():
            (module / name).write_bytes(content)
        environment = _environment(_build_cache())
        report = partial(
            _report_until_exit, binary_set=binary_set, minutes=minutes, work=work, progress=progress
        )
        _run(binary_set, [go, *_arguments(binary_set, output)], work, environment, report)
        for program in binary_set.programs:
            (output / program.built_as).rename(prepared / "bin" / program.name)
        copy_manifests(binary_set, go, module, prepared / "manifests", environment)
        cache.store(binary_set, prepared)


def _arguments(binary_set: BinarySet, output: Path) -> list[str]:
    packages = "tool" if binary_set.source is None else "."
    return ["build", "-trimpath", _GCFLAGS, "-ldflags", binary_set.ldflags, "-o", f"{output}/", packages]


def _run(
    binary_set: BinarySet,
    command: list[str],
    work: Path,
    environment: Mapping[str, str],
    report: Callable[[subprocess.Popen[bytes]], None],
) -> None:
    log = work / "build.log"
    with log.open("wb") as output:
        build = subprocess.Popen(
            command, cwd=work / "module", env=environment, stdout=output, stderr=subprocess.STDOUT
        )
        try:
            report(build)
        except BaseException:
            build.terminate()
            build.wait()
            raise
    if build.returncode != 0:
        lines = log.read_text(errors="replace").splitlines()
        errors = [line for line in lines if not line.startswith("go: downloading")]
        raise SandboxError(
            f'go build of the set "{binary_set.name}" failed with exit code {build.returncode}',
            detail="\n".join(errors[-12:]) or "no output; a signal may have stopped it",
            hint="check that Go's module proxy can be reached (go env GOPROXY), then run the command again",
        )


def _report_until_exit(
    build: subprocess.Popen[bytes], *, binary_set: BinarySet, minutes: float, work: Path, progress: Progress
) -> None:
    """Report each finished binary, and the elapsed time every half minute."""
    started = last = time.monotonic()
    expected = minutes * 60
    missing = {program.built_as: program.name for program in binary_set.programs}
    while True:
        exited = _has_exited(build)
        now = time.monotonic()
        elapsed = f"{_minutes(now - started)} of about {_minutes(max(expected, now - started))}"
        for built_as in [name for name in missing if _is_linked(work / "output" / name)]:
            progress(f"  {elapsed}  {missing.pop(built_as)} built, {len(missing)} remaining")
            last = now
        if exited:
            return
        if now - last >= _REPORT_SECONDS:
            progress(f"  {elapsed}  {_activity(work / 'build.log')}, {len(missing)} remaining")
            last = now


def _has_exited(build: subprocess.Popen[bytes]) -> bool:
    try:
        build.wait(_POLL_SECONDS)
    except subprocess.TimeoutExpired:
        return False
    return True


def _is_linked(path: Path) -> bool:
    """Whether the linker has finished the file; only then is it executable."""
    return path.is_file() and os.access(path, os.X_OK)


def _activity(log: Path) -> str:
    downloads = log.read_bytes().count(b"go: downloading")
    return f"compiling ({downloads} modules downloaded)" if downloads else "compiling"


def copy_manifests(
    binary_set: BinarySet, go: str, module: Path, target: Path, environment: Mapping[str, str]
) -> None:
    """Copy the addons' manifests from the module cache, so that later starts do not need Go.

    Raises:
        SandboxError: a module lacks the files.
    """
    for source in binary_set.manifests:
        directory = _module_directory(go, module, source.module, environment)
        addon_directory = target / source.addon
        addon_directory.mkdir(parents=True)
        for pattern in source.files:
            found = sorted(directory.glob(pattern))
            if not found:
                raise SandboxError(
                    f"module {source.module} has no {pattern} (directory {directory})",
                    hint="the versions in go.mod do not fit this sandbox; please report it",
                )
            for file in found:
                shutil.copyfile(file, addon_directory / file.name)


def _module_directory(go: str, module: Path, path: str, environment: Mapping[str, str]) -> Path:
    command = [go, "list", "-m", "-f", "{{.Dir}}", path]
    completed = subprocess.run(
        command, cwd=module, env=dict(environment), capture_output=True, text=True, check=False
    )
    if completed.returncode != 0 or not completed.stdout.strip():
        raise SandboxError(f"go list of {path} failed", detail=completed.stderr.strip())
    return Path(completed.stdout.strip())
