"""Building an image from its recipe without a container engine: steps run in a copy of the base's files.

Each RUN and COPY of the last stage makes a layer of what it changed, as in a container engine.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kaiwo_sandbox.errors import SandboxError
from kaiwo_sandbox.paths import cache_dir, make_private
from kaiwo_sandbox.real_node.images import chroot, containerfile
from kaiwo_sandbox.real_node.images.layers import Copy, Directory, Text
from kaiwo_sandbox.real_node.images.store import Image

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kaiwo_sandbox.real_node.images.containerfile import Instruction, RecipeStage
    from kaiwo_sandbox.real_node.images.layers import Tree

_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_MACHINE: Final = ("dev", "proc", "run", "sys")
"""Directories whose content is the running machine's."""

_NETWORK: Final = ("PIP_", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")
_HOST: Final = "/run/host"

_Snapshot = dict[str, tuple[int, ...]]


@dataclass(slots=True)
class _Stage:
    """The state of a stage while its steps run."""

    root: Path
    environment: dict[str, str]
    arguments: dict[str, str]
    labels: dict[str, str] = field(default_factory=dict)
    layers: list[Tree] = field(default_factory=list)
    user: str = ""
    directory: str = "/"
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()

    @property
    def variables(self) -> dict[str, str]:
        """What steps see of variables; the environment is stronger."""
        return {**self.arguments, **self.environment}


class ImageBuilder:
    """Builds one recipe.

    Attributes:
        work: an empty directory; the image's files are in it until it is removed.
    """

    def __init__(self, recipe: Path, context: Path, base: Path, work: Path) -> None:
        """Read the recipe.

        Args:
            recipe: the Containerfile.
            context: the directory that COPY reads.
            base: the files of every base image that the recipe names.
            work: an empty directory.
        """
        self._recipe = containerfile.parse(recipe.read_text(encoding="utf-8"), file=str(recipe))
        self._context = context
        self._base = base
        self.work = work
        file = context / ".dockerignore"
        self._ignored = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        self._built: dict[str, Path] = {}

    def build(self, name: str, arguments: Mapping[str, str]) -> Image:
        """Run all steps; the image is called `name` and has the layers of base and last stage.

        Raises:
            SandboxError: a step failed, or copies what does not exist.
        """
        given = {**self._recipe.arguments, **arguments}
        host = _host_files(self.work / "host")
        for number, stage in enumerate(self._recipe.stages):
            root = self.work / f"stage-{number}"
            subprocess.run(["/bin/cp", "--archive", "--reflink=auto", str(self._base), str(root)], check=True)
            last = number == len(self._recipe.stages) - 1
            state = self._run(stage, root, given, host, keep_layers=last)
            self._built[stage.name or str(number)] = root
        return _image(name, [tree_of(self._base), *state.layers], state)

    def _run(
        self, stage: RecipeStage, root: Path, given: Mapping[str, str], host: Path, *, keep_layers: bool
    ) -> _Stage:
        state = _Stage(root, {"PATH": _PATH}, {})
        for step in stage.steps:
            before = _snapshot(root) if keep_layers and step.name in ("RUN", "COPY") else None
            self._step(step, state, given, host)
            if before is not None:
                state.layers.append(_changes(root, before, _snapshot(root)))
        return state

    def _step(self, step: Instruction, state: _Stage, given: Mapping[str, str], host: Path) -> None:
        match step.name:
            case "COPY":
                self._copy(step, state)
            case "RUN":
                environment = {**_network(), **state.variables}
                cache = make_private(cache_dir() / "pip")
                words = ["/bin/sh", "-c", step.text]
                chroot.run_step(state.root, words, environment, host=host, cache=cache)
            case _:
                _configure(step, state, given)

    def _copy(self, step: Instruction, state: _Stage) -> None:
        words = containerfile.expand(step.text, state.variables).split()
        origin, ignored = self._context, self._ignored
        if words[0].startswith("--from="):
            origin, ignored = self._built[words.pop(0).removeprefix("--from=")], []
        *sources, target = words
        place = state.root / target.strip("/")
        for name in sources:
            source = origin / name.strip("/")
            if not source.exists() or containerfile.ignored(name.strip("/"), ignored):
                raise SandboxError(
                    f"COPY {name}: no such file in the context",
                    hint="see .dockerignore for what it leaves out",
                )
            if source.is_file():
                into = place / source.name if target.endswith("/") else place
                into.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, into)
            else:
                _copy_directory(source, place, origin, ignored)


