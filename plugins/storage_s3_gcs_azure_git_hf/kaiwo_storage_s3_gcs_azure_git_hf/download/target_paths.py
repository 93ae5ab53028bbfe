"""Target paths: every file is inside its volume, and written by one item."""

# Paths are plain strings here: a plan of a hundred thousand files would be slow with Path objects.
# ruff: noqa: PTH103, PTH118, PTH120

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from kaiwo_storage_s3_gcs_azure_git_hf.download.errors import ConfigError

if TYPE_CHECKING:
    import tempfile
    from collections.abc import Iterable

STATE_FOLDER = ".kaiwo-download"
"""The state folder at the top of each volume: the journal, and files that are not whole."""

_SCRATCH_PREFIX = "git-"


class TargetVolume:
    """A mounted volume.

    Attributes:
        root: its real path.
    """

    def __init__(self, mount: str, name: str) -> None:
        self.root = os.path.realpath(mount)
        self._prepared: set[str] = set()
        if not Path(self.root).is_dir():
            raise ConfigError("", f"{name} {mount} is not a directory", "mount the volume there")

    def resolve(self, where: str, target: str) -> str:
        """Resolve `target`, a path relative to the volume, to an absolute path.

        Raises:
            ConfigError: it leaves the volume.
        """
        parts = target.split("/")
        if target.startswith("/") or ".." in parts or "\0" in target:
            raise ConfigError(where, f"path {target!r} leaves the volume", "use a relative path without '..'")
        names = [part for part in parts if part not in ("", ".")]
        if names[:1] == [STATE_FOLDER]:
            raise ConfigError(where, f"path {STATE_FOLDER} is reserved", "choose another targetPath")
        return os.path.join(self.root, *names)

    def prepare_folder(self, where: str, path: str) -> None:
        """Create the folder of `path`; a link on the way must not leave the volume.

        Raises:
            ConfigError: a link leaves the volume, or a file is where a folder should be.
        """
        folder = os.path.dirname(path)
        if folder in self._prepared:
            return
        self.check_inside(where, folder)
        try:
            os.makedirs(folder, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise ConfigError(
                where, f"{folder} exists and is not a folder", "remove it, or change targetPath"
            ) from None
        self._prepared.add(folder)

    def check_inside(self, where: str, folder: str) -> None:
        """A folder of the volume must not be a link that leaves it, nor below one.

        Raises:
            ConfigError: it is.
        """
        real = os.path.realpath(folder)
        if real != self.root and not real.startswith(self.root.rstrip("/") + "/"):
            raise ConfigError(where, f"{folder} is a symbolic link out of the volume", "remove the link")

    def ignores_case(self) -> bool:
        """Whether names that differ in case alone are one file, as on a share of a Windows server.

        Raises:
            OSError: the volume cannot be written.
        """
        return self.state_folder().with_name(STATE_FOLDER.upper()).exists()

    def state_folder(self) -> Path:
        """The state folder of the volume, created if needed.

        Raises:
            OSError: the volume cannot be written.
        """
        folder = Path(self.root, STATE_FOLDER)
        folder.mkdir(exist_ok=True)
        return folder

    def scratch_folder(self) -> tempfile.TemporaryDirectory[str]:
        """A temporary folder on the volume; the next run removes what a killed run left."""
        import tempfile

        return tempfile.TemporaryDirectory(prefix=_SCRATCH_PREFIX, dir=self.state_folder())

    def remove_leftovers(self) -> None:
        """Remove what killed runs left; no other run may be active."""
        for left in self.state_folder().glob(f"{_SCRATCH_PREFIX}*"):
            import shutil

            shutil.rmtree(left, ignore_errors=True)


def check_case(volume: TargetVolume, files: Iterable[tuple[str, str]]) -> None:
    """Check that files do not differ in case alone, where the volume would make one of them.

    Args:
        volume: the volume.
        files: item and absolute path of each.

    Raises:
        ConfigError: two do.
    """
    seen: dict[str, str] = {}
    for where, path in files:
        other = seen.setdefault(path.casefold(), path)
        if other != path and volume.ignores_case():
            one, two = (os.path.relpath(name, volume.root) for name in (other, path))
            raise ConfigError(
                where,
                f"{one} and {two} are one file on this volume, which ignores case",
                "rename one of them, or use a StorageClass whose volumes tell them apart",
            )


class TargetClaims:
    """Records which item writes which file."""

    def __init__(self) -> None:
        self._files: dict[str, str] = {}
        self._folders: dict[str, str] = {}

    def claim(self, where: str, path: str, root: str) -> None:
        """Claim `path` for an item.

        Raises:
            ConfigError: another item writes it too, or needs it as a folder.
        """
        other = self._files.get(path) or self._folders.get(path)
        folders = []
        folder = os.path.dirname(path)
        while other is None and len(folder) > len(root) and folder not in self._folders:
            other = self._files.get(folder)
            folders.append(folder)
            folder = os.path.dirname(folder)
        if other is not None:
            shown = os.path.relpath(path, root)
            if other == where:
                raise ConfigError(
                    where,
                    f"{shown} is both a file and a folder",
                    "rename the object, or name a folder, glob or files without it",
                )
            raise ConfigError(where, f"target {shown} is also written by {other}", "change one targetPath")
        self._files[path] = where
        for name in folders:
            self._folders[name] = where
