"""What the engine moves: files of stores, and tasks that do their own transfer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from kaiwo_storage_s3_gcs_azure_git_hf.download.headers import Headers
    from kaiwo_storage_s3_gcs_azure_git_hf.download.paths import Volume
    from kaiwo_storage_s3_gcs_azure_git_hf.download.progress import Progress


@dataclass(frozen=True, slots=True, eq=False)
class Store:
    """A bucket, a container or a web server.

    Attributes:
        remote: the object store client (obstore's).
        name: what messages call it; no secrets.
        md5_etag: whether a plain ETag is the MD5 of the content.
        plain: whether it is a web server, which need not serve ranges.
        headers: asks for what the client does not show; None where that cannot be asked for.
    """

    remote: Any
    name: str
    md5_etag: bool = False
    plain: bool = False
    headers: Headers | None = None


@dataclass(frozen=True, slots=True, eq=False)
class File:
    """One object and where it goes.

    Attributes:
        where: the item, for messages.
        store: where it is.
        key: its key there.
        size: bytes.
        etag: the version that was planned, None where the store has no ETags.
        version: what else tells versions apart (time of the last change).
        volume: the volume it goes to.
        path: absolute path it gets.
        sha256: digest the user demands, lower case.
        ranged: whether it can be read in ranges; else it comes in one piece, and begins anew when that fails.
        aside: absolute path that it has until it is whole, where that is not beside its final one.
    """

    where: str
    store: Store
    key: str
    size: int
    etag: str | None
    version: str
    volume: Volume
    path: str
    sha256: str | None
    ranged: bool = True
    aside: str | None = None

    @property
    def partial(self) -> str:
        """Absolute path that it has until it is whole."""
        return self.aside or f"{self.path}.part"

    @property
    def name(self) -> str:
        """Store and key, for messages."""
        return f"{self.store.name}/{self.key}" if self.key else self.store.name


class Task(Protocol):
    """A transfer of its own, as git's: known to the plan by a name, run beside the files."""

    @property
    def where(self) -> str:
        """The item, for messages."""
        ...

    @property
    def summary(self) -> str:
        """What it will do, for the plan."""
        ...

    def run(self, progress: Progress) -> None:
        """Do it.

        Raises:
            DownloadError: it cannot be done.
        """
        ...
