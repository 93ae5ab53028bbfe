"""git repositories over http and https.

The tree is cloned beside its target on the same volume, checked, and moved into place; no ``.git`` is left.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from kaiwo.plugin.kit.downloads import parse_items
from kaiwo_storage_s3_gcs_azure_git_hf.download import (
    checkout_record,
    git_clone,
    git_lfs,
    git_output,
)
from kaiwo_storage_s3_gcs_azure_git_hf.download.errors import (
    ConfigError,
    DownloadError,
    NetworkError,
    NotAvailableError,
)
from kaiwo_storage_s3_gcs_azure_git_hf.download.git_source import GitSource
from kaiwo_storage_s3_gcs_azure_git_hf.download.target_paths import check_case
from kaiwo_storage_s3_gcs_azure_git_hf.items import GitDownloadItem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kaiwo_storage_s3_gcs_azure_git_hf.download.progress import DownloadProgress
    from kaiwo_storage_s3_gcs_azure_git_hf.download.session import DownloadSession

_T = TypeVar("_T")

_SHOWN_SUBMODULES = 3


@dataclass(slots=True, eq=False)
class GitTask:
    """The download of one repository.

    Attributes:
        source: the repository and where it goes.
        clone: of it, once its files are known.
        current: whether all files are there already.
        claimed: paths of the files that no other item may write, relative to the target.
    """

    source: GitSource
    clone: git_clone.GitClone | None = None
    current: bool = False
    claimed: set[str] = field(default_factory=set)

    @property
    def where(self) -> str:
        """The item, for messages."""
        return self.source.where

    @property
    def summary(self) -> str:
        """Repository, ref and target."""
        return self.source.summary

    def prepare(self) -> None:
        """Find out which files the repository has, and claim them, before anything is downloaded.

        Raises:
            DownloadError: it cannot be read, or another item writes one of the files.
        """
        source = self.source
        record = self._record()
        work = source.session.scratch_folder(source.volume) / "work"
        work.mkdir()
        clone = git_clone.GitClone(source, work)
        existing = record.commit
        if existing and self._retry(partial(clone.is_current, existing)):
            self.current = True
            self._claim(record.files)
            return
        self._claim(self._retry(clone.list_files))
        self.clone = clone

    def run(self, progress: DownloadProgress) -> None:
        """Fetch, check and move the tree into place; do nothing when it is there and current."""
        if self.current:
            return
        if self.clone is None:
            raise RuntimeError("prepare was not called")
        source, clone = self.source, self.clone
        commit = self._retry(clone.check_out)
        lfs_url = clone.lfs_url() if source.item.lfs else None
        shutil.rmtree(clone.work / ".git")
        tree = clone.work / (source.item.part or "")
        self._check_tree(tree, clone.work)
        files = _list_files(tree)
        root = tree if tree.is_dir() else tree.parent
        size = sum((root / name).lstat().st_size for name in files)
        source.session.budget.add(self.where, files=len(files), size=size)
        if source.item.lfs:
            git_lfs.fetch(source, tree, progress, lfs_url)
        else:
            git_lfs.warn_of_pointers(source, tree)
        if not files:
            raise NotAvailableError(
                self.where,
                f"{source.item.repository} has no files"
                f"{f' in {source.item.part}' if source.item.part else ''}",
                "check path and branch; submodules are not fetched",
            )
        if clone.submodules:
            source.session.warn(self.where, _submodule_warning(clone.submodules))
        self._claim(files)
        _move(root, files, source)
        self._record().finish(commit, files)

    def _record(self) -> checkout_record.CheckoutRecord:
        source = self.source
        return checkout_record.CheckoutRecord(
            source.volume.state_folder(),
            source.target,
            source.item.repository,
            source.item.part,
            lfs=bool(source.item.lfs),
        )

    def _retry(self, action: Callable[[], _T]) -> _T:
        """Run git, again while its failure is transient."""

        def translated() -> _T:
            try:
                return action()
            except git_clone.GitError as error:
                raise self._to_download_error(str(error)) from None

        return self.source.session.retry(translated)

    def _claim(self, files: Iterable[str]) -> None:
        """Claim files; a branch may have got others since the last time."""
        source = self.source
        files = list(files)
        check_case(source.volume, ((self.where, str(Path(source.target, name))) for name in files))
        for name in files:
            if name not in self.claimed:
                source.session.claim_file(self.where, source.volume, str(Path(source.target, name)))
                self.claimed.add(name)

    def _check_tree(self, tree: Path, work: Path) -> None:
        item = self.source.item
        if not os.path.lexists(tree):
            raise NotAvailableError(
                self.where, f"path {item.path} not found in {item.repository}", "check path and branch"
            )
        # A link is resolved from its final place; it may point to anything in the same tree.
        root = os.path.realpath(tree if tree.is_dir() else tree.parent)
        for place, folders, names in os.walk(tree):
            for name in [*folders, *names]:
                path = Path(place, name)
                if path.is_symlink():
                    target = os.path.realpath(path)
                    if target != root and not target.startswith(root + "/"):
                        raise ConfigError(
                            self.where,
                            f"{item.repository}: link {path.relative_to(work)} points outside the tree",
                            "choose a path or commit without it",
                        )
        if tree.is_symlink():
            raise ConfigError(
                self.where, f"path {item.path} is a symbolic link", "use the path of its target"
            )

    def _to_download_error(self, output: str) -> DownloadError:
        proxy = self.source.session.proxy
        if blocked := proxy.last_blocked():
            return ConfigError(
                self.where,
                f"{self.source.item.repository}: connection blocked: {blocked}",
                "use a host that workloads may reach",
            )
        if known := git_output.find_reason(output):
            kind, message, next_step = known
            return kind(self.where, f"{self.summary}: {message}", next_step)
        cause = proxy.last_unreachable() or git_output.last_line(output)
        return NetworkError(
            self.where, f"{self.summary}: git fetch failed: {cause}", "check the host and the network"
        )


def _submodule_warning(paths: Sequence[str]) -> str:
    """That submodules are missing, whose folders would be empty."""
    shown = ", ".join(paths[:_SHOWN_SUBMODULES])
    more = f" and {len(paths) - _SHOWN_SUBMODULES} more" if len(paths) > _SHOWN_SUBMODULES else ""
    noun = "submodule was" if len(paths) == 1 else "submodules were"
    return f"{len(paths)} {noun} not fetched ({shown}{more}); add a git item for each that is needed"


def _list_files(tree: Path) -> list[str]:
    """The paths of all files and links in a tree, relative to it; a file is a tree of itself."""
    if not tree.is_dir():
        return [tree.name]
    found = []
    for place, folders, names in os.walk(tree):
        links = [name for name in folders if Path(place, name).is_symlink()]
        found += [str(Path(place, name).relative_to(tree)) for name in [*names, *links]]
    return found


def _move(tree: Path, files: Iterable[str], source: GitSource) -> None:
    """Move files into the target folder, which may hold others; each gets its name when it is whole."""
    for name in files:
        path = str(Path(source.target, name))
        source.volume.prepare_folder(source.where, path)
        try:
            (tree / name).replace(path)
        except OSError as error:
            raise ConfigError(
                source.where, f"{path}: write failed: {error.strerror}", "remove what is in its place"
            ) from None


def fetch(items: Sequence[dict[str, Any]], session: DownloadSession) -> None:
    """Add the items of ``data.download.git`` to a session."""
    for where, item in parse_items("git", GitDownloadItem, items):
        blocked = session.proxy.register_endpoint(item.repository)
        if blocked:
            raise ConfigError(where, blocked, "use a host that workloads may reach")
        if (item.part or "").partition("/")[0] == ".git":
            raise ConfigError(where, f"path {item.path} is inside .git", "use a path of the working tree")
        for reference in (item.username, item.token):
            if reference:
                session.secret(where, reference)
        volume = session.volume("data")
        target = volume.resolve(where, item.target_path)
        task = GitTask(GitSource(where, item, session, volume, target))
        session.tasks.append(task)
        session.preparations.append(task.prepare)
