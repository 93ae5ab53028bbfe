"""What a repository left on the volume, so that a run over an unchanged one fetches nothing."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import msgspec

from kaiwo_storage_s3_gcs_azure_git_hf.download.journal import fingerprint


class _Record(msgspec.Struct):
    """A finished checkout: its commit, and of every file size and time of the last change in nanoseconds."""

    commit: str
    files: dict[str, tuple[int, int]]


class Record:
    """The record of one item: of a repository, the path of it, and the folder it went to."""

    def __init__(self, own: Path, target: str, *what: object) -> None:
        self._file = own / f"repository-{fingerprint(target, *what)}.json"
        self._target = target
        self._known: _Record | None = None
        with contextlib.suppress(OSError, msgspec.DecodeError):
            self._known = msgspec.json.decode(self._file.read_bytes(), type=_Record)

    @property
    def commit(self) -> str | None:
        """The commit whose files are all there, untouched; None when there is none."""
        if self._known is None or not all(map(self._untouched, self._known.files)):
            return None
        return self._known.commit

    @property
    def files(self) -> list[str]:
        """Paths of the files, relative to the folder."""
        return list(self._known.files) if self._known else []

    def finish(self, commit: str, files: list[str]) -> None:
        """Note what is there now, and remove what an earlier commit left and nobody touched."""
        kept = set(files)
        for name in self.files:
            if name not in kept and self._untouched(name):
                Path(self._target, name).unlink()
        self._known = _Record(commit, {name: self._now(name) for name in files})
        fresh = self._file.with_suffix(".new")
        fresh.write_bytes(msgspec.json.encode(self._known))
        fresh.replace(self._file)

    def _now(self, name: str) -> tuple[int, int]:
        found = os.lstat(Path(self._target, name))
        return found.st_size, found.st_mtime_ns

    def _untouched(self, name: str) -> bool:
        with contextlib.suppress(OSError):
            return self._known is not None and self._now(name) == self._known.files[name]
        return False
