"""Building a set with Go: the wrapper module's exact versions, one ``go build`` for all of its programs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from kaiwo_sandbox.binaries import cache
from kaiwo_sandbox.errors import SandboxError
from kaiwo_sandbox.paths import cache_dir, make_private

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kaiwo_sandbox.catalogue import BinarySet

    Say = Callable[[str], None]

MINIMUM_GO = (1, 26)
"""The language version that go.mod of the newest Kubernetes modules asks for."""

_TICK_SECONDS = 1.0
_LINE_EVERY_SECONDS = 30.0
_GIBIBYTES_NEEDED = 6
"""3.4 GB of compiler cache and 0.6 GB of binaries, measured, and the modules."""


def _go(binary_set: BinarySet) -> str:
    go = shutil.which("go")
    if go is None and binary_set.source is not None:
        (program,) = binary_set.programs
        raise SandboxError(
            f"{program.name} is not there, and there is no Go to build it.",
            why="It is made from a source file of the sandbox, so that no container image has it.",
            next_step=(
                "Install Go 1.26 or newer, or set KUBEBUILDER_ASSETS to a directory with the program, "
                "or start without appwrapper."
            ),
        )
    if go is None:
        raise SandboxError(
            "The control plane's programs are not there, and there is no Go to build them.",
            why="They are not in the cache, and no explicit directory or list of images was given.",
            next_step=(
                "Install Go 1.26 or newer, or set KUBEBUILDER_ASSETS to a directory with the programs, "
                "or KAIWO_SANDBOX_IMAGES to a file that lists images (see the sandbox's README)."
            ),
        )
    answer = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, check=False)
    match = re.search(r"go(\d+)\.(\d+)", answer.stdout)
    if match and (int(match[1]), int(match[2])) < MINIMUM_GO:
        raise SandboxError(
            f"{go} is {answer.stdout.strip()}, older than Go 1.26.",
            why="The modules of the newest Kubernetes need its language version.",
            next_step="Install Go 1.26 or newer and run the command again.",
        )
    return go


def _environment(build_cache: Path) -> dict[str, str]:
    """Go's environment: static binaries, a compiler cache of our own, no workspace around us."""
    return {
        **os.environ,
        "GOCACHE": str(build_cache),
        "CGO_ENABLED": "0",
        "GOWORK": "off",
        "GOFLAGS": "-buildvcs=false",
    }


