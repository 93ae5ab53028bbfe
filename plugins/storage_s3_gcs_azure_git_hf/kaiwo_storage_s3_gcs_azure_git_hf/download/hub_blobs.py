"""Downloads of large Hub files over plain HTTP that resume after an interruption.

The Hub client starts such a file again in every process. Here the bytes stay in the state folder of the
volume until the file is whole and has the SHA-256 that the Hub names it by. Then it is moved to where the
client expects it. The client itself downloads files in Xet storage.
"""

from __future__ import annotations

import contextlib
import http.client
import importlib.util
import os
import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from kaiwo_storage_s3_gcs_azure_git_hf.download import checksums, errors, http_client
from kaiwo_storage_s3_gcs_azure_git_hf.download.journal import fingerprint
from kaiwo_storage_s3_gcs_azure_git_hf.download.parallel import run_parallel

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from kaiwo_storage_s3_gcs_azure_git_hf.download.progress import DownloadProgress
    from kaiwo_storage_s3_gcs_azure_git_hf.download.session import DownloadSession

MIN_BYTES = 16 * 1024**2
"""The smallest file that is downloaded here; the client writes in pieces of 10 MiB."""

_SHA256 = re.compile(r"[0-9a-f]{64}")
_VERIFIED_FOLDER = ".kaiwo-verified"
_CHUNK_BYTES = 1024**2
_PARALLEL_FILES = 4


@dataclass(frozen=True, slots=True)
class HubBlob:
    """A file of a repository.

    Attributes:
        where: the item, for messages.
        name: repository and file, for messages.
        url: where the Hub serves it, or redirects from.
        digest: its SHA-256.
        size: bytes.
        path: where the client expects it.
    """

    where: str
    name: str
    url: str
    digest: str
    size: int
    path: Path


def _blob_folder(cache: Path, repo_id: str) -> Path:
    """The folder where the client keeps the content of a repository's files."""
    return cache / f"models--{repo_id.replace('/', '--')}" / "blobs"


def folders(cache: Path, repo_id: str) -> list[Path]:
    """The folders of the cache that a download of a repository writes into."""
    blobs = _blob_folder(cache, repo_id)
    return [cache / ".locks", blobs, *(blobs.parent / name for name in ("refs", "snapshots", ".no_exist"))]


def remove_incomplete(cache: Path, repo_id: str) -> None:
    """Remove the partial files of killed clients; the client never resumes them."""
    for path in _blob_folder(cache, repo_id).glob("*.incomplete"):
        path.unlink(missing_ok=True)


def written(cache: Path, repo_id: str) -> int:
    """Bytes of the files of a repository, whole or not, that a running client changes."""
    total = 0
    for path in _blob_folder(cache, repo_id).glob("*"):
        with contextlib.suppress(FileNotFoundError):
            total += path.lstat().st_size
    return total


def find_blobs(where: str, repo_id: str, infos: Iterable[Any], endpoint: str, cache: Path) -> list[HubBlob]:
    """Find the files that are downloaded here, among those that the client would download.

    Args:
        where: the item, for messages.
        repo_id: the repository.
        infos: the client's plan.
        endpoint: URL of the Hub.
        cache: the client's cache folder.

    Raises:
        Exception: a request to the Hub failed.
    """
    from huggingface_hub import (
        constants,
        get_hf_file_metadata,
        hf_hub_url,
    )

    xet = importlib.util.find_spec("hf_xet") is not None and not constants.HF_HUB_DISABLE_XET
    blobs = _blob_folder(cache, repo_id)
    found = []
    for info in infos:
        if not info.will_download or (info.file_size or 0) < MIN_BYTES:
            continue
        url = hf_hub_url(repo_id, info.filename, revision=info.commit_hash, endpoint=endpoint)
        known = get_hf_file_metadata(url, endpoint=endpoint, token=_token() or False)
        digest = known.etag or ""
        in_xet = xet and known.xet_file_data is not None
        if in_xet or not _SHA256.fullmatch(digest) or (blobs / digest).exists():
            continue
        name = f"{info.filename} of {repo_id}"
        found.append(HubBlob(where, name, url, digest, info.file_size, blobs / digest))
    return list({blob.digest: blob for blob in found}.values())


def fetch(
    blobs: Iterable[HubBlob], state_folder: Path, session: DownloadSession, progress: DownloadProgress
) -> None:
    """Download files, some at a time.

    Raises:
        DownloadError: one cannot be downloaded, or has another SHA-256.
    """
    actions = [partial(_fetch, blob, _partial_path(state_folder, blob), session, progress) for blob in blobs]
    run_parallel(actions, _PARALLEL_FILES, "hub", session.stop)


def partial_bytes(blobs: Iterable[HubBlob], state_folder: Path) -> int:
    """Bytes that an earlier run downloaded of files that are not whole."""
    paths = [_partial_path(state_folder, blob) for blob in blobs]
    return sum(path.stat().st_size for path in paths if path.exists())


def _partial_path(state_folder: Path, blob: HubBlob) -> Path:
    """The partial file of a blob; repositories that share a file have one each."""
    repository = blob.path.parent.parent.name
    return state_folder / f"hub-{fingerprint(repository)}-{blob.digest}"


