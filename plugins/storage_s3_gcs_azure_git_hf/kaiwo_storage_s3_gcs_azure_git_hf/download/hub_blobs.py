"""Large files of the Hub that come over plain HTTP, fetched so that a run goes on where the last one ended.

The Hub's client begins such a file anew in every process. Here what came is kept below the program's own
folder until the file is whole and has the SHA-256 that the Hub names it by; then it is put where the client
looks for it. Files in Xet storage are the client's.
"""

from __future__ import annotations

import http.client
import importlib.util
import os
import re
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from kaiwo_storage_s3_gcs_azure_git_hf.download import checks, errors

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from kaiwo_storage_s3_gcs_azure_git_hf.download.progress import Progress
    from kaiwo_storage_s3_gcs_azure_git_hf.download.session import Session

LEAST = 16 * 1024**2
"""Bytes from which a file is worth it; the client writes in pieces of 10 MiB."""

_SHA256 = re.compile(r"[0-9a-f]{64}")
_VERIFIED = ".kaiwo-verified"
_PIECE = 1024**2
_AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class Blob:
    """A file of a repository.

    Attributes:
        where: the item, for messages.
        name: repository and file, for messages.
        url: where the Hub serves it, or redirects from.
        digest: its SHA-256.
        size: bytes.
        path: where the client looks for it.
    """

    where: str
    name: str
    url: str
    digest: str
    size: int
    path: Path


def _folder(cache: Path, repo_id: str) -> Path:
    """Where the client keeps the content of a repository's files."""
    return cache / f"models--{repo_id.replace('/', '--')}" / "blobs"


def clean(cache: Path, repo_id: str) -> None:
    """Remove what clients that were killed left of a repository; none goes on with it."""
    for left in _folder(cache, repo_id).glob("*.incomplete"):
        left.unlink(missing_ok=True)


def wanted(where: str, repo_id: str, infos: Iterable[Any], endpoint: str, cache: Path) -> list[Blob]:
    """Of the files that the client would fetch, those that are fetched here.

    Args:
        where: the item, for messages.
        repo_id: the repository.
        infos: the client's plan.
        endpoint: URL of the Hub.
        cache: the client's cache folder.

    Raises:
        Exception: the Hub could not be asked.
    """
    from huggingface_hub import (
        constants,
        get_hf_file_metadata,
        hf_hub_url,
    )

    xet = importlib.util.find_spec("hf_xet") is not None and not constants.HF_HUB_DISABLE_XET
    blobs = _folder(cache, repo_id)
    found = []
    for info in infos:
        if not info.will_download or (info.file_size or 0) < LEAST:
            continue
        url = hf_hub_url(repo_id, info.filename, revision=info.commit_hash, endpoint=endpoint)
        known = get_hf_file_metadata(url, endpoint=endpoint, token=_token() or False)
        digest = known.etag or ""
        in_xet = xet and known.xet_file_data is not None
        if in_xet or not _SHA256.fullmatch(digest) or (blobs / digest).exists():
            continue
        name = f"{info.filename} of {repo_id}"
        found.append(Blob(where, name, url, digest, info.file_size, blobs / digest))
    return list({blob.digest: blob for blob in found}.values())


def fetch(blobs: Iterable[Blob], own: Path, session: Session, progress: Progress) -> None:
    """Fetch them, some at a time.

    Raises:
        DownloadError: one cannot be had, or is not what the Hub says.
    """
    with ThreadPoolExecutor(_AT_ONCE, "hub") as pool:
        running = [pool.submit(_fetch, blob, _kept(own, blob), session, progress) for blob in blobs]
        for future in running:
            future.result()


def kept_bytes(blobs: Iterable[Blob], own: Path) -> int:
    """Bytes of files that an earlier run fetched in part."""
    kept = [_kept(own, blob) for blob in blobs]
    return sum(path.stat().st_size for path in kept if path.exists())


