"""Repositories of the Hugging Face Hub, downloaded by the Hub client into its usual cache layout.

``HF_ENDPOINT`` and ``HF_TOKEN`` of the container are honoured. Large files that the client
could not resume are downloaded first, see ``hub_blobs``. Files that are named by their SHA-256 are checked.
"""

from __future__ import annotations

import os
import re
import threading
from collections import Counter
from concurrent.futures import Future, wait
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kaiwo.plugin.kit.downloads import parse_items
from kaiwo_storage_s3_gcs_azure_git_hf.download import free_space, hub_blobs
from kaiwo_storage_s3_gcs_azure_git_hf.download.errors import (
    MAX_REASON,
    ConfigError,
    DiskFullError,
    DownloadError,
    IntegrityError,
    NetworkError,
    NotAvailableError,
    is_disk_full,
    is_retryable_status,
)
from kaiwo_storage_s3_gcs_azure_git_hf.items import HuggingFaceDownloadItem

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from huggingface_hub.errors import HfHubHTTPError

    from kaiwo_storage_s3_gcs_azure_git_hf.download.progress import DownloadProgress
    from kaiwo_storage_s3_gcs_azure_git_hf.download.session import DownloadSession
    from kaiwo_storage_s3_gcs_azure_git_hf.download.target_paths import TargetVolume

ENDPOINT = "https://huggingface.co"
_PARALLEL_FILES = 4
_WATCH_SECONDS = 0.5
_BAD_REQUEST, _TOO_MANY = 400, 429


@dataclass(frozen=True, slots=True)
class HubTask:
    """The download of one repository.

    Attributes:
        where: the item, for messages.
        item: what is wanted.
        session: the run.
        volume: where it goes.
        alone: whether no other item names the same repository.
    """

    where: str
    item: HuggingFaceDownloadItem
    session: DownloadSession
    volume: TargetVolume
    alone: bool

    @property
    def summary(self) -> str:
        """Repository, revision and target, for the plan and for messages."""
        return f"{self.item.repo_id} at {self.item.revision or 'main'} -> {self.volume.root}"

    def run(self, progress: DownloadProgress) -> None:
        """Download the snapshot and check its files."""
        from huggingface_hub import snapshot_download

        arguments: dict[str, Any] = {
            "repo_id": self.item.repo_id,
            "revision": self.item.revision,
            "allow_patterns": [_escape_pattern(name) for name in self.item.files]
            if self.item.files
            else None,
            "cache_dir": str(Path(self.volume.root, "hub")),
            "endpoint": os.environ.get("HF_ENDPOINT") or ENDPOINT,
            "max_workers": _PARALLEL_FILES,
        }

        cache = Path(arguments["cache_dir"])
        for folder in hub_blobs.folders(cache, self.item.repo_id):
            self.volume.check_inside(self.where, str(folder))
        if self.alone:
            hub_blobs.remove_incomplete(cache, self.item.repo_id)
        planned = self._request(partial(snapshot_download, **arguments, dry_run=True))
        self._check_files({info.filename for info in planned})
        commit: str = planned[0].commit_hash
        # With a branch the client would ask again, and take a commit that was not planned where it has moved.
        snapshot = partial(snapshot_download, **{**arguments, "revision": commit})
        size = sum(_size_of(info) for info in planned if info.will_download)
        whole = sum(map(_size_of, planned))
        self.session.budget.add(self.where, files=len(planned), size=whole)
        progress.expect(size)
        find = partial(
            hub_blobs.find_blobs, self.where, self.item.repo_id, planned, arguments["endpoint"], cache
        )
        blobs: list[hub_blobs.HubBlob] = self._request(find)
        free_space.check_free_space(
            self.where, self.volume, size - hub_blobs.partial_bytes(blobs, self.volume.state_folder())
        )
        hub_blobs.fetch(blobs, self.volume.state_folder(), self.session, progress)
        folder = self._within_limit(snapshot, cache, size - sum(blob.size for blob in blobs))
        progress.add(size - sum(blob.size for blob in blobs))
        self._verify(folder)

    def _request(self, request: Callable[[], Any]) -> Any:
        """Send requests to the Hub, again while the failure is transient."""

        def translated() -> Any:
            try:
                return request()
            except Exception as error:  # noqa: BLE001 - the client raises errors of four libraries
                raise self._to_download_error(error) from None

        return self.session.retry(translated)

    def _within_limit(self, snapshot: Callable[[], str], cache: Path, size: int) -> Path:
        """Have the client download what is left; its folder.

        A Hub may send more than it named, unpacked a thousand times as much, and the client writes all of it.

        Args:
            snapshot: the client.
            cache: its cache folder.
            size: bytes that the Hub named, which are counted already.

        Raises:
            LimitError: it writes more than the limit allows.
        """
        before, found = hub_blobs.written(cache, self.item.repo_id), Future[str]()

        def download() -> None:
            try:
                found.set_result(self._request(snapshot))
            except BaseException as error:  # noqa: BLE001 - of the thread that waits
                found.set_exception(error)

        # One that is given up ends with the process.
        threading.Thread(target=download, name="hub client", daemon=True).start()
        while not wait((found,), _WATCH_SECONDS).done:
            written = hub_blobs.written(cache, self.item.repo_id) - before
            self.session.budget.check_size(self.where, max(0, written - size))
        return Path(found.result())

    def _check_files(self, available: set[str]) -> None:
        missing = sorted(set(self.item.files or ()) - available)
        if missing or not available:
            reason = f"file {missing[0]} not found" if missing else "the repository is empty"
            raise NotAvailableError(
                self.where,
                f"{self.item.repo_id}: {reason}",
                "check files and revision; each of files is one name, and no pattern",
            )

    def _verify(self, folder: Path) -> None:
        """Check the files that are named by their SHA-256, once."""
        for link in folder.rglob("*"):
            if not link.is_symlink():
                continue
            try:
                name = f"{link.name} of {self.item.repo_id}"
                hub_blobs.verify(self.where, name, Path(os.path.realpath(link)))
            except IntegrityError:
                link.unlink()
                raise

    def _to_download_error(self, error: Exception) -> DownloadError:
        from huggingface_hub import errors

        chain: list[BaseException] = [error]
        while (cause := chain[-1].__cause__ or chain[-1].__context__) and cause not in chain:
            chain.append(cause)
        name = self.summary
        if blocked := self.session.proxy.last_blocked():
            return ConfigError(
                self.where, f"{name}: connection blocked: {blocked}", "use a Hub that workloads may reach"
            )
        for found in chain:
            if isinstance(found, errors.GatedRepoError):
                return NotAvailableError(
                    self.where,
                    f"{name}: the repository is gated",
                    "accept its terms on the Hub, and set HF_TOKEN in env",
                )
            if isinstance(found, errors.RevisionNotFoundError):
                return NotAvailableError(self.where, f"{name}: revision not found", "check revision")
            if isinstance(found, errors.RepositoryNotFoundError):
                return NotAvailableError(
                    self.where, f"{name}: repository not found or private", "check repoId and HF_TOKEN"
                )
            if isinstance(found, errors.HfHubHTTPError) and found.response.status_code >= _BAD_REQUEST:
                return self._status_error(name, found)
            if local := self._local_error(name, found):
                return local
        if any("consistency check" in str(found).lower() for found in chain):
            return IntegrityError(
                self.where,
                f"{name}: a file does not have the size that the Hub names",
                "run the download again",
            )
        return NetworkError(
            self.where, f"{name}: download failed: no response", "check HF_ENDPOINT and the network"
        )

    def _status_error(self, name: str, error: HfHubHTTPError) -> DownloadError:
        """The error for a response of the Hub."""
        from huggingface_hub.errors import DisabledRepoError

        if isinstance(error, DisabledRepoError):
            return NotAvailableError(
                self.where, f"{name}: the Hub disabled the repository", "choose another one"
            )
        status, said = error.response.status_code, (error.server_message or "").strip()
        what = f"{name}: download failed: HTTP {status}{f': {said[:MAX_REASON]}' if said else ''}"
        if not is_retryable_status(status):
            return NotAvailableError(self.where, what, "check HF_TOKEN")
        if status == _TOO_MANY:
            return NetworkError(
                self.where,
                f"{what}, too many requests",
                "wait some minutes, or set HF_TOKEN, with which the Hub allows more",
            )
        return NetworkError(self.where, what, "check HF_ENDPOINT and the network")

    def _local_error(self, name: str, error: BaseException) -> DownloadError | None:
        """The error for what the client does not, or cannot, write."""
        if type(error) is ValueError:  # a name that the client refuses; those for JSON are subclasses
            reason = str(error).partition(". ")[0]
            return ConfigError(self.where, f"{name}: {reason}", "name the files that are wanted")
        if isinstance(error, OSError) and is_disk_full(error):
            return DiskFullError(self.where, f"{name}: no space left on the volume", "increase storageSize")
        return None


