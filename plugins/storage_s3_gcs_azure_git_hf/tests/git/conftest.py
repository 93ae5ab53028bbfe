"""Repositories, and a git host that has them."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING

import pytest

from kaiwo.testing.git_server import LARGE, ODD, git, serve_git

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kaiwo.testing.git_server import GitHost


@pytest.fixture(scope="module")
def repositories(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with a history, a tag, a folder, a large file, a submodule and a link that leaves."""
    root = tmp_path_factory.mktemp("git")
    work = root / "work"
    work.mkdir()
    git(work, "init", "-q")
    (work / "src").mkdir()
    (work / "src" / "a.py").write_text("one\n")
    (work / "big").write_bytes(os.urandom(500_000))
    git(work, "add", ".")
    git(work, "commit", "-qm", "one")
    git(work, "tag", "v1")
    (work / "src" / "a.py").write_text("two\n")
    (work / "src" / "here").symlink_to("a.py")
    for folder in (ODD, "odd 1x"):
        (work / folder).mkdir()
        (work / folder / "b").write_text(folder)
    oid = hashlib.sha256(LARGE).hexdigest()
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{oid}\nsize {len(LARGE)}\n"
    (work / "model.bin").write_text(pointer)
    (work / ".gitmodules").write_text('[submodule "sub"]\n\tpath = sub\n\turl = http://127.0.0.1:1/sub.git\n')
    git(work, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},sub")
    git(work, "add", "src", ODD, "odd 1x", "model.bin", ".gitmodules")
    git(work, "commit", "-qm", "two")
    git(work, "branch", "dev/evil")
    git(work, "checkout", "-q", "dev/evil")
    (work / "out").symlink_to("../../../etc/passwd")
    git(work, "add", "out")
    git(work, "commit", "-qm", "evil")
    git(work, "checkout", "-q", "main")
    git(root, "clone", "-q", "--bare", "work", "repo.git")
    git(root / "repo.git", "config", "uploadpack.allowFilter", "true")
    return root


@pytest.fixture
def host(repositories: Path) -> Iterator[GitHost]:
    """The server."""
    with serve_git(repositories) as server:
        yield server
