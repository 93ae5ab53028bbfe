"""git repositories over http and https, by the git binary.

Little is fetched: one commit, no blobs but those of the wanted path. The tree is made beside its place on the
same volume, looked through, and moved into place; no ``.git`` is left. Credentials are read by an askpass
program from the files they are mounted as: they are in no URL, argument, environment, log or file of the run.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from kaiwo_storage_s3_gcs_azure_git_hf.download import git_said, lfs, parse, records, secrets
from kaiwo_storage_s3_gcs_azure_git_hf.download.errors import (
    ConfigError,
    DownloadError,
    IntegrityError,
    NetworkError,
    NotAvailableError,
)
from kaiwo_storage_s3_gcs_azure_git_hf.items import GitDownloadItem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kaiwo_storage_s3_gcs_azure_git_hf.download.paths import Volume
    from kaiwo_storage_s3_gcs_azure_git_hf.download.progress import Progress
    from kaiwo_storage_s3_gcs_azure_git_hf.download.session import Session

_T = TypeVar("_T")

_FULL_HASH = (40, 64)
_LOOK_SECONDS = 0.5
"""How often a running git is ended because another item failed."""

_USER_WITHOUT_NAME = "x-access-token"
"""Hosts take any user name with a token; this is the one GitHub documents."""

_EVERYTHING = ("+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*")
_ASKPASS = """#!/bin/sh
# Where a server redirects to is asked for credentials too, and is none of their business.
case "$1" in
*"'$KAIWO_SCHEME://$KAIWO_HOST'"* | *"'$KAIWO_SCHEME://"*"@$KAIWO_HOST'"*) ;;
*"'https://$KAIWO_HOST'"* | *"'https://"*"@$KAIWO_HOST'"*) ;;
*) exit 1 ;;
esac
case "$1" in
Username*) if [ -n "$KAIWO_USERNAME_FILE" ]; then cat -- "$KAIWO_USERNAME_FILE"; else echo %s; fi ;;
*) if [ -n "$KAIWO_TOKEN_FILE" ]; then cat -- "$KAIWO_TOKEN_FILE"; fi ;;
esac
"""


class _GitError(Exception):
    """What git said, without the URL's own parts."""


@dataclass(frozen=True, slots=True)
class GitTask:
    """One repository."""

    where: str
    item: GitDownloadItem
    session: Session
    volume: Volume
    target: str

    @property
    def summary(self) -> str:
        """For the plan and for messages."""
        ref = self.item.branch or self.item.commit or "its own branch"
        return f"{self.item.repository} at {ref} -> {self.target}"

    def run(self, progress: Progress) -> None:
        """Fetch, look through, move into place; nothing at all when what is there is still right."""
        own = self.volume.own()
        record = records.Record(own, self.target, self.item.repository, self.item.part)
        with self.volume.scratch() as folder:
            work = Path(folder, "work")
            work.mkdir()
            helper = Path(folder, "askpass")
            helper.write_text(_ASKPASS % _USER_WITHOUT_NAME, encoding="utf-8")
            helper.chmod(stat.S_IRWXU)
            repository = _Repository(self, work, helper)
            there = record.commit
            if there and self._tried(partial(repository.is_newest, there)):
                self._claim(record.files)
                return
            commit = self._tried(repository.check_out)
            source = work / (self.item.part or "")
            self._check_source(source, work)
            lfs.fetch(self, source, progress, repository.lfs_url)
            shutil.rmtree(work / ".git")
            files = _files(source)
            if not files:
                raise NotAvailableError(
                    self.where,
                    f"{self.item.repository} has no files{f' in {self.item.part}' if self.item.part else ''}",
                    "check path and branch; a submodule is not fetched, give it an item of its own",
                )
            self._claim(files)
            _move(source if source.is_dir() else source.parent, self.target, files, self)
            record.finish(commit, files)

    def _tried(self, action: Callable[[], _T]) -> _T:
        """Ask the host, again while its failure may pass."""

        def explained() -> _T:
            try:
                return action()
            except _GitError as error:
                raise self._explained(str(error)) from None

        return self.session.retried(explained)

    def _claim(self, files: Iterable[str]) -> None:
        for name in files:
            self.session.claim_file(self.where, self.volume, str(Path(self.target, name)))

    def _check_source(self, source: Path, work: Path) -> None:
        if not os.path.lexists(source):
            raise NotAvailableError(
                self.where, f"{self.item.repository} has no path {self.item.path}", "check path and branch"
            )
        # A link is judged from where it will be, and may point to anything in the same tree.
        root = os.path.realpath(source if source.is_dir() else source.parent)
        for place, folders, names in os.walk(work if source == work else source):
            if ".git" in folders and place == str(work):
                folders.remove(".git")
            for name in [*folders, *names]:
                path = Path(place, name)
                if path.is_symlink():
                    aim = os.path.realpath(path)
                    if aim != root and not aim.startswith(root + "/"):
                        raise ConfigError(
                            self.where,
                            f"link {path.relative_to(work)} of {self.item.repository} points out of the tree",
                            "take a path or commit without it",
                        )
        if source.is_symlink():
            raise ConfigError(self.where, f"path {self.item.path} is a link", "name what it points to")

    def _explained(self, said: str) -> DownloadError:
        if refused := self.session.gate.refused():
            return ConfigError(
                self.where, f"{self.item.repository} leads to {refused}", "use a host workloads may reach"
            )
        if known := git_said.reason(said):
            kind, what, step = known
            return kind(self.where, f"{self.summary}: {what}", step)
        why = self.session.gate.unreached() or git_said.last_line(said)
        return NetworkError(
            self.where, f"{self.summary}: git could not fetch it ({why})", "check the host and the network"
        )


