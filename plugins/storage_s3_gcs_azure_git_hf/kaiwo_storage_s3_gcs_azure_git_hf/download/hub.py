"""Repositories of the Hugging Face Hub, by its own client, into the cache layout that its users expect.

``HF_ENDPOINT`` and ``HF_TOKEN`` of the container are honoured. Large files that the client would begin anew
after an interruption are fetched here first; every file whose name in the cache is a SHA-256 is checked.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kaiwo_storage_s3_gcs_azure_git_hf.download import hub_blobs, parse, space
from kaiwo_storage_s3_gcs_azure_git_hf.download.errors import (
    ConfigError,
    DiskFullError,
    DownloadError,
    IntegrityError,
    NetworkError,
    NotAvailableError,
    full,
)
from kaiwo_storage_s3_gcs_azure_git_hf.items import HuggingFaceDownloadItem

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kaiwo_storage_s3_gcs_azure_git_hf.download.paths import Volume
    from kaiwo_storage_s3_gcs_azure_git_hf.download.progress import Progress
    from kaiwo_storage_s3_gcs_azure_git_hf.download.session import Session

ENDPOINT = "https://huggingface.co"
_FILES_AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class HubTask:
    """One repository.

    Attributes:
        where: the item, for messages.
        item: what is wanted.
        session: the run.
        volume: where it goes.
        alone: whether no other item names the same repository.
    """

    where: str
    item: HuggingFaceDownloadItem
    session: Session
    volume: Volume
    alone: bool

    @property
    def summary(self) -> str:
        """For the plan and for messages."""
        return f"{self.item.repo_id} at {self.item.revision or 'main'} -> {self.volume.root}"

    def run(self, progress: Progress) -> None:
        """Fetch the snapshot and check its files."""
        from huggingface_hub import snapshot_download

        arguments: dict[str, Any] = {
            "repo_id": self.item.repo_id,
            "revision": self.item.revision,
            "allow_patterns": [_literal(name) for name in self.item.files] if self.item.files else None,
            "cache_dir": str(Path(self.volume.root, "hub")),
            "endpoint": os.environ.get("HF_ENDPOINT") or ENDPOINT,
            "max_workers": _FILES_AT_ONCE,
        }

        cache = Path(arguments["cache_dir"])
        if self.alone:
            hub_blobs.clean(cache, self.item.repo_id)
        snapshot = partial(snapshot_download, **arguments)
        planned = self._asked(partial(snapshot, dry_run=True))
        self._check_files({info.filename for info in planned})
        size = sum(info.file_size or 0 for info in planned if info.will_download)
        progress.expect(size)
        find = partial(hub_blobs.wanted, self.where, self.item.repo_id, planned, arguments["endpoint"], cache)
        blobs: list[hub_blobs.Blob] = self._asked(find)
        space.check(self.where, self.volume, size - hub_blobs.kept_bytes(blobs, self.volume.own()))
        hub_blobs.fetch(blobs, self.volume.own(), self.session, progress)
        folder = Path(self._asked(snapshot))
        progress.add(size - sum(blob.size for blob in blobs))
        self._verify(folder)

    def _asked(self, ask: Callable[[], Any]) -> Any:
        """Ask the Hub, again while its failure may pass."""

        def explained() -> Any:
            try:
                return ask()
            except Exception as error:  # noqa: BLE001 - the client raises errors of four libraries
                raise self._explained(error) from None

        return self.session.retried(explained)

    def _check_files(self, known: set[str]) -> None:
        missing = sorted(set(self.item.files or ()) - known)
        if missing or not known:
            raise NotAvailableError(
                self.where,
                f"{self.item.repo_id} has no file {missing[0] if missing else 'at all'}",
                "check files and revision",
            )

    def _verify(self, folder: Path) -> None:
        """Check what is named by its SHA-256, once."""
        for link in folder.rglob("*"):
            if not link.is_symlink():
                continue
            try:
                name = f"{link.name} of {self.item.repo_id}"
                hub_blobs.verify(self.where, name, Path(os.path.realpath(link)))
            except IntegrityError:
                link.unlink()
                raise

    def _explained(self, error: Exception) -> DownloadError:
        from huggingface_hub import errors

        chain: list[BaseException] = [error]
        while (cause := chain[-1].__cause__ or chain[-1].__context__) and cause not in chain:
            chain.append(cause)
        name = self.summary
        if refused := self.session.gate.refused():
            return ConfigError(self.where, f"{name} leads to {refused}", "use a Hub workloads may reach")
        for found in chain:
            if isinstance(found, errors.GatedRepoError):
                return NotAvailableError(
                    self.where,
                    f"{name}: the repository is gated",
                    "accept its terms, and set HF_TOKEN in env",
                )
            if isinstance(found, errors.RevisionNotFoundError):
                return NotAvailableError(self.where, f"{name}: no such revision", "check revision")
            if isinstance(found, errors.RepositoryNotFoundError):
                return NotAvailableError(
                    self.where, f"{name}: no such repository, or it is private", "check repoId and HF_TOKEN"
                )
            if isinstance(found, errors.HfHubHTTPError) and found.response.status_code in (
                400,
                401,
                403,
                404,
            ):
                return NotAvailableError(
                    self.where, f"{name}: refused (HTTP {found.response.status_code})", "check HF_TOKEN"
                )
            if isinstance(found, OSError) and full(found):
                return DiskFullError(self.where, f"no room left for {name}", "make the volume larger")
        if any("consistency check" in str(found).lower() for found in chain):
            return IntegrityError(self.where, f"{name}: a file has not the size the Hub says", "run again")
        return NetworkError(self.where, f"{name}: the Hub could not be read", "check HF_ENDPOINT and network")


def _literal(name: str) -> str:
    """A pattern that matches one name."""
    return re.sub(r"([*?\[])", r"[\1]", name)


def _configure(session: Session) -> None:
    """Send the client's requests through the gate; must be called before it is imported."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY", "all_proxy"):
        os.environ[name] = session.gate.url
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
    gate = session.gate.url
    set_client_factory(
        lambda: httpx2.Client(
            proxy=gate,
            trust_env=False,
            follow_redirects=True,
            timeout=float(session.config.limits.stall_seconds),
        )
    )


def fetch(items: Sequence[dict[str, Any]], session: Session) -> None:
    """Items of ``huggingFace.preCacheRepos``."""
    volume = session.volume("hf")
    url = os.environ.get("HF_ENDPOINT") or ENDPOINT
    if why := session.gate.written(url):
        raise ConfigError("huggingFace", why, "correct HF_ENDPOINT")
    _configure(session)
    wanted = {
        f"huggingFace[{number}]": parse.item(f"huggingFace[{number}]", HuggingFaceDownloadItem, raw)
        for number, raw in enumerate(items)
    }
    named = Counter(item.repo_id for item in wanted.values())
    session.tasks += [
        HubTask(where, item, session, volume, alone=named[item.repo_id] == 1)
        for where, item in wanted.items()
    ]
