"""A clone of one repository, made by the git binary.

Little is fetched: one commit, no blobs but those of the wanted path. Credentials are read by an askpass
program from the files they are mounted as: they are in no URL, argument, environment, log or file of the run.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
import subprocess
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from kaiwo_storage_s3_gcs_azure_git_hf.download import git_output, secret_files
from kaiwo_storage_s3_gcs_azure_git_hf.download.errors import ConfigError, IntegrityError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from kaiwo_storage_s3_gcs_azure_git_hf.download.git_source import GitSource

_STOP_POLL_SECONDS = 0.5
"""How often a running git process checks whether another item failed, so that it ends too."""

_USER_WITHOUT_NAME = "x-access-token"
"""Hosts take any user name with a token; this is the one GitHub documents."""

_SHA256_DIGITS = 64
_SUBMODULE = "160000 "
"""The mode of a submodule in a tree; its files are not fetched."""

_ALL_REFS = ("+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*")
_ASKPASS = """#!/bin/sh
# A server that the repository's server redirects to may also request credentials; it must not get them.
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


class GitError(Exception):
    """A git command failed; the text is what it wrote to standard error."""


class GitClone:
    """A clone in a scratch folder.

    Attributes:
        work: the folder of its tree.
        submodules: paths of the submodules in what the item wants, once its files are listed.
    """

    def __init__(self, source: GitSource, work: Path) -> None:
        """Prepare; nothing is fetched yet.

        Args:
            source: the repository.
            work: an empty folder for the tree; its parent is private to this clone.
        """
        self._source = source
        self._item = source.item
        self.work = work
        askpass = work.parent / "askpass"
        askpass.write_text(_ASKPASS % _USER_WITHOUT_NAME, encoding="utf-8")
        askpass.chmod(stat.S_IRWXU)
        place = urlsplit(source.item.repository)
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
            "GIT_ASKPASS": str(askpass),
            "KAIWO_SCHEME": place.scheme,
            "KAIWO_HOST": place.netloc,
            "KAIWO_USERNAME_FILE": _mount_path(source.item.username),
            "KAIWO_TOKEN_FILE": _mount_path(source.item.token),
            **_certificates(),
        }
        # The hash of a commit tells which function its repository uses; else the server does.
        self._sha256 = len(source.item.exact_commit or "") == _SHA256_DIGITS
        self._fetched = False
        self.submodules: list[str] = []

    def is_current(self, commit: str) -> bool:
        """Whether the item still names a commit that was fetched before; an exact one needs no request."""
        if self._item.exact_commit:
            return commit == self._item.exact_commit.lower()
        branch = self._item.branch
        names = [f"refs/heads/{branch}", f"refs/tags/{branch}", f"refs/tags/{branch}^{{}}"]
        output = self._git(
            "ls-remote", "--quiet", "--", self._item.repository, *(names if branch else ["HEAD"])
        )
        found = {name: value for value, _, name in (line.partition("\t") for line in output.splitlines())}
        tip = (
            found.get("HEAD")
            if not branch
            else next((found[name] for name in (names[0], names[2], names[1]) if name in found), None)
        )
        return tip == commit

    def list_files(self) -> list[str]:
        """Fetch the commit, without the contents of files where the server can leave them out.

        Returns:
            The paths of the files and links that the item wants, relative to its path.

        Raises:
            GitError: git failed.
        """
        self._with_full_fetch(lambda: None)
        part = self._item.part or ""
        found, self.submodules = [], []
        for entry in self._git("ls-tree", "-r", "-z", "--full-tree", self._wanted).split("\0"):
            header, _, name = entry.partition("\t")
            if not name or (part and name != part and not name.startswith(f"{part}/")):
                continue
            if header.startswith(_SUBMODULE):
                self.submodules.append(name)
            elif name == part:
                found.append(name.rpartition("/")[2])
            else:
                found.append(name[len(part) + 1 if part else 0 :])
        return found

    def check_out(self) -> str:
        """Fetch and check out what the item names, and verify an exact commit.

        Returns:
            The full hash of the commit.

        Raises:
            GitError: git failed.
            IntegrityError: the server gave another commit.
        """
        self._with_full_fetch(self._check_out)
        # In a detached checkout HEAD holds the commit itself.
        head = (self.work / ".git" / "HEAD").read_text(encoding="ascii").strip()
        commit = self._item.exact_commit
        if commit and head != commit.lower():
            raise IntegrityError(
                self._source.where,
                f"{self._item.repository}: expected commit {commit.lower()}, got {head}",
                "check the commit",
            )
        return head

    @property
    def _wanted(self) -> str:
        return (self._item.exact_commit or "").lower() or "FETCH_HEAD"

    def _with_full_fetch(self, action: Callable[[], None]) -> None:
        """Run an action in the repository, which is fetched anew after a failure.

        A server that does not serve single objects by their hash is sent requests for whole packs.
        """
        try:
            if not self._fetched:
                self._fetch(full=False)
            action()
        except GitError as error:
            self._fetched = False
            if not git_output.full_fetch_may_help(str(error)):
                raise
            self._fetch(full=True)
            action()

    def _check_out(self) -> None:
        self._git("checkout", "--quiet", "--detach", self._wanted)

    def lfs_url(self) -> str | None:
        """The LFS server that the repository names in its .lfsconfig; None when it names none."""
        try:
            return self._git("config", "--blob=HEAD:.lfsconfig", "lfs.url").strip() or None
        except GitError:
            return None

    def _fetch(self, *, full: bool) -> None:
        try:
            self._fetch_once(full=full)
        except GitError as error:
            if self._sha256 or not git_output.server_has_sha256(str(error)):
                raise
            self._sha256 = True
            self._fetch_once(full=full)

    def _fetch_once(self, *, full: bool) -> None:
        self._fetched = False
        for path in self.work.iterdir():
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        self._git("init", "--quiet", "--template=", *(["--object-format=sha256"] if self._sha256 else []))
        if self._item.part:
            patterns = self.work / ".git" / "info" / "sparse-checkout"
            patterns.parent.mkdir(exist_ok=True)
            patterns.write_text(f"/{_escape_pattern(self._item.part)}\n", encoding="utf-8")
        flags = (
            "--quiet",
            "--no-tags",
            "--no-recurse-submodules",
            *([] if full else ["--filter=blob:none"]),
        )
        commit = (self._item.exact_commit or "").lower()
        if commit:
            wanted = ("origin", *_ALL_REFS) if full else ("--depth=1", "origin", commit)
            self._git("fetch", *flags, *wanted)
        else:
            self._fetch_branch(flags)
        self._fetched = True

    def _fetch_branch(self, flags: Sequence[str]) -> None:
        branch = self._item.branch
        ref = f"refs/heads/{branch}" if branch else "HEAD"
        try:
            self._git("fetch", *flags, "--depth=1", "origin", ref)
        except GitError as error:
            if not branch or "remote ref" not in str(error):
                raise
            self._git("fetch", *flags, "--depth=1", "origin", f"refs/tags/{branch}")

    def _git(self, *arguments: str) -> str:
        session = self._source.session
        configuration = {
            "http.proxy": session.proxy.url,
            "http.followRedirects": "true",
            "http.lowSpeedLimit": "1",
            "http.lowSpeedTime": str(session.config.limits.stall_seconds),
            "credential.helper": "",
            "safe.directory": "*",  # a volume may give files to another user than the one who writes them
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
            "core.fsync": "none",  # the .git folder is removed at the end
        }
        settings = [part for name, value in configuration.items() for part in ("-c", f"{name}={value}")]
        try:
            process = subprocess.Popen(
                ["git", *settings, *arguments],  # noqa: S607 - PATH is the image's, or the user's laptop's
                cwd=self.work,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        except FileNotFoundError:
            raise ConfigError(
                self._source.where, "git is not installed", "use the downloader image, or install git"
            ) from None
        with process:
            while True:
                try:
                    out, err = process.communicate(timeout=_STOP_POLL_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    if session.stop.is_set():
                        process.terminate()
                    try:
                        session.budget.check_size(self._source.where, _size_of(self.work / ".git"))
                    except ConfigError:
                        process.kill()
                        raise
        if process.returncode:
            raise GitError(err.decode(errors="replace"))
        return os.fsdecode(out)


def _size_of(folder: Path) -> int:
    """Bytes of the files in a folder that a running git changes."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                total += os.lstat(f"{place}/{name}").st_size
    return total


def _certificates() -> dict[str, str]:
    """The variable that has git trust the certificates that the other clients trust."""
    file = os.environ.get("GIT_SSL_CAINFO") or os.environ.get("SSL_CERT_FILE")
    return {"GIT_SSL_CAINFO": file} if file else {}


def _escape_pattern(path: str) -> str:
    """A sparse-checkout pattern that matches one path."""
    return re.sub(r"[\\*?\[]| $", r"\\\g<0>", path)


def _mount_path(reference: Any) -> str:
    return str(secret_files.mount_path(reference)) if reference else ""
