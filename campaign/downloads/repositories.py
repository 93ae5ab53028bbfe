"""Cases of set L with git repositories."""

from __future__ import annotations

import contextlib
import hashlib
import random
import shutil
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from campaign.downloads.judging import CONFIGURATION, DISK_FULL, INTEGRITY, NETWORK, fails, struck, succeeds
from campaign.downloads.program import PUBLIC, TARGET
from campaign.violation import ViolationError
from kaiwo.testing.git_server import LARGE, git, serve_git

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from campaign.downloads.program import DownloadPod
    from kaiwo.testing.git_server import GitHost

_ITEM: Final = "git[0]"
_GIT: Final = shutil.which("git") or "git"
_BIG: Final = random.Random(3).randbytes(700_000)  # noqa: S311  content
_LINE: Final = b"print(1)\n"


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository on a host, and the pod that downloads it.

    Attributes:
        host: the server.
        pod: of the case.
        work: where it was written; ``save`` commits and pushes.
    """

    host: GitHost
    pod: DownloadPod
    work: Path

    def items(self, **more: Any) -> dict[str, Any]:
        """Items with the repository, which needs a token."""
        token = self.pod.secret("token", self.host.token)
        return self.host.item(**{"targetPath": TARGET, "token": token, **more})

    def save(self) -> None:
        """Publish what is in the folder now."""
        git(self.work, "add", "-A")
        git(self.work, "commit", "-qm", "change")
        git(self.work, "push", "-q", str(self.host.root / "repo.git"), "HEAD:main")


def _files(**more: bytes) -> dict[str, bytes]:
    files = {"src/a.py": _LINE, "big": _BIG, **more}
    return {f"volume/{TARGET}/{name}": body for name, body in files.items()}


@contextlib.contextmanager
def serving(pod: DownloadPod, directory: Path) -> Iterator[Repository]:
    """A private repository with two files.

    Args:
        pod: of the case.
        directory: where the repository is kept.
    """
    work = directory / "work"
    (work / "src").mkdir(parents=True)
    git(work, "init", "-q")
    (work / "src" / "a.py").write_bytes(_LINE)
    (work / "big").write_bytes(_BIG)
    git(directory, "init", "-q", "--bare", "repo.git")
    git(directory / "repo.git", "config", "uploadpack.allowFilter", "true")
    with serve_git(directory) as host:
        host.private = True
        repository = Repository(host, pod, work)
        repository.save()
        yield repository


def _refused(repository: Repository, field: str, value: str) -> None:
    wrong = repository.items(**{field: value})
    fails(repository.pod, wrong, CONFIGURATION, _ITEM, field)
    struck(not repository.host.paths, "refused before the first request")
    succeeds(repository.pod, repository.items(), _files())


def remote_helper(repository: Repository) -> None:
    """A URL that would run a command."""
    _refused(repository, "repository", f"ext::sh -c touch% {repository.pod.outside}/x")


def local_file(repository: Repository) -> None:
    """A URL of the machine's own files."""
    _refused(repository, "repository", f"file://{repository.host.root}/repo.git")


def dashed_url(repository: Repository) -> None:
    """A URL that git would take for an option."""
    _refused(repository, "repository", f"--upload-pack=touch {repository.pod.outside}/x")


def dashed_branch(repository: Repository) -> None:
    """A branch that git would take for an option."""
    _refused(repository, "branch", f"--upload-pack=touch {repository.pod.outside}/x")


def dashed_commit(repository: Repository) -> None:
    """A commit that git would take for an option."""
    _refused(repository, "commit", f"--output={repository.pod.outside}/x")


def path_that_climbs(repository: Repository) -> None:
    """A path of the repository with ``..``."""
    _refused(repository, "path", "src/../../outside")


def target_that_climbs(repository: Repository) -> None:
    """A target path with ``..``."""
    _refused(repository, "targetPath", "../outside")


def absolute_target(repository: Repository) -> None:
    """A target path outside of the volume."""
    _refused(repository, "targetPath", str(repository.pod.outside))


def link_out_of_tree(repository: Repository) -> None:
    """The tree has a link that leaves it."""
    (repository.work / "out").symlink_to("../../outside")
    repository.save()
    fails(repository.pod, repository.items(), CONFIGURATION, _ITEM, "out", "points out")
    (repository.work / "out").unlink()
    repository.save()
    succeeds(repository.pod, repository.items(), _files())


def link_in_tree(repository: Repository) -> None:
    """The tree has a link that stays in it."""
    (repository.work / "here").symlink_to("src/a.py")
    repository.save()
    succeeds(repository.pod, repository.items(), _files(here=_LINE))


def link_out_of_volume(repository: Repository) -> None:
    """The target folder is a link out of the volume."""
    link = repository.pod.volume / TARGET
    link.symlink_to(repository.pod.outside)
    fails(repository.pod, repository.items(), CONFIGURATION, _ITEM, "link", left=[f"volume/{TARGET}/keep"])
    link.unlink()
    succeeds(repository.pod, repository.items(), _files())


