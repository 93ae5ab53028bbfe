"""One git repository that is to be downloaded: what the clone and its LFS files are fetched with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kaiwo_storage_s3_gcs_azure_git_hf.download.session import DownloadSession
    from kaiwo_storage_s3_gcs_azure_git_hf.download.target_paths import TargetVolume
    from kaiwo_storage_s3_gcs_azure_git_hf.items import GitDownloadItem


@dataclass(frozen=True, slots=True)
class GitSource:
    """A repository and where it goes.

    Attributes:
        where: the item, for messages.
        item: what is wanted.
        session: the run.
        volume: the volume it goes to.
        target: absolute path of the folder it goes to.
    """

    where: str
    item: GitDownloadItem
    session: DownloadSession
    volume: TargetVolume
    target: str

    @property
    def summary(self) -> str:
        """Repository, ref and target, for the plan and for messages."""
        ref = self.item.branch or self.item.commit or "its default branch"
        return f"{self.item.repository} at {ref} -> {self.target}"
