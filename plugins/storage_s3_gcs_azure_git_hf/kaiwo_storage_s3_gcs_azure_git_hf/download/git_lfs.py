"""Git LFS: replaces pointers in a tree by the files they point to, checked by SHA-256.

The batch API of Git LFS needs two requests per file at most, so no further program is needed.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from functools import partial
from http.client import HTTPException
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from kaiwo_storage_s3_gcs_azure_git_hf.download import free_space
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
    progress.expect(size)
    free_space.check_free_space(source.where, source.volume, size)
    url = _batch_url(source, configured_url)
    names = list(pointers)
    for start in range(0, len(names), _BATCH_SIZE):
        batch = names[start : start + _BATCH_SIZE]
        wanted = {pointers[path] for path in batch}
        actions = source.session.retry(partial(_request_actions, source, url, wanted))
        for path in batch:
            source.session.retry(partial(_download, source, path, pointers[path], actions, progress))


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


def _download(
    source: GitSource,
    path: Path,
    pointer: tuple[str, int],
    actions: dict[str, dict[str, Any]],
    progress: DownloadProgress,
) -> None:
    oid, size = pointer
    action = actions.get(oid)
    url = str(action.get("href") or "") if isinstance(action, dict) else ""
    if not isinstance(action, dict) or not url:
        raise NotAvailableError(
            source.where, f"LFS file {path.name} not found on the server", "push it with git lfs push"
        )
    digest, received = hashlib.sha256(), 0
    partial_path = path.with_name(f".{oid}.part")  # a name that no file of the tree has
    try:
        credentials = {**_credentials(source, url), **(action.get("header") or {})}
        with (
            source.session.http_client.send("GET", url, credentials=credentials) as response,
            partial_path.open("wb") as out,
        ):
            check_status(response)
            while received <= size and (data := response.read(_CHUNK_BYTES)):
                digest.update(data)
                out.write(data)
                received += len(data)
                progress.add(len(data))
            out.flush()
            os.fsync(out.fileno())
    except _FAILURES as error:
        progress.add(-received)
        raise _to_download_error(source, f"LFS file {path.name}", error) from None
    if received != size or digest.hexdigest() != oid:
        raise IntegrityError(
            source.where, f"LFS file {path.name} does not match its pointer", "check the copy on the server"
        )
    partial_path.replace(path)


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
