"""Where files may be written: inside the volume, each by one item."""

# Paths are plain strings here: a plan of a hundred thousand files would be slow with Path objects.
# ruff: noqa: PTH103, PTH118, PTH120

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from kaiwo_storage_s3_gcs_azure_git_hf.download.errors import ConfigError

if TYPE_CHECKING:
    import tempfile

OWN_FOLDER = ".kaiwo-download"
"""Folder of the program's journal and of unfinished work, at the top of each volume."""


_SCRATCH = "git-"


class Volume:
    """A mounted volume.

    Attributes:
        root: its real path.
    """

    def __init__(self, mount: str, what: str) -> None:
        self.root = os.path.realpath(mount)
        self._made: set[str] = set()
        if not Path(self.root).is_dir():
            raise ConfigError("", f"{what} {mount} is no directory", "mount the volume there")

    def place(self, where: str, target: str) -> str:
        """The absolute path of `target`, a path relative to the volume.

        Raises:
            ConfigError: it leaves the volume.
        """
        parts = target.split("/")
        if target.startswith("/") or ".." in parts or "\0" in target:
            raise ConfigError(where, f"{target!r} leaves the volume", "write a path below it, without '..'")
        names = [part for part in parts if part not in ("", ".")]
        if names[:1] == [OWN_FOLDER]:
            raise ConfigError(where, f"{OWN_FOLDER} is the download's own", "choose another targetPath")
        return os.path.join(self.root, *names)

    def ready(self, where: str, path: str) -> None:
        """Make the folder of `path`, and refuse links on the way that leave the volume.

        Raises:
            ConfigError: a link leaves the volume, or something that is no folder is in the way.
        """
        folder = os.path.dirname(path)
        if folder in self._made:
            return
        real = os.path.realpath(folder)
        if real != self.root and not real.startswith(self.root.rstrip("/") + "/"):
            raise ConfigError(where, f"{folder} is a link out of the volume", "remove the link")
        try:
            os.makedirs(folder, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise ConfigError(
                where, f"{folder} is a file and should be a folder", "remove it, or change targetPath"
            ) from None
        self._made.add(folder)

    def own(self) -> Path:
        """The program's own folder.

        Raises:
            OSError: the volume cannot be written.
        """
        folder = Path(self.root, OWN_FOLDER)
        folder.mkdir(exist_ok=True)
        return folder

    def scratch(self) -> tempfile.TemporaryDirectory[str]:
        """A folder on the volume that goes when it is left; of a run that was killed, with the next one."""
        import tempfile

        return tempfile.TemporaryDirectory(prefix=_SCRATCH, dir=self.own())

    def clean(self) -> None:
        """Remove what killed runs left; there must be no other run."""
        for left in self.own().glob(f"{_SCRATCH}*"):
            import shutil

            shutil.rmtree(left, ignore_errors=True)


class Targets:
    """Which item writes which file."""

    def __init__(self) -> None:
        self._by: dict[str, str] = {}
        self._folders: dict[str, str] = {}

    def claim(self, where: str, path: str, root: str) -> None:
        """Note that an item writes `path`.

        Raises:
            ConfigError: another writes it too, or needs it as a folder.
        """
        other = self._by.get(path) or self._folders.get(path)
        folders = []
        folder = os.path.dirname(path)
        while other is None and len(folder) > len(root) and folder not in self._folders:
            other = self._by.get(folder)
            folders.append(folder)
            folder = os.path.dirname(folder)
        if other is not None:
            shown = os.path.relpath(path, root)
            if other == where:
                what = f"has a file for {shown} and files below or above it, which no volume can hold"
                raise ConfigError(
                    where, what, "rename the object, or name a folder, glob or files without it"
                )
            raise ConfigError(where, f"writes {shown}, as {other} does", "give one another targetPath")
        self._by[path] = where
        for name in folders:
            self._folders[name] = where
