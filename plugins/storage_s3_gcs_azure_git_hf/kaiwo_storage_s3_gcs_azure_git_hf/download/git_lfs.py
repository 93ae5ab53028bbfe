"""Git LFS: replaces pointers in a tree by the files they point to, checked by SHA-256.

The batch API of Git LFS needs two requests per file at most, so no further program is needed. The content
stays in the state folder of the volume until all files are there, so an interrupted run goes on with it.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
from dataclasses import dataclass
from functools import partial
from http.client import PARTIAL_CONTENT, HTTPException
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from kaiwo_storage_s3_gcs_azure_git_hf.download import checksums, free_space
from kaiwo_storage_s3_gcs_azure_git_hf.download.errors import (
    ConfigError,
    DiskFullError,
    DownloadError,
    IntegrityError,
    NetworkError,
    NotAvailableError,
    is_disk_full,
    is_retryable_status,
)
from kaiwo_storage_s3_gcs_azure_git_hf.download.http_client import (
    HttpStatusError,
    RedirectError,
    check_status,
    crosses_origin,
)
from kaiwo_storage_s3_gcs_azure_git_hf.download.journal import fingerprint

if TYPE_CHECKING:
    from pathlib import Path

    from kaiwo_storage_s3_gcs_azure_git_hf.download.git_source import GitSource
    from kaiwo_storage_s3_gcs_azure_git_hf.download.progress import DownloadProgress

_MAX_POINTER_BYTES = 1024
_POINTER = re.compile(
    rb"version https://git-lfs\.github\.com/spec/v1\n(?:.*\n)*?oid sha256:([0-9a-f]{64})\nsize (\d+)\n"
)
_MEDIA_TYPE = "application/vnd.git-lfs+json"
_BATCH_SIZE = 100
_MAX_BATCH_RESPONSE = 4 * 1024**2
"""Bytes of a response of the batch API; one of 100 files with signed URLs has about 200 KiB."""

_CHUNK_BYTES = 1024**2
_FAILURES = (OSError, HTTPException, RedirectError, ValueError, KeyError, TypeError, AttributeError)
"""What a failed request raises, and a response that does not follow the batch API."""


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
    url = _batch_url(source, configured_url)
    wanted = list(stored)
    for start in range(0, len(wanted), _BATCH_SIZE):
        batch = wanted[start : start + _BATCH_SIZE]
        missing = {pointer for pointer in batch if _bytes_of(stored[pointer]) != pointer[1]}
        actions = _actions(source, url, missing) if missing else {}
        for pointer in batch:
            task = _LfsObject(source, url, names[pointer], pointer, stored[pointer])
            task.fetch(actions, progress)
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


def _credentials(source: GitSource, url: str) -> dict[str, str]:
    """The credentials of the item, if a URL is on the server that they are for."""
    item = source.item
    if not item.token or crosses_origin(urlsplit(item.repository), urlsplit(url)):
        return {}
    user = source.session.secret(source.where, item.username) if item.username else "x-access-token"
    token = source.session.secret(source.where, item.token)
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{token}".encode()).decode()}


def _batch_url(source: GitSource, configured: str | None) -> str:
    """The URL of the batch API; one from .lfsconfig was written by whoever can push to the repository."""
    own = source.item.repository.rstrip("/")
    url = (configured or f"{own.removesuffix('.git')}.git/info/lfs").rstrip("/")
    if urlsplit(url).scheme not in ("http", "https"):
        raise ConfigError(
            source.where,
            f"lfs.url in .lfsconfig of {own} is not an http or https URL",
            "choose another commit",
        )
    return f"{url}/objects/batch"


def _actions(source: GitSource, url: str, wanted: set[tuple[str, int]]) -> dict[str, dict[str, Any]]:
    """Where the server has content, by its SHA-256; the URLs are valid for a while."""
    return source.session.retry(partial(_request_actions, source, url, wanted))


def _request_actions(source: GitSource, url: str, wanted: set[tuple[str, int]]) -> dict[str, dict[str, Any]]:
    body = {
        "operation": "download",
        "transfers": ["basic"],
        "objects": [{"oid": oid, "size": size} for oid, size in wanted],
    }
    try:
        with source.session.http_client.send(
            "POST",
            url,
            headers={"Accept": _MEDIA_TYPE, "Content-Type": _MEDIA_TYPE},
            credentials=_credentials(source, url),
            body=json.dumps(body).encode(),
        ) as response:
            check_status(response)
            objects = json.loads(response.read(_MAX_BATCH_RESPONSE))["objects"]
            return {entry["oid"]: entry.get("actions", {}).get("download", {}) for entry in objects}
    except _FAILURES as error:
        raise _to_download_error(source, "LFS files", error) from None


@dataclass(frozen=True, slots=True)
class _LfsObject:
    """The content that a pointer names.

    Attributes:
        source: the repository.
        batch_url: URL of the batch API.
        name: name of a file that has it, for messages.
        pointer: its SHA-256 and its size.
        path: where it is stored until all files are there.
    """

    source: GitSource
    batch_url: str
    name: str
    pointer: tuple[str, int]
    path: Path

    def fetch(self, actions: dict[str, dict[str, Any]], progress: DownloadProgress) -> None:
        """Download what is missing of it, and check it.

        Raises:
            DownloadError: it cannot be downloaded, or does not match its pointer.
        """
        existing = _bytes_of(self.path)
        progress.skip(existing)
        self._download(actions, progress)
        if self._is_intact():
            return
        self.path.unlink()
        if existing:
            # What an earlier run wrote may have been lost with the node's memory.
            progress.add(-self.pointer[1])
            self._download(actions, progress)
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

    def _download(self, actions: dict[str, dict[str, Any]], progress: DownloadProgress) -> None:
        retry = self.source.session.retry
        try:
            retry(partial(self._resume, actions, progress))
        except NotAvailableError:
            # The URL may have expired while other files were downloaded.
            actions = _actions(self.source, self.batch_url, {self.pointer})
            retry(partial(self._resume, actions, progress))

    def _resume(self, actions: dict[str, dict[str, Any]], progress: DownloadProgress) -> None:
        """Download what is missing; the bytes stay when the connection breaks."""
        source, (oid, size) = self.source, self.pointer
        existing = _bytes_of(self.path)
        if existing == size and self.path.exists():
            return
        action = actions.get(oid)
        url = str(action.get("href") or "") if isinstance(action, dict) else ""
        if not isinstance(action, dict) or not url:
            raise NotAvailableError(
                source.where, f"LFS file {self.name} not found on the server", "push it with git lfs push"
            )
        try:
            with source.session.http_client.send(
                "GET",
                url,
                headers={"Range": f"bytes={existing}-"} if 0 < existing < size else None,
                credentials={**_credentials(source, url), **(action.get("header") or {})},
            ) as response:
                check_status(response)
                resumed = response.status == PARTIAL_CONTENT
                with self.path.open("ab" if resumed else "wb") as out:
                    have = out.tell()
                    progress.add(have - existing)
                    while have <= size and (data := response.read(_CHUNK_BYTES)):
                        out.write(data)
                        have += len(data)
                        progress.add(len(data))
                    out.flush()
                    os.fsync(out.fileno())
        except _FAILURES as error:
            raise _to_download_error(source, f"LFS file {self.name}", error) from None
        if have < size:
            raise NetworkError(
                source.where, f"LFS file {self.name}: response ended early", "run the download again"
            )


def _to_download_error(source: GitSource, what: str, error: Exception) -> DownloadError:
    name = f"{what} of {source.item.repository}"
    if blocked := source.session.proxy.last_blocked():
        return ConfigError(
            source.where, f"{name}: connection blocked: {blocked}", "use a host that workloads may reach"
        )
    if isinstance(error, RedirectError):
        return ConfigError(source.where, f"{name}: redirect blocked: {error}", "check the LFS server")
    if isinstance(error, HttpStatusError) and not is_retryable_status(error.status):
        return NotAvailableError(
            source.where, f"{name}: download failed: {error}", "check the token, and that the file exists"
        )
    if isinstance(error, OSError) and is_disk_full(error):
        return DiskFullError(source.where, f"{name}: no space left on the volume", "increase storageSize")
    cause = str(error) if isinstance(error, HttpStatusError) else "no valid response"
    return NetworkError(source.where, f"{name}: download failed: {cause}", "check the host and the network")
