"""Git LFS: replaces pointers in a tree by the files they point to, checked by SHA-256.

The content stays in the state folder of the volume until all files are there, so an interrupted run goes on
with it.
"""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from functools import partial
from http.client import PARTIAL_CONTENT
from typing import TYPE_CHECKING, Any

from kaiwo_storage_s3_gcs_azure_git_hf.download import checksums, free_space
from kaiwo_storage_s3_gcs_azure_git_hf.download.errors import IntegrityError, NetworkError, NotAvailableError
from kaiwo_storage_s3_gcs_azure_git_hf.download.http_client import HttpStatusError
from kaiwo_storage_s3_gcs_azure_git_hf.download.journal import fingerprint
from kaiwo_storage_s3_gcs_azure_git_hf.download.lfs_batch import (
    FAILURES,
    Batch,
    action_of,
    batch_url,
    check_answer,
    credentials,
    error_of,
    in_batches,
    is_transient,
    to_download_error,
)
from kaiwo_storage_s3_gcs_azure_git_hf.download.parallel import run_parallel

if TYPE_CHECKING:
    from pathlib import Path

    from kaiwo_storage_s3_gcs_azure_git_hf.download.git_source import GitSource
    from kaiwo_storage_s3_gcs_azure_git_hf.download.progress import DownloadProgress

_MAX_POINTER_BYTES = 1024
_POINTER = re.compile(
    rb"version (?:https://git-lfs\.github\.com/spec/v1|https://hawser\.github\.com/spec/v1|"
    rb"http://git-media\.io/v/2)\r?\n(?:.*\n)*?oid sha256:([0-9a-f]{64})\r?\nsize (\d+)\r?(?:\n|\Z)"
)
"""What git-lfs takes for a pointer: its versions differ in the URL; the last line break may be missing."""

_PARALLEL_FILES = 4
_MISSING = (404, 410)
_CHUNK_BYTES = 1024**2


def fetch(source: GitSource, tree: Path, progress: DownloadProgress, configured_url: str | None) -> None:
    """Replace the LFS pointers in a tree.

    Args:
        source: the repository.
        tree: its tree.
        progress: counts the bytes.
        configured_url: the LFS server in the repository's .lfsconfig; None for its own server.

    Raises:
        DownloadError: a file cannot be downloaded, or does not match its pointer.
    """
    pointers = _find_pointers(tree)
    size = sum(size for _, size in pointers.values())
    source.session.budget.add(source.where, files=0, size=size)
    names = {pointer: path.name for path, pointer in pointers.items()}
    stored = {pointer: _stored_path(source, pointer) for pointer in names}
    progress.expect(sum(size for _, size in stored))
    left = sum(size - _bytes_of(path) for (_, size), path in stored.items())
    copies = size - sum(size for _, size in stored)
    free_space.check_free_space(source.where, source.volume, max(left, 0) + copies)
    url = batch_url(source, configured_url)
    missing = [pointer for pointer, path in stored.items() if _bytes_of(path) != pointer[1]]
    batches = {pointer: batch for batch in in_batches(source, url, missing) for pointer in batch.wanted}
    tasks = [
        _LfsObject(
            source, batches.get(pointer) or Batch(source, url, [pointer]), names[pointer], pointer, path
        )
        for pointer, path in stored.items()
    ]
    actions = [partial(task.fetch, progress) for task in tasks]
    run_parallel(actions, _PARALLEL_FILES, "lfs", source.session.stop)
    _put_in_place(pointers, stored)
    for path in source.volume.state_folder().glob(f"{_prefix(source)}*"):
        path.unlink()


def _put_in_place(pointers: dict[Path, tuple[str, int]], stored: dict[tuple[str, int], Path]) -> None:
    """Replace the pointers in a tree; several may point to the same content."""
    last = {pointer: path for path, pointer in pointers.items()}
    for path, pointer in pointers.items():
        if last[pointer] != path:
            copied = path.with_name(f".{pointer[0]}.part")  # a name that no file of the tree has
            shutil.copyfile(stored[pointer], copied)
            copied.replace(path)
    for pointer, path in last.items():
        stored[pointer].replace(path)


def _prefix(source: GitSource) -> str:
    """What the names of the content of an item begin with, in the state folder."""
    return f"lfs-{fingerprint(source.target, source.item.repository, source.item.part)}-"


def _stored_path(source: GitSource, pointer: tuple[str, int]) -> Path:
    return source.volume.state_folder() / f"{_prefix(source)}{pointer[0]}"