def _minutes(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def estimate(binary_set: BinarySet) -> float:
    """How many minutes a build takes on this machine's cores; linking bounds it from below."""
    cores = len(os.sched_getaffinity(0))
    return max(binary_set.minutes * 2 / cores, binary_set.minutes / 4)


def build(binary_sets: Sequence[BinarySet], say: Say) -> None:
    """Build the sets into the cache, telling `say` what appears and how long it takes.

    They share a compiler cache: what one has compiled is there for the next. It is kept when a build fails,
    so that the next try goes on from there, and removed when all succeeded. The caller holds the lock.

    Raises:
        SandboxError: Go is missing or too old, the disk is nearly full, or a build failed.
    """
    if len(binary_sets) > 1:
        minutes = sum(estimate(each) for each in binary_sets)
        say(f"{len(binary_sets)} sets of programs have to be built, about {minutes:.0f} minutes together.")
    for binary_set in binary_sets:
        build_set(binary_set, say)
    shutil.rmtree(_build_cache(), ignore_errors=True)


def _build_cache() -> Path:
    return cache_dir() / "go-build"


def build_set(binary_set: BinarySet, say: Say) -> None:
    """Build one set into the cache; the compiler cache stays.

    Raises:
        SandboxError: Go is missing or too old, the disk is nearly full, or the build failed.
    """
    go = _go(binary_set)
    root = make_private(cache_dir())
    free = shutil.disk_usage(root).free / (1 << 30)
    if free < _GIBIBYTES_NEEDED:
        raise SandboxError(
            f"{root} has {free:.1f} GiB free; the build needs {_GIBIBYTES_NEEDED}.",
            why="The compiler cache takes 3.4 GB until the build is done.",
            next_step="Free some space, or set XDG_CACHE_HOME to a larger disk.",
        )
    names = ", ".join(program.name for program in binary_set.programs)
    say(
        f"Building {names} from source, once: about {estimate(binary_set):.0f} minutes on this machine "
        f"and {_GIBIBYTES_NEEDED} GiB of disk while it runs. The result stays in {root}."
    )
    with tempfile.TemporaryDirectory(prefix=f"{binary_set.name}-", dir=root) as temporary:
        work = Path(temporary)
        module, made, prepared = work / "module", work / "made", work / "prepared"
        for directory in (module, made, prepared / "bin"):
            directory.mkdir(parents=True)
        for name, content in binary_set.files.items():
            (module / name).write_bytes(content)
        environment = _environment(_build_cache())
        _run(binary_set, [go, *_arguments(binary_set, made)], work, environment, say)
        for program in binary_set.programs:
            (made / program.built_as).rename(prepared / "bin" / program.name)
        copy_manifests(binary_set, go, module, prepared / "manifests", environment)
        cache.store(binary_set, prepared)


def _arguments(binary_set: BinarySet, made: Path) -> list[str]:
    wanted = "tool" if binary_set.source is None else "."
    return ["build", "-trimpath", "-ldflags", binary_set.ldflags, "-o", f"{made}/", wanted]


def _run(
    binary_set: BinarySet, command: list[str], work: Path, environment: Mapping[str, str], say: Say
) -> None:
    log = work / "build.log"
    with log.open("wb") as output:
        build = subprocess.Popen(
            command, cwd=work / "module", env=environment, stdout=output, stderr=subprocess.STDOUT
        )
        try:
            _watch(build, binary_set, work, say)
        except BaseException:
            build.terminate()
            build.wait()
            raise
    if build.returncode != 0:
        lines = log.read_text(errors="replace").splitlines()
        problem = [line for line in lines if not line.startswith("go: downloading")]
        raise SandboxError(
            f"go build of the '{binary_set.name}' set failed with code {build.returncode}.",
            why="\n".join(problem[-12:]) or "It printed nothing; it may have been stopped by a signal.",
            next_step="Check that Go's module proxy answers (go env GOPROXY), then run the command again.",
        )


def _watch(build: subprocess.Popen[bytes], binary_set: BinarySet, work: Path, say: Say) -> None:
    """One line per finished binary, and one every half minute in between."""
    started = last = time.monotonic()
    expected = estimate(binary_set) * 60
    waiting = {program.built_as: program.name for program in binary_set.programs}
    while True:
        ended = _ended(build)
        now = time.monotonic()
        clock = f"{_minutes(now - started)} of about {_minutes(max(expected, now - started))}"
        for built_as in [name for name in waiting if _written(work / "made" / name)]:
            say(f"  {clock}  {waiting.pop(built_as)} built, {len(waiting)} to go")
            last = now
        if ended:
            return
        if now - last >= _LINE_EVERY_SECONDS:
            say(f"  {clock}  {_activity(work / 'build.log')}, {len(waiting)} to go")
            last = now


def _ended(build: subprocess.Popen[bytes]) -> bool:
    try:
        build.wait(_TICK_SECONDS)
    except subprocess.TimeoutExpired:
        return False
    return True


def _written(path: Path) -> bool:
    """Whether the linker's result has arrived; an executable bit comes with the finished file."""
    return path.is_file() and os.access(path, os.X_OK)


def _activity(log: Path) -> str:
    downloads = log.read_bytes().count(b"go: downloading")
    return f"compiling ({downloads} modules downloaded)" if downloads else "compiling"


def copy_manifests(
    binary_set: BinarySet, go: str, module: Path, target: Path, environment: Mapping[str, str]
) -> None:
    """Copy the addons' manifests out of the module cache, so that Go is not needed again.

    Raises:
        SandboxError: a module does not have the files.
    """
    for source in binary_set.manifests:
        directory = _module_directory(go, module, source.module, environment)
        place = target / source.addon
        place.mkdir(parents=True)
        for pattern in source.files:
            found = sorted(directory.glob(pattern))
            if not found:
                raise SandboxError(
                    f"Module {source.module} has no {pattern}.",
                    why=f"{directory} was searched.",
                    next_step="This version of the sandbox and go.mod do not fit together; please report it.",
                )
            for file in found:
                shutil.copyfile(file, place / file.name)


def _module_directory(go: str, module: Path, path: str, environment: Mapping[str, str]) -> Path:
    command = [go, "list", "-m", "-f", "{{.Dir}}", path]
    answer = subprocess.run(
        command, cwd=module, env=dict(environment), capture_output=True, text=True, check=False
    )
    if answer.returncode != 0 or not answer.stdout.strip():
        raise SandboxError(f"go list of {path} failed.", why=answer.stderr.strip())
    return Path(answer.stdout.strip())