def hidden_git_folder(repository: Repository) -> None:
    """The tree has a folder ``.git`` with a hook, as no honest git writes it."""
    bare = repository.host.root / "repo.git"
    hook = repository.work / "hook"
    hook.write_text(f"#!/bin/sh\ntouch {repository.pod.outside}/x\n", encoding="utf-8")
    blob = git(bare, "hash-object", "-w", str(hook))
    tree = _tree(bare, f"100755 blob {blob}\tpost-checkout")
    for name in ("hooks", ".git"):
        tree = _tree(bare, f"040000 tree {tree}\t{name}")
    commit = git(bare, "commit-tree", "-m", "evil", tree)
    git(bare, "update-ref", "refs/heads/evil", commit)
    fails(repository.pod, repository.items(branch="evil"), (CONFIGURATION, INTEGRITY, NETWORK), _ITEM)
    hook.unlink()
    succeeds(repository.pod, repository.items(), _files())


def _tree(bare: Path, line: str) -> str:
    done = subprocess.run(
        [_GIT, "mktree"],
        cwd=bare,
        input=f"{line}\n",
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def _redirect(repository: Repository, place: str, word: str) -> None:
    repository.host.onward = place
    fails(repository.pod, repository.items(), CONFIGURATION, _ITEM, word)
    struck(repository.host.paths, "the redirect")
    repository.host.onward = ""
    succeeds(repository.pod, repository.items(), _files())


def redirect_to_metadata(repository: Repository) -> None:
    """A redirect to the metadata server of a cloud."""
    _redirect(repository, "http://169.254.169.254", "169.254.169.254")


def redirect_to_loopback(repository: Repository) -> None:
    """A redirect to loopback over IPv6."""
    _redirect(repository, f"http://[::1]:{repository.host.server_address[1]}", "::1")


def rebinding(repository: Repository) -> None:
    """A name that resolves to a public address first, and to loopback from then on."""
    repository.host.closing = True
    url = f"http://git.example.com:{repository.host.server_address[1]}/repo.git"
    items = repository.items(repository=url)
    repository.pod.resolve("git.example.com", PUBLIC, "127.0.0.1")
    fails(repository.pod, items, CONFIGURATION, _ITEM, "git.example.com", "loopback")
    struck(repository.pod.answers()[:2] == [PUBLIC, "127.0.0.1"], "the second answer")
    repository.pod.resolve("git.example.com", PUBLIC)
    succeeds(repository.pod, items, _files())


def truncation(repository: Repository) -> None:
    """A pack that ends before its length."""
    repository.host.cut = 20_000
    fails(repository.pod, repository.items(), (INTEGRITY, NETWORK), _ITEM)
    struck(repository.host.sent >= len(_BIG), "the pack was cut")
    repository.host.cut = 0
    succeeds(repository.pod, repository.items(), _files())


def checksum(repository: Repository) -> None:
    """A large file that is not what its pointer says."""
    oid = hashlib.sha256(LARGE).hexdigest()
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{oid}\nsize {len(LARGE)}\n"
    (repository.work / "model").write_text(pointer, encoding="utf-8")
    repository.save()
    repository.host.large = bytes(len(LARGE))
    fails(repository.pod, repository.items(lfs=True), INTEGRITY, _ITEM, "model")
    repository.host.large = LARGE
    succeeds(repository.pod, repository.items(lfs=True), _files(model=LARGE))


def disk_full(repository: Repository) -> None:
    """A volume without room for the repository."""
    with repository.pod.small_volume(1 << 20):
        others = repository.pod.volume / "others"
        others.write_bytes(bytes(900_000))
        fails(repository.pod, repository.items(), DISK_FULL, _ITEM, "increase storageSize")
    with repository.pod.small_volume(4 << 20):
        succeeds(repository.pod, repository.items(), _files())


def killed(repository: Repository) -> None:
    """Killed while the pack comes; the next run throws away what is left of it."""
    repository.host.pause = 1.0
    sent = lambda: repository.host.sent > 0  # noqa: E731  one expression
    run = repository.pod.run(repository.items(), kill_when=sent)
    struck(run.code < 0, f"killed, and not exit code {run.code}")
    struck(not repository.pod.files(), "nothing under a final name")
    repository.host.pause = 0.0
    succeeds(repository.pod, repository.items(), _files())
    if left := [path.name for path in (repository.pod.volume / ".kaiwo-download").glob("git-*")]:
        raise ViolationError("O3", f"left of the killed run: {left}")


def empty(repository: Repository) -> None:
    """A file without content."""
    (repository.work / "__init__.py").write_bytes(b"")
    repository.save()
    succeeds(repository.pod, repository.items(), _files(**{"__init__.py": b""}))


CASES: Final[dict[str, Callable[[Repository], None]]] = {
    function.__name__.replace("_", "-"): function
    for function in (
        remote_helper, local_file, dashed_url, dashed_branch, dashed_commit, path_that_climbs,
        target_that_climbs, absolute_target, link_out_of_tree, link_in_tree, link_out_of_volume,
        hidden_git_folder, redirect_to_metadata, redirect_to_loopback, rebinding, truncation, checksum,
        disk_full, killed, empty,
    )
}  # fmt: skip
"""By name: what happens."""