def _bytes_of(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def warn_of_pointers(source: GitSource, tree: Path) -> None:
    """Warn when a tree has LFS pointers that the item does not want to be replaced."""
    if count := len(_find_pointers(tree)):
        noun = "pointer was" if count == 1 else "pointers were"
        source.session.warn(
            source.where,
            f"{count} LFS {noun} not replaced; set lfs: true to download them",
        )


def _find_pointers(tree: Path) -> dict[Path, tuple[str, int]]:
    found = {}
    for path in tree.rglob("*") if tree.is_dir() else [tree]:
        if path.is_symlink() or not path.is_file():
            continue
        if path.stat().st_size <= _MAX_POINTER_BYTES and (match := _POINTER.match(path.read_bytes())):
            found[path] = (match[1].decode(), int(match[2]))
    return found


@dataclass(frozen=True, slots=True)
class _LfsObject:
    """The content that a pointer names.

    Attributes:
        source: the repository.
        batch: tells where it is.
        name: name of a file that has it, for messages.
        pointer: its SHA-256 and its size.
        path: where it is stored until all files are there.
    """

    source: GitSource
    batch: Batch
    name: str
    pointer: tuple[str, int]
    path: Path

    def fetch(self, progress: DownloadProgress) -> None:
        """Download what is missing of it, and check it.

        Raises:
            DownloadError: it cannot be downloaded, or does not match its pointer.
        """
        existing = _bytes_of(self.path)
        progress.skip(existing)
        self._download(progress)
        if self._is_intact():
            return
        self.path.unlink()
        if existing:
            # What an earlier run wrote may have been lost with the node's memory.
            progress.add(-self.pointer[1])
            self._download(progress)
            if self._is_intact():
                return
            self.path.unlink()
        raise IntegrityError(
            self.source.where,
            f"LFS file {self.name} does not match its pointer",
            "check the copy on the server",
        )

    def _is_intact(self) -> bool:
        return checksums.sha256_of(self.path) == self.pointer[0]

    def _download(self, progress: DownloadProgress) -> None:
        if self.path.exists() and _bytes_of(self.path) == self.pointer[1]:
            return
        retry = self.source.session.retry
        entry = self.batch.entry(self.pointer[0])
        try:
            retry(partial(self._resume, entry, progress))
        except NotAvailableError:
            # The URL may have expired while other files were downloaded.
            retry(partial(self._resume_anew, progress))

    def _resume_anew(self, progress: DownloadProgress) -> None:
        """Ask where it is, and download what is missing."""
        entry = self.batch.fresh_entry(self.pointer)
        status, reason = error_of(entry)
        if is_transient(status):
            raise NetworkError(
                self.source.where,
                f"LFS file {self.name}: download failed: {HttpStatusError(status, reason)}",
                "check the LFS server",
            )
        self._resume(entry, progress)

    def _url(self, entry: dict[str, Any]) -> str:
        """Where it is.

        Raises:
            NotAvailableError: the server does not have it, or does not give it.
        """
        action = action_of(entry)
        if url := str(action.get("href") or ""):
            return url
        status, reason = error_of(entry)
        if not status or status in _MISSING:
            said = f" ({reason})" if reason else ""
            raise NotAvailableError(
                self.source.where,
                f"LFS file {self.name} not found on the server{said}",
                "push it with git lfs push",
            )
        raise NotAvailableError(
            self.source.where,
            f"LFS file {self.name} refused by the server: {HttpStatusError(status, reason)}",
            "check the token, and the LFS server",
        )

    def _resume(self, entry: dict[str, Any], progress: DownloadProgress) -> None:
        """Download what is missing; the bytes stay when the connection breaks."""
        source, size = self.source, self.pointer[1]
        existing = _bytes_of(self.path)
        if existing == size and self.path.exists():
            return
        url = self._url(entry)
        # A signature in the URL does not go with a header that has another.
        own = {} if entry.get("authenticated") is True else credentials(source, url)
        try:
            with source.session.http_client.send(
                "GET",
                url,
                headers={"Range": f"bytes={existing}-"} if 0 < existing < size else None,
                credentials={**own, **(action_of(entry).get("header") or {})},
            ) as response:
                check_answer(response)
                resumed = response.status == PARTIAL_CONTENT
                with self.path.open("ab" if resumed else "wb") as out:
                    have = out.tell()
                    progress.add(have - existing)
                    while (
                        have <= size
                        and not source.session.stop.is_set()
                        and (data := response.read(_CHUNK_BYTES))
                    ):
                        out.write(data)
                        have += len(data)
                        progress.add(len(data))
                    out.flush()
                    os.fsync(out.fileno())
        except FAILURES as error:
            raise to_download_error(source, f"LFS file {self.name}", error) from None
        if have < size:
            raise NetworkError(
                source.where, f"LFS file {self.name}: response ended early", "run the download again"
            )
