"""The batch API of Git LFS: where the content of files is, and what a server says of those it does not give.

It needs two requests per file at most, so no further program is needed.
"""

from __future__ import annotations

import base64
import contextlib
import json
import threading
from dataclasses import dataclass, field
from functools import partial
from http.client import HTTPException
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from kaiwo_storage_s3_gcs_azure_git_hf.download.errors import (
    ConfigError,
    DiskFullError,
    DownloadError,
    NetworkError,
    NotAvailableError,
    is_disk_full,
    is_retryable_status,
    reason_of,
    requested_wait,
)
from kaiwo_storage_s3_gcs_azure_git_hf.download.http_client import (
    HttpStatusError,
    RedirectError,
    check_status,
    crosses_origin,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from http.client import HTTPResponse

    from kaiwo_storage_s3_gcs_azure_git_hf.download.git_source import GitSource

_MEDIA_TYPE = "application/vnd.git-lfs+json"
_BATCH_SIZE = 100
_MAX_BATCH_RESPONSE = 4 * 1024**2
"""Bytes of a response of the batch API; one of 100 files with signed URLs has about 200 KiB."""

_MAX_ERROR_BODY = 64 * 1024

_PERMANENT = (501, 507, 509)
"""Server errors that another try does not change; LFS servers answer 509 when a quota is spent."""

FAILURES = (OSError, HTTPException, RedirectError, ValueError, KeyError, TypeError, AttributeError)
"""What a failed request raises, and a response that does not follow the batch API."""


def credentials(source: GitSource, url: str) -> dict[str, str]:
    """The credentials of the item, if a URL is on the server that they are for."""
    item = source.item
    if not item.token or crosses_origin(urlsplit(item.repository), urlsplit(url)):
        return {}
    user = source.session.secret(source.where, item.username) if item.username else "x-access-token"
    token = source.session.secret(source.where, item.token)
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{token}".encode()).decode()}


def batch_url(source: GitSource, configured: str | None) -> str:
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
class Batch:
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


def in_batches(source: GitSource, url: str, wanted: Sequence[tuple[str, int]]) -> Iterator[Batch]:
    """Files in batches of the size that servers take.

    Args:
        source: the repository.
        url: URL of the batch API.
        wanted: SHA-256 and size of each file.
    """
    for start in range(0, len(wanted), _BATCH_SIZE):
        yield Batch(source, url, list(wanted[start : start + _BATCH_SIZE]))


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
            credentials=credentials(source, url),
            body=json.dumps(body).encode(),
        ) as response:
            check_answer(response)
            objects = json.loads(response.read(_MAX_BATCH_RESPONSE))["objects"]
            return {entry["oid"]: entry for entry in objects}
    except FAILURES as error:
        raise to_download_error(source, "LFS files", error) from None


def check_answer(response: HTTPResponse) -> None:
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
    return reason_of(message) if isinstance(message, str) else ""


def action_of(entry: dict[str, Any]) -> dict[str, Any]:
    """How a file is downloaded; empty when the server does not say."""
    actions = entry.get("actions")
    action = actions.get("download") if isinstance(actions, dict) else None
    return action if isinstance(action, dict) else {}


def error_of(entry: dict[str, Any]) -> tuple[int, str]:
    """Status and message of a file that the server does not give; 0 when it has no status."""
    error = entry.get("error")
    code = error.get("code") if isinstance(error, dict) else None
    return code if isinstance(code, int) else 0, _reason(error)


def is_transient(status: int) -> bool:
    """Whether another try may change an answer with this status."""
    return is_retryable_status(status) and status not in _PERMANENT


def to_download_error(source: GitSource, what: str, error: Exception) -> DownloadError:
    """The error for what a request raised.

    Args:
        source: the repository.
        what: was requested, for messages.
        error: one of `FAILURES`.
    """
    name = f"{what} of {source.item.repository}"
    if blocked := source.session.proxy.last_blocked():
        return ConfigError(
            source.where, f"{name}: connection blocked: {blocked}", "use a host that workloads may reach"
        )
    if isinstance(error, RedirectError):
        return ConfigError(source.where, f"{name}: redirect blocked: {error}", "check the LFS server")
    if isinstance(error, HttpStatusError) and not is_transient(error.status):
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
        requested_wait(error),
    )