def _kept(own: Path, blob: Blob) -> Path:
    return own / f"hub-{blob.digest}"


def _fetch(blob: Blob, kept: Path, session: Session, progress: Progress) -> None:
    if session.stop.is_set():
        return
    progress.skip(kept.stat().st_size if kept.exists() else 0)
    session.retried(partial(_go_on, blob, kept, session, progress))
    check(blob.where, blob.name, kept, blob.digest)
    with kept.open("rb+") as file:
        os.fsync(file.fileno())
    blob.path.parent.mkdir(parents=True, exist_ok=True)
    kept.replace(blob.path)
    _mark(blob.path)


def check(where: str, name: str, path: Path, digest: str) -> None:
    """Check that a file has the SHA-256 that the Hub says.

    Raises:
        IntegrityError: it has another; it is removed.
    """
    found = checks.sha256_of(path)
    if found != digest:
        path.unlink()
        raise errors.IntegrityError(
            where,
            f"{name} has sha256 {found}, and the Hub says {digest}",
            "run again, and check the mirror if HF_ENDPOINT names one",
        )


def verify(where: str, name: str, blob: Path) -> None:
    """Check a file of the cache that is named by its SHA-256, unless it was checked before; others pass.

    Raises:
        IntegrityError: its content is another; it is removed.
    """
    if not _SHA256.fullmatch(blob.name):
        return
    mark = _mark_of(blob)
    if not mark.exists() or mark.stat().st_mtime_ns < blob.stat().st_mtime_ns:
        check(where, name, blob, blob.name)
        _mark(blob)


def _mark_of(blob: Path) -> Path:
    return blob.parent.parent / _VERIFIED / blob.name


def _mark(blob: Path) -> None:
    """Note that the content of a file of the cache is what its name says."""
    mark = _mark_of(blob)
    mark.parent.mkdir(exist_ok=True)
    mark.touch()


def _go_on(blob: Blob, kept: Path, session: Session, progress: Progress) -> None:
    """Fetch what is missing of a file; what came stays when it breaks off."""
    there = kept.stat().st_size if kept.exists() else 0
    if there == blob.size:
        return
    request = urllib.request.Request(blob.url)  # noqa: S310 - the gate checks where it goes
    if token := _token():
        request.add_unredirected_header("Authorization", f"Bearer {token}")
    if 0 < there < blob.size:
        request.add_header("Range", f"bytes={there}-")
    try:
        with session.gate.opener().open(request, timeout=session.config.limits.stall_seconds) as answer:
            goes_on = answer.status == http.client.PARTIAL_CONTENT
            with kept.open("ab" if goes_on else "wb") as file:
                have = file.tell()
                while not session.stop.is_set() and have < blob.size and (data := answer.read1(_PIECE)):
                    file.write(data)
                    have += len(data)
                    progress.add(len(data))
    except (OSError, http.client.HTTPException) as error:
        raise _explained(blob, session, error) from None
    if have != blob.size:
        raise errors.NetworkError(blob.where, f"{blob.name}: the answer ended too early", "run again")


def _explained(blob: Blob, session: Session, error: Exception) -> errors.DownloadError:
    if refused := session.gate.refused():
        return errors.ConfigError(
            blob.where, f"{blob.name} leads to {refused}", "use a Hub workloads may reach"
        )
    if isinstance(error, urllib.error.HTTPError) and not errors.passing(error.code):
        return errors.NotAvailableError(
            blob.where, f"{blob.name} was refused (HTTP {error.code})", "check HF_TOKEN"
        )
    if isinstance(error, OSError) and errors.full(error):
        return errors.DiskFullError(blob.where, f"no room left for {blob.name}", "make the volume larger")
    return errors.NetworkError(
        blob.where, f"{blob.name} could not be read", "check HF_ENDPOINT and the network"
    )


def _token() -> str | None:
    from huggingface_hub import get_token

    return get_token()