class _Repository:
    """A clone under way."""

    def __init__(self, task: GitTask, work: Path, helper: Path) -> None:
        self._task = task
        self._item = task.item
        self._work = work
        place = urlsplit(task.item.repository)
        self._environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(work.parent),
            "LC_ALL": "C",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_ALLOW_PROTOCOL": "http:https",
            "GIT_CEILING_DIRECTORIES": str(work.parent),
            "GIT_LFS_SKIP_SMUDGE": "1",
            "GIT_ASKPASS": str(helper),
            "KAIWO_SCHEME": place.scheme,
            "KAIWO_HOST": place.netloc,
            "KAIWO_USERNAME_FILE": _file(task.item.username),
            "KAIWO_TOKEN_FILE": _file(task.item.token),
            **_certificates(),
        }

    def is_newest(self, commit: str) -> bool:
        """Whether what the item names is a commit that was fetched before; an exact one needs no request."""
        if self._item.exact_commit:
            return commit.startswith(self._item.exact_commit.lower())
        branch = self._item.branch
        names = [f"refs/heads/{branch}", f"refs/tags/{branch}", f"refs/tags/{branch}^{{}}"]
        said = self._git(
            "ls-remote", "--quiet", "--", self._item.repository, *(names if branch else ["HEAD"])
        )
        found = {name: value for value, _, name in (line.partition("\t") for line in said.splitlines())}
        tip = (
            found.get("HEAD")
            if not branch
            else next((found[name] for name in (names[0], names[2], names[1]) if name in found), None)
        )
        return tip == commit

    def check_out(self) -> str:
        """Fetch and check out what the item names, and verify an exact commit.

        A server that does not hand out single objects by their hash is asked for whole ones.

        Returns:
            The whole hash of the commit.
        """
        try:
            return self._attempt(whole=False)
        except _GitError as error:
            if not git_said.whole_may_help(str(error)):
                raise
            return self._attempt(whole=True)

    def lfs_url(self) -> str | None:
        """Where the repository itself says that its large files are; None when it does not."""
        try:
            return self._git("config", "--blob=HEAD:.lfsconfig", "lfs.url").strip() or None
        except _GitError:
            return None

    def _attempt(self, *, whole: bool) -> str:
        for path in self._work.iterdir():
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        self._git("init", "--quiet", "--template=")
        if self._item.part:
            patterns = self._work / ".git" / "info" / "sparse-checkout"
            patterns.parent.mkdir(exist_ok=True)
            patterns.write_text(f"/{_literal(self._item.part)}\n", encoding="utf-8")
        flags = (
            "--quiet",
            "--no-tags",
            "--no-recurse-submodules",
            *([] if whole else ["--filter=blob:none"]),
        )
        commit = (self._item.exact_commit or "").lower()
        if commit:
            single = len(commit) in _FULL_HASH and not whole
            wanted = ("--depth=1", "origin", commit) if single else ("origin", *_EVERYTHING)
            self._git("fetch", *flags, *wanted)
        else:
            self._fetch_branch(flags)
        self._git("checkout", "--quiet", "--detach", commit or "FETCH_HEAD")
        # Of a detached checkout it holds the commit itself.
        head = (self._work / ".git" / "HEAD").read_text(encoding="ascii").strip()
        if not head.startswith(commit):
            raise IntegrityError(
                self._task.where, f"{self._item.repository} gave {head}, not {commit}", "check the commit"
            )
        return head

    def _fetch_branch(self, flags: Sequence[str]) -> None:
        branch = self._item.branch
        ref = f"refs/heads/{branch}" if branch else "HEAD"
        try:
            self._git("fetch", *flags, "--depth=1", "origin", ref)
        except _GitError as error:
            if not branch or "remote ref" not in str(error):
                raise
            self._git("fetch", *flags, "--depth=1", "origin", f"refs/tags/{branch}")

    def _git(self, *arguments: str) -> str:
        configuration = {
            "http.proxy": self._task.session.gate.url,
            "http.followRedirects": "true",
            "http.lowSpeedLimit": "1",
            "http.lowSpeedTime": str(self._task.session.config.limits.stall_seconds),
            "credential.helper": "",
            "safe.directory": "*",  # volumes may give files to another user than who writes them
            "core.hooksPath": os.devnull,
            "core.fsmonitor": "false",
            "advice.detachedHead": "false",
            "gc.auto": "0",
            "maintenance.auto": "false",
            "protocol.allow": "never",
            "protocol.http.allow": "always",
            "protocol.https.allow": "always",
            "remote.origin.url": self._item.repository,
            "core.sparseCheckout": "true" if self._item.part else "false",
            "core.sparseCheckoutCone": "false",
            "core.fsync": "none",  # what git keeps for itself is thrown away
        }
        settings = [part for name, value in configuration.items() for part in ("-c", f"{name}={value}")]
        try:
            process = subprocess.Popen(
                ["git", *settings, *arguments],  # noqa: S607 - PATH is the image's, or the user's laptop's
                cwd=self._work,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        except FileNotFoundError:
            raise ConfigError(
                self._task.where, "there is no git program here", "use the downloader image, or install git"
            ) from None
        with process:
            while True:
                try:
                    out, said = process.communicate(timeout=_LOOK_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    if self._task.session.stop.is_set():
                        process.terminate()
        if process.returncode:
            raise _GitError(said.decode(errors="replace"))
        return out.decode(errors="replace")


def _certificates() -> dict[str, str]:
    """Where git finds the certificates that the other clients trust; it does not know their variable."""
    file = os.environ.get("GIT_SSL_CAINFO") or os.environ.get("SSL_CERT_FILE")
    return {"GIT_SSL_CAINFO": file} if file else {}


def _literal(path: str) -> str:
    """A pattern that matches one path."""
    return re.sub(r"[\\*?\[]| $", r"\\\g<0>", path)


def _file(reference: Any) -> str:
    return str(secrets.file_of(reference)) if reference else ""


def _files(source: Path) -> list[str]:
    """Everything in a tree that is no folder, relative to it; a file is a tree of itself."""
    if not source.is_dir():
        return [source.name]
    found = []
    for place, folders, names in os.walk(source):
        links = [name for name in folders if Path(place, name).is_symlink()]
        found += [str(Path(place, name).relative_to(source)) for name in [*names, *links]]
    return found


def _move(source: Path, target: str, files: Iterable[str], task: GitTask) -> None:
    """Put files into a folder that may have others; each gets its name when it is whole."""
    for name in files:
        path = str(Path(target, name))
        task.volume.ready(task.where, path)
        try:
            (source / name).replace(path)
        except OSError as error:
            raise ConfigError(
                task.where, f"{path} cannot be written ({error.strerror})", "remove what is in its place"
            ) from None


def fetch(items: Sequence[dict[str, Any]], session: Session) -> None:
    """Items of ``data.download.git``."""
    for number, raw in enumerate(items):
        where = f"git[{number}]"
        item = parse.item(where, GitDownloadItem, raw)
        why = session.gate.written(item.repository)
        if why:
            raise ConfigError(where, why, "use a host that workloads may reach")
        if (item.part or "").partition("/")[0] == ".git":
            raise ConfigError(where, f"path {item.path} is git's own", "name a path of the tree")
        for reference in (item.username, item.token):
            if reference:
                session.secret(where, reference)
        volume = session.volume("data")
        target = volume.place(where, item.target_path)
        session.tasks.append(GitTask(where, item, session, volume, target))