def _fetch(blob: HubBlob, partial_path: Path, session: DownloadSession, progress: DownloadProgress) -> None:
    # Two items may name the same repository; the second one finds the file.
    with session.lock(str(partial_path)):
        if session.stop.is_set():
            return
        if blob.path.exists():
            progress.skip(blob.size)
            return
        _fetch_whole(blob, partial_path, session, progress)


def _fetch_whole(
    blob: HubBlob, partial_path: Path, session: DownloadSession, progress: DownloadProgress
) -> None:
    existing = partial_path.stat().st_size if partial_path.exists() else 0
    progress.skip(existing)
    resume = partial(_resume, blob, partial_path, session, progress)
    session.retry(resume)
    try:
        check(blob.where, blob.name, partial_path, blob.digest)
    except errors.IntegrityError:
        if not existing:
            raise
        # What an earlier run wrote may have been lost with the node's memory.
        progress.add(-blob.size)
        session.retry(resume)
        check(blob.where, blob.name, partial_path, blob.digest)
    with partial_path.open("rb+") as file:
        os.fsync(file.fileno())
    blob.path.parent.mkdir(parents=True, exist_ok=True)
    partial_path.replace(blob.path)
    _mark_verified(blob.path)


def check(where: str, name: str, path: Path, digest: str) -> None:
    """Check that a file has the SHA-256 that the Hub names.

    Raises:
        IntegrityError: it has another; it is removed.
    """
    found = checksums.sha256_of(path)
    if found != digest:
        path.unlink()
        raise errors.IntegrityError(
            where,
            f"{name}: expected sha256 {digest} as the Hub names it, got {found}",
            "run the download again; check the mirror if HF_ENDPOINT names one",
        )


def verify(where: str, name: str, blob: Path) -> None:
    """Check a file of the cache that is named by its SHA-256, once; files with other names are not checked.

    Raises:
        IntegrityError: its content is another; it is removed.
    """
    if not _SHA256.fullmatch(blob.name):
        return
    mark = _marker_path(blob)
    if not mark.exists() or mark.stat().st_mtime_ns < blob.stat().st_mtime_ns:
        check(where, name, blob, blob.name)
        _mark_verified(blob)


def _marker_path(blob: Path) -> Path:
    return blob.parent.parent / _VERIFIED_FOLDER / blob.name


def _mark_verified(blob: Path) -> None:
    """Record that the content of a file of the cache has the SHA-256 of its name."""
    mark = _marker_path(blob)
    mark.parent.mkdir(exist_ok=True)
    mark.touch()


def _resume(blob: HubBlob, partial_path: Path, session: DownloadSession, progress: DownloadProgress) -> None:
    """Download what is missing of a file; the bytes stay when the connection breaks."""
    existing = partial_path.stat().st_size if partial_path.exists() else 0
    if existing == blob.size:
        return
    token = _token()
    try:
        with (
            session.http_client.send(
                "GET",
                blob.url,
                headers={"Range": f"bytes={existing}-"} if 0 < existing < blob.size else None,
                credentials={"Authorization": f"Bearer {token}"} if token else None,
            ) as response,
        ):
            http_client.check_status(response)
            resumed = response.status == http.client.PARTIAL_CONTENT
            with partial_path.open("ab" if resumed else "wb") as file:
                have = file.tell()
                while (
                    not session.stop.is_set() and have < blob.size and (data := response.read1(_CHUNK_BYTES))
                ):
                    file.write(data)
                    have += len(data)
                    progress.add(len(data))
    except (OSError, http.client.HTTPException, http_client.RedirectError) as error:
        raise _to_download_error(blob, session, error) from None
    if have != blob.size:
        raise errors.NetworkError(blob.where, f"{blob.name}: response ended early", "run the download again")


def _to_download_error(blob: HubBlob, session: DownloadSession, error: Exception) -> errors.DownloadError:
    if blocked := session.proxy.last_blocked():
        return errors.ConfigError(
            blob.where, f"{blob.name}: connection blocked: {blocked}", "use a Hub that workloads may reach"
        )
    if isinstance(error, http_client.RedirectError):
        return errors.ConfigError(blob.where, f"{blob.name}: redirect blocked: {error}", "check HF_ENDPOINT")
    if isinstance(error, http_client.HttpStatusError) and not errors.is_retryable_status(error.status):
        return errors.NotAvailableError(
            blob.where, f"{blob.name}: download failed: {error}", "check HF_TOKEN"
        )
    if isinstance(error, OSError) and errors.is_disk_full(error):
        return errors.DiskFullError(
            blob.where, f"{blob.name}: no space left on the volume", "increase storageSize"
        )
    cause = str(error) if isinstance(error, http_client.HttpStatusError) else "no response"
    return errors.NetworkError(
        blob.where,
        f"{blob.name}: download failed: {cause}",
        "check HF_ENDPOINT and the network",
        errors.requested_wait(error),
    )


def _token() -> str | None:
    from huggingface_hub import get_token

    return get_token()
