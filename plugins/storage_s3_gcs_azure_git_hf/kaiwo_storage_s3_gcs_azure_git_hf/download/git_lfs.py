"""Git LFS: replaces pointers in a tree by the files they point to, checked by SHA-256.

The batch API of Git LFS needs two requests per file at most, so no further program is needed. The content
stays in the state folder of the volume until all files are there, so an interrupted run goes on with it.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import shutil
import threading
from dataclasses import dataclass, field
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
from kaiwo_storage_s3_gcs_azure_git_hf.download.parallel import run_parallel

if TYPE_CHECKING:
    from http.client import HTTPResponse
    from pathlib import Path

    from kaiwo_storage_s3_gcs_azure_git_hf.download.git_source import GitSource
    from kaiwo_storage_s3_gcs_azure_git_hf.download.progress import DownloadProgress

_MAX_POINTER_BYTES = 1024
_POINTER = re.compile(
    rb"version (?:https://git-lfs\.github\.com/spec/v1|https://hawser\.github\.com/spec/v1|"
    rb"http://git-media\.io/v/2)\r?\n(?:.*\n)*?oid sha256:([0-9a-f]{64})\r?\nsize (\d+)\r?(?:\n|\Z)"
)
"""What git-lfs takes for a pointer: its versions differ in the URL; the last line break may be missing."""

_MEDIA_TYPE = "application/vnd.git-lfs+json"
_BATCH_SIZE = 100
_PARALLEL_FILES = 4
_MAX_BATCH_RESPONSE = 4 * 1024**2
"""Bytes of a response of the batch API; one of 100 files with signed URLs has about 200 KiB."""

_MAX_ERROR_BODY = 64 * 1024
_MAX_REASON = 200
"""Characters of a server's own words in a message."""

_MISSING = (404, 410)
_PERMANENT = (501, 507, 509)
"""Server errors that another try does not change; LFS servers answer 509 when a quota is spent."""

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
    missing = [pointer for pointer, path in stored.items() if _bytes_of(path) != pointer[1]]
    batches = {
        pointer: batch
        for start in range(0, len(missing), _BATCH_SIZE)
        for batch in [_Batch(source, url, missing[start : start + _BATCH_SIZE])]
        for pointer in batch.wanted
    }
    tasks = [
        _LfsObject(
            source, batches.get(pointer) or _Batch(source, url, [pointer]), names[pointer], pointer, path
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


@dataclass(slots=True)
class _Batch:
    """Some files whose places are requested together, when the first of them is downloaded.

    Attributes:
        source: the repository.
        url: URL of the batch API.
        wanted: SHA-256 and size of each file.
    """

    source: GitSource
    url: str
    wanted: list[tuple[str, int]]
    _entries: dict[str, dict[str, Any]] | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def entry(self, oid: str) -> dict[str, Any]:
        """What the server says of a file; its URL is valid for a while."""
        with self._lock:
            if self._entries is None:
                request = partial(_request_entries, self.source, self.url, self.wanted)
                self._entries = self.source.session.retry(request)
            return self._entries.get(oid, {})

    def fresh_entry(self, pointer: tuple[str, int]) -> dict[str, Any]:
        """What the server says of a file now."""
        return _request_entries(self.source, self.url, [pointer]).get(pointer[0], {})


def _request_entries(source: GitSource, url: str, wanted: list[tuple[str, int]]) -> dict[str, dict[str, Any]]:
    """What the server says of files, by SHA-256."""
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
            _check_status(response)
            objects = json.loads(response.read(_MAX_BATCH_RESPONSE))["objects"]
            return {entry["oid"]: entry for entry in objects}
    except _FAILURES as error:
        raise _to_download_error(source, "LFS files", error) from None


def _check_status(response: HTTPResponse) -> None:
    """Check that a response has a status of success.

    Raises:
        HttpStatusError: it has another, with the server's message.
    """
    try:
        check_status(response)
    except HttpStatusError as error:
        reason = ""
        with contextlib.suppress(ValueError, OSError, HTTPException):
            answer = json.loads(response.read(_MAX_ERROR_BODY))
            reason = _reason(answer)
        raise HttpStatusError(error.status, reason, error.retry_after) from None


def _reason(answer: object) -> str:
    """The message in an error of the batch API; empty when there is none."""
    message = answer.get("message") if isinstance(answer, dict) else None
    return " ".join(message.split())[:_MAX_REASON] if isinstance(message, str) else ""


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
    batch: _Batch
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
        status, reason = _error_of(entry)
        if _is_transient(status):
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
        action = _action(entry)
        if url := str(action.get("href") or ""):
            return url
        status, reason = _error_of(entry)
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
        own = {} if entry.get("authenticated") is True else _credentials(source, url)
        try:
            with source.session.http_client.send(
                "GET",
                url,
                headers={"Range": f"bytes={existing}-"} if 0 < existing < size else None,
                credentials={**own, **(_action(entry).get("header") or {})},
            ) as response:
                _check_status(response)
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
        except _FAILURES as error:
            raise _to_download_error(source, f"LFS file {self.name}", error) from None
        if have < size:
            raise NetworkError(
                source.where, f"LFS file {self.name}: response ended early", "run the download again"
            )


def _action(entry: dict[str, Any]) -> dict[str, Any]:
    """How a file is downloaded; empty when the server does not say."""
    actions = entry.get("actions")
    action = actions.get("download") if isinstance(actions, dict) else None
    return action if isinstance(action, dict) else {}


def _error_of(entry: dict[str, Any]) -> tuple[int, str]:
    """Status and message of a file that the server does not give; 0 when it has no status."""
    error = entry.get("error")
    code = error.get("code") if isinstance(error, dict) else None
    return code if isinstance(code, int) else 0, _reason(error)


def _is_transient(status: int) -> bool:
    return is_retryable_status(status) and status not in _PERMANENT


def _to_download_error(source: GitSource, what: str, error: Exception) -> DownloadError:
    name = f"{what} of {source.item.repository}"
    if blocked := source.session.proxy.last_blocked():
        return ConfigError(
            source.where, f"{name}: connection blocked: {blocked}", "use a host that workloads may reach"
        )
    if isinstance(error, RedirectError):
        return ConfigError(source.where, f"{name}: redirect blocked: {error}", "check the LFS server")
    if isinstance(error, HttpStatusError) and not _is_transient(error.status):
        return NotAvailableError(
            source.where, f"{name}: download failed: {error}", "check the token, and that the file exists"
        )
    if isinstance(error, OSError) and is_disk_full(error):
        return DiskFullError(source.where, f"{name}: no space left on the volume", "increase storageSize")
    cause = str(error) if isinstance(error, HttpStatusError) else "no valid response"
    return NetworkError(
        source.where,
        f"{name}: download failed: {cause}",
        "check the host and the network",
        error.retry_after if isinstance(error, HttpStatusError) else 0.0,
    )
