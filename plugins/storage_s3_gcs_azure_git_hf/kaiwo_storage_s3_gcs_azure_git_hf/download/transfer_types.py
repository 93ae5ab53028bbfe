"""Data types of a transfer: object stores, their files, and tasks that do their own transfer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from kaiwo_storage_s3_gcs_azure_git_hf.download.object_headers import HeaderReader
    from kaiwo_storage_s3_gcs_azure_git_hf.download.progress import DownloadProgress
    from kaiwo_storage_s3_gcs_azure_git_hf.download.target_paths import TargetVolume


@dataclass(frozen=True, slots=True, eq=False)
class ObjectStore:
    """A bucket, a container or a web server.

    Attributes:
        remote: the object store client (obstore's).
        name: its name in messages, without secrets.
        md5_etag: whether a plain ETag is the MD5 of the content.
        plain: whether it is a web server, which need not support ranges.
        headers: reads headers that the client does not show; None where they cannot be requested.
    """

    remote: Any
    name: str
    md5_etag: bool = False
    plain: bool = False
    headers: HeaderReader | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ObjectFile:
    """One object and its target.

    Attributes:
        where: the item, for messages.
        store: where it is.
        key: its key there.
        size: bytes.
        etag: the version that was planned, None where the store has no ETags.
        version: what else distinguishes versions (modification time).
        volume: the volume it goes to.
        path: its absolute target path.
        sha256: the digest that the item demands, in lower case.
        ranged: whether it can be read in ranges; else it is read in one piece, and again from its start.
        aside_path: absolute path until it is whole, where that is not beside the target path.
    """

    where: str
    store: ObjectStore
    key: str
    size: int
    etag: str | None
    version: str
    volume: TargetVolume
    path: str
    sha256: str | None
    ranged: bool = True
    aside_path: str | None = None

    @property
    def partial_path(self) -> str:
        """The absolute path until it is whole."""
        return self.aside_path or f"{self.path}.part"

    @property
    def name(self) -> str:
        """Store and key, for messages."""
        return f"{self.store.name}/{self.key}" if self.key else self.store.name


class TransferTask(Protocol):
    """A transfer that is not made of object files, such as a git clone; it runs beside the files."""

    @property
    def where(self) -> str:
        """The item, for messages."""
        ...

    @property
    def summary(self) -> str:
        """One line for the plan."""
        ...

    def run(self, progress: DownloadProgress) -> None:
        """Run the transfer.

        Raises:
            DownloadError: it failed.
        """
        ...
