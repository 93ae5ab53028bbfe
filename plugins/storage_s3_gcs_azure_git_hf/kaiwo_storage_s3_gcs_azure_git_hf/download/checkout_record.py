"""Records of finished git checkouts, so that a run over an unchanged repository fetches nothing."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import msgspec

from kaiwo_storage_s3_gcs_azure_git_hf.download.journal import fingerprint


class _FinishedCheckout(msgspec.Struct):
    """A finished checkout: its commit, and size and modification time in nanoseconds of every file."""

    commit: str
    files: dict[str, tuple[int, int]]
    lfs: bool = False


class CheckoutRecord:
    """The record of one repository, path and target folder."""

    def __init__(self, state_folder: Path, target: str, *identity: object, lfs: bool) -> None:
        self._file = state_folder / f"repository-{fingerprint(target, *identity)}.json"
        self._target = target
        self._lfs = lfs
        self._known: _FinishedCheckout | None = None
        with contextlib.suppress(OSError, msgspec.DecodeError):
            self._known = msgspec.json.decode(self._file.read_bytes(), type=_FinishedCheckout)

    @property
    def commit(self) -> str | None:
        """The commit whose files are all there and unmodified; None when there is none."""
        if (
            self._known is None
            or self._known.lfs != self._lfs
            or not all(map(self._is_unmodified, self.files))
        ):
            return None
        return self._known.commit

    @property
    def files(self) -> list[str]:
        """Paths of the files, relative to the folder."""
        return [_name(text) for text in self._known.files] if self._known else []

    def finish(self, commit: str, files: list[str]) -> None:
        """Record the files that are there now, and remove unmodified files of an earlier commit."""
        kept = set(files)
        for name in self.files:
            if name not in kept and self._is_unmodified(name):
                Path(self._target, name).unlink()
        self._known = _FinishedCheckout(commit, {_text(name): self._stat(name) for name in files}, self._lfs)
        temporary = self._file.with_suffix(".new")
        temporary.write_bytes(msgspec.json.encode(self._known))
        temporary.replace(self._file)

    def _stat(self, name: str) -> tuple[int, int]:
        found = os.lstat(Path(self._target, name))
        return found.st_size, found.st_mtime_ns

    def _is_unmodified(self, name: str) -> bool:
        with contextlib.suppress(OSError):
            return self._known is not None and self._stat(name) == self._known.files[_text(name)]
        return False


def _text(name: str) -> str:
    """A file name as JSON has it: one that is not UTF-8 as Latin-1 after a NUL, which no name contains."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return "\0" + os.fsencode(name).decode("latin-1")
    return name


def _name(text: str) -> str:
    """The file name of such a text."""
    return os.fsdecode(text[1:].encode("latin-1")) if text.startswith("\0") else text