def _size_of(info: Any) -> int:
    """Bytes of a file as the Hub names them, which may be anything; 0 where it does not."""
    return max(0, info.file_size or 0)


def _escape_pattern(name: str) -> str:
    """A glob pattern that matches one name."""
    return re.sub(r"([*?\[])", r"[\1]", name)


def _configure_client(session: DownloadSession) -> None:
    """Have the client connect through the egress proxy; must run before the client is imported."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY", "all_proxy"):
        os.environ[name] = session.proxy.url
    for name in ("NO_PROXY", "no_proxy"):
        os.environ.pop(name, None)
    os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
    os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
    os.environ["HF_HUB_DOWNLOAD_TIMEOUT"] = str(session.config.limits.stall_seconds)
    os.environ["HF_HUB_ETAG_TIMEOUT"] = str(session.config.limits.stall_seconds)

    import logging

    import httpx2
    from huggingface_hub import set_client_factory

    logging.getLogger("huggingface_hub").setLevel(logging.CRITICAL)
    proxy_url = session.proxy.url
    set_client_factory(
        lambda: httpx2.Client(
            proxy=proxy_url,
            trust_env=False,
            follow_redirects=True,
            timeout=float(session.config.limits.stall_seconds),
        )
    )


def fetch(items: Sequence[dict[str, Any]], session: DownloadSession) -> None:
    """Add the items of ``huggingFace.preCacheRepos`` to a session."""
    volume = session.volume("hf")
    url = os.environ.get("HF_ENDPOINT") or ENDPOINT
    if blocked := session.proxy.register_endpoint(url):
        raise ConfigError("huggingFace", blocked, "correct HF_ENDPOINT")
    _configure_client(session)
    wanted = dict(parse_items("huggingFace", HuggingFaceDownloadItem, items))
    uses = Counter(item.repo_id for item in wanted.values())
    session.tasks += [
        HubTask(where, item, session, volume, alone=uses[item.repo_id] == 1) for where, item in wanted.items()
    ]