def image_with(trees: Sequence[Tree], name: str, recipe: Path) -> Image:
    """An image of other files, which is started as the recipe says; no step runs."""
    read = containerfile.parse(recipe.read_text(encoding="utf-8"), file=str(recipe))
    state = _Stage(Path("/"), {"PATH": _PATH}, {})
    for step in read.stages[-1].steps:
        if step.name not in ("COPY", "RUN"):
            _configure(step, state, read.arguments)
    return _image(name, trees, state)


def _image(name: str, trees: Sequence[Tree], state: _Stage) -> Image:
    return Image(
        name,
        trees,
        entrypoint=state.entrypoint,
        arguments=state.command,
        environment=state.environment,
        labels=state.labels,
        user=state.user,
        directory=state.directory,
    )


def _configure(step: Instruction, state: _Stage, given: Mapping[str, str]) -> None:
    """Do a step that runs nothing and copies nothing."""
    match step.name:
        case "ARG":
            name, default = containerfile.argument(step)
            state.arguments[name] = given.get(name, default)
        case "ENV":
            state.environment |= containerfile.pairs(step, state.variables)
        case "LABEL":
            state.labels |= containerfile.pairs(step, state.variables)
        case "USER":
            state.user = containerfile.expand(step.text, state.variables)
        case "WORKDIR":
            state.directory = containerfile.expand(step.text, state.variables)
        case "ENTRYPOINT":
            state.entrypoint = containerfile.command(step)
        case _:
            state.command = containerfile.command(step)


def _copy_directory(source: Path, place: Path, origin: Path, ignored: Sequence[str]) -> None:
    """Copy what is in a directory, without what the context leaves out."""

    def left_out(directory: str, names: list[str]) -> set[str]:
        here = Path(directory).relative_to(origin)
        return {name for name in names if containerfile.ignored((here / name).as_posix(), ignored)}

    shutil.copytree(source, place, symlinks=True, dirs_exist_ok=True, ignore=left_out)


def _host_files(directory: Path) -> Path:
    """Files of this machine that a step needs to reach a package index; none is in a layer."""
    directory.mkdir(parents=True)
    files = {
        "resolv.conf": "/etc/resolv.conf",
        "pip.conf": "/etc/pip.conf",
        "ca.crt": os.environ.get("PIP_CERT", ""),
    }
    for name, source in files.items():
        if source and Path(source).is_file():
            shutil.copyfile(source, directory / name)
    return directory


def _network() -> dict[str, str]:
    """Settings of this process with which pip reaches a package index."""
    found = {name: value for name, value in os.environ.items() if name.startswith(_NETWORK)}
    found["PIP_CACHE_DIR"] = "/run/cache"
    if Path(found.get("PIP_CERT", "")).is_file():
        found["PIP_CERT"] = f"{_HOST}/ca.crt"
    if Path("/etc/pip.conf").is_file():
        found["PIP_CONFIG_FILE"] = f"{_HOST}/pip.conf"
    return found


def _walk(root: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Every file and directory of an image, without what belongs to the running machine."""
    for directory, names, files in os.walk(root):
        here = Path(directory).relative_to(root)
        if here.parts and here.parts[0] in _MACHINE:
            names.clear()
            continue
        for name in (*names, *files):
            yield (here / name).as_posix(), Path(directory, name).lstat()


def _snapshot(root: Path) -> _Snapshot:
    return {
        path: (status.st_mode, status.st_ino, status.st_size, status.st_ctime_ns)
        if not stat.S_ISDIR(status.st_mode)
        else (status.st_mode,)
        for path, status in _walk(root)
    }


def _changes(root: Path, before: _Snapshot, after: _Snapshot) -> Tree:
    """The layer of what a step changed; an empty file named ``.wh.NAME`` says that one was removed."""
    changed = {path for path, state in after.items() if before.get(path) != state}
    tree = tree_of(root, changed)
    for path in before.keys() - after.keys():
        parent, _, name = path.rpartition("/")
        if not parent or parent in after:
            tree[f"{parent}/.wh.{name}".lstrip("/")] = Text(b"")
    return tree


def tree_of(root: Path, chosen: set[str] | None = None) -> Tree:
    """The files below a directory as a layer: all, or the chosen ones."""
    tree: Tree = {}
    for path, status in _walk(root):
        if chosen is not None and path not in chosen:
            continue
        if stat.S_ISDIR(status.st_mode):
            tree[path] = Directory(stat.S_IMODE(status.st_mode) & 0o1777)
        elif stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode):
            tree[path] = Copy(root / path)
    return tree
