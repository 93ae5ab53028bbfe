"""Which files a folder consists of: what git tracks and what is new, or everything without git."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from kaiwo.client.errors import ClientError
from kaiwo.client.shipping_ignore import IgnoreRules

if TYPE_CHECKING:
    from collections.abc import Iterator

IGNORE_FILE = ".kaiwoignore"
"""Patterns as in ``.gitignore``, in the folder itself; they count with git too, for what git tracks."""

_NEVER = frozenset({".git", "__pycache__", ".hg", ".svn"})
"""Folders that are never shipped without git."""


class ShippingError(ClientError):
    """A folder cannot be shipped; nothing was sent."""

    exit_code = 2


def read_rules(root: Path) -> IgnoreRules:
    """The lines of the folder's ``.kaiwoignore``; none without it.

    Raises:
        ShippingError: it cannot be read.
    """
    path = root / IGNORE_FILE
    try:
        return IgnoreRules(path.read_text(encoding="utf-8-sig", errors="surrogateescape").splitlines())
    except FileNotFoundError:
        return IgnoreRules()
    except OSError as error:
        raise ShippingError(f"{path}: cannot be read: {error.strerror}", "check its permissions") from error


def list_paths(root: Path, rules: IgnoreRules) -> list[str]:
    """The paths of all files, symbolic links and empty folders, relative, with slashes and sorted.

    Folders end with a slash. Nothing below a symbolic link is listed.

    Args:
        root: the folder.
        rules: what is left out.

    Raises:
        ShippingError: the folder or git's answer cannot be read.
    """
    try:
        found = _of_git(root) if _in_work_tree(root) else _of_walk(root, rules)
    except OSError as error:
        where = error.filename or root
        raise ShippingError(f"{where}: cannot be read: {error.strerror}", "check its permissions") from error
    folders = _Folders(root)
    return sorted(
        path
        for path in set(found)
        if folders.real(path) and not rules.ignored(path.rstrip("/"), folder=path.endswith("/"))
    )


class _Folders:
    """Which folders below the root are real ones; git lists files below a folder that became a link."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._known: dict[str, bool] = {"": True}

    def real(self, path: str) -> bool:
        """Whether no folder above a path is a symbolic link."""
        above = path.rstrip("/").rpartition("/")[0]
        if above not in self._known:
            self._known[above] = self.real(above) and not (self._root / above).is_symlink()
        return self._known[above]


def _in_work_tree(root: Path) -> bool:
    if shutil.which("git") is None:
        return False
    answer = subprocess.run(
        ["git", "-C", os.fspath(root), "rev-parse", "--is-inside-work-tree"],  # noqa: S607 -- the user's own git
        check=False,
        capture_output=True,
        env=_environment(),
    )
    if answer.returncode:
        # No repository, or one that git does not trust: then its ignore rules must not be passed over.
        said = answer.stderr.decode(errors="replace").strip()
        if "not a git repository" not in said:
            raise ShippingError(f"{root}: git cannot read it: {said}", "git status; or --no-sync")
        return False
    if answer.stdout.strip() != b"true":
        return False
    # A folder that an outer repository ignores, for example a scratch folder, is not the repository's.
    ignored = subprocess.run(
        ["git", "-C", os.fspath(root), "check-ignore", "-q", "."],  # noqa: S607
        check=False,
        capture_output=True,
        env=_environment(),
    )
    return ignored.returncode != 0


def _of_git(root: Path) -> Iterator[str]:
    """What git tracks and exists, what is new and not ignored, and new empty folders."""
    for path in _git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"):
        full = root / path
        if path.endswith("/") or (full.is_dir() and not full.is_symlink()):
            # A submodule, or a repository inside this one: it has ignore rules of its own.
            inner = path.rstrip("/")
            below = _of_git(full) if _in_work_tree(full) else _of_walk(full, IgnoreRules())
            yield from (f"{inner}/{item}" for item in below)
        elif os.path.lexists(full):
            yield path
    new = _git(root, "ls-files", "-z", "--others", "--exclude-standard", "--directory")
    empty = [item for path in new if path.endswith("/") for item in _empty_folders(root, path.rstrip("/"))]
    ignored = set(_git(root, "check-ignore", "-z", "--stdin", lines=empty)) if empty else set()
    yield from (f"{path}/" for path in empty if path not in ignored)


def _empty_folders(root: Path, folder: str) -> Iterator[str]:
    for here, folders, files in os.walk(root / folder):
        if ".git" in folders or ".git" in files:
            folders.clear()
        elif not folders and not files:
            yield Path(here).relative_to(root).as_posix()


def _git(root: Path, *args: str, lines: list[str] | None = None) -> list[str]:
    """The answer of git, a list of names that end with NUL."""
    answer = subprocess.run(
        ["git", "-C", os.fspath(root), *args],  # noqa: S607
        check=False,
        capture_output=True,
        input=None if lines is None else b"".join(os.fsencode(line) + b"\0" for line in lines),
        env=_environment(),
    )
    if answer.returncode > 1 or (answer.returncode and args[0] != "check-ignore"):
        said = answer.stderr.decode(errors="replace").strip()
        raise ShippingError(f"{root}: git {args[0]} failed: {said}", "git status; or --no-sync")
    return [os.fsdecode(name) for name in answer.stdout.split(b"\0") if name]


def _environment() -> dict[str, str]:
    """Messages in English, no locks, and the repository that the folder is in, whatever a hook has set."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    return {**kept, "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"}


def _of_walk(root: Path, rules: IgnoreRules) -> Iterator[str]:
    """Everything, and nothing below ignored folders."""

    def fail(error: OSError) -> None:
        raise error

    for here, folders, files in os.walk(root, onerror=fail):
        below = Path(here).relative_to(root).as_posix()
        prefix = "" if below == "." else f"{below}/"
        links = [name for name in folders if (Path(here) / name).is_symlink()]
        folders[:] = [
            name
            for name in folders
            if name not in _NEVER and name not in links and not rules.ignored(prefix + name, folder=True)
        ]
        yield from (prefix + name for name in (*files, *links) if name not in _NEVER)
        if prefix and not folders and not files and not links:
            yield prefix
