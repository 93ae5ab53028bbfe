"""Downloads of git repositories."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from kaiwo.testing.git_server import git


def test_a_repository_is_its_newest_tree(download: Any, host: Any) -> None:
    """LFS files match their pointers; submodules and the history are not fetched."""
    outcome = download(host.item(lfs=True))
    assert outcome.code == 0, outcome.err
    files = download.files()
    assert files["code/src/a.py"] == b"two\n"
    assert files["code/src/here"] == b"two\n"
    assert files["code/model.bin"] == host.large
    assert not any(".git/" in name for name in files)
    assert not list(download.volume.glob(".kaiwo-download/git-*"))


def test_submodules_that_are_missing_are_warned_about(download: Any, host: Any) -> None:
    """What imports from their folders would not find it; a path without one warns of none."""
    outcome = download(host.item())
    assert outcome.code == 0, outcome.err
    warned = [line for line in outcome.err.splitlines() if "submodule" in line]
    expected = "warning: git[0]: 1 submodule was not fetched (sub); add a git item for each that is needed"
    assert warned == [expected]
    assert "submodule" not in download(host.item(path="src", targetPath="other")).err


def test_a_path_fetches_only_its_blobs(download: Any, host: Any) -> None:
    """Half a megabyte beside the path stays where it is."""
    outcome = download(host.item(path="src"))
    assert outcome.code == 0, outcome.err
    assert download.files() == {"code/a.py": b"two\n", "code/here": b"two\n"}
    assert host.sent < 100_000


def test_a_path_is_no_pattern(download: Any, host: Any) -> None:
    """Brackets, stars and spaces are part of a name."""
    outcome = download(host.item(path=host.folder_with_pattern_name))
    assert outcome.code == 0, outcome.err
    assert download.files() == {"code/b": host.folder_with_pattern_name.encode()}


@pytest.mark.parametrize("modern", [True, False])
def test_an_exact_commit_even_where_hashes_are_not_served(download: Any, host: Any, modern: bool) -> None:
    """A server that refuses a hash costs the history but works."""
    host.modern = modern
    commit = host.git("repo.git", "rev-parse", "v1")
    outcome = download(host.item(commit=commit, path="src"))
    assert outcome.code == 0, outcome.err
    assert download.files() == {"code/a.py": b"one\n"}


@pytest.mark.parametrize(
    ("more", "flag", "word"),
    [
        ({}, "--max-files=5", "more than 5 files"),
        ({}, "--max-bytes=100000", "larger than"),
        ({"path": "model.bin", "lfs": True}, "--max-bytes=5000", "larger than"),
    ],
)
def test_a_repository_beyond_a_limit_is_refused(
    download: Any, host: Any, more: dict[str, Any], flag: str, word: str
) -> None:
    """Files, and bytes of the tree and of its LFS files, are counted: exit 2, and no file is left."""
    download.assert_failed(download(host.item(**more), flag), 2, "git[0]", word, flag.partition("=")[0])
    assert not [path for path in host.paths if path.startswith("/lfs/")]


def test_a_branch_field_takes_tags_too(download: Any, host: Any) -> None:
    """As git's own --branch does."""
    assert download(host.item(branch="v1", path="src")).code == 0
    assert download.files() == {"code/a.py": b"one\n"}


@pytest.mark.parametrize("user", ["x-access-token", "alice"])
def test_a_private_repository(download: Any, host: Any, user: str) -> None:
    """The token is read from its file, and is in nothing that the run wrote."""
    host.private, host.user = True, user
    more = {"token": download.secret("token", host.token), "lfs": True}
    if user == "alice":
        more["username"] = download.secret("user", user)
    command = download.command(host.item(**more))
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert download.files()["code/model.bin"] == host.large
    assert host.token not in done.stdout + done.stderr + " ".join(host.paths)
    written = [path for path in download.root.rglob("*") if path.is_file() and path.parent.name != "secrets"]
    assert all(host.token.encode() not in path.read_bytes() for path in written)


def test_an_unchanged_repository_is_not_fetched_again(download: Any, host: Any) -> None:
    """A rerun requests the newest commit at most; what changed or was touched is fetched."""
    assert download(host.item(branch="main")).code == 0
    host.paths.clear()
    assert download(host.item(branch="main")).code == 0
    assert [path.partition("?")[0] for path in host.paths].count("/repo.git/git-upload-pack") <= 1
    assert not [path for path in host.paths if "lfs" in path]
    commit = host.git("repo.git", "rev-parse", "v1")
    assert download(host.item(commit=commit)).code == 0
    assert download.files().keys() == {"code/src/a.py", "code/big"}, "files of the other commit stayed"
    host.paths.clear()
    assert download(host.item(commit=commit)).code == 0
    assert host.paths == []
    (download.volume / "code" / "src" / "a.py").write_text("touched")
    assert download(host.item(commit=commit)).code == 0
    assert download.files()["code/src/a.py"] == b"one\n"


def test_files_that_another_item_writes_are_refused_before_any_is_fetched(download: Any, host: Any) -> None:
    """Exit 2, both are named, and of half a megabyte nothing was sent."""
    items = host.item()["git"] * 2
    download.assert_failed(download({"git": items}), 2, "git[0]", "git[1]")
    assert host.sent < 100_000
    assert not list(download.volume.glob(".kaiwo-download/git-*"))


@pytest.mark.parametrize("path", [None, "src", "src/a.py"])
def test_a_file_that_an_object_store_writes_too_is_refused_before_any_is_fetched(
    download: Any, host: Any, objects: Any, path: str | None
) -> None:
    """Exit 2, no object is read, and nothing is left."""
    objects.content = {"a": b"x" * 100_000}
    target = "code/src/a.py" if path is None else "code/a.py"
    s3 = download.s3(objects.url, files=[{"path": "a", "targetPath": target}])
    outcome = download(s3 | host.item(path=path))
    download.assert_failed(outcome, 2, "git[0]", target, "s3[0].buckets[0].files[0]")
    assert objects.sent == 0


def test_file_names_that_are_not_utf_8(download: Any, host: Any, repositories: Path) -> None:
    """They are downloaded as they are, and a rerun finds them."""
    work = repositories / "latin"
    work.mkdir()
    git(work, "init", "-q")
    names = [b"caf\xe9", "café".encode(), b"plain"]
    for name in names:
        Path(os.fsdecode(os.fsencode(work) + b"/" + name)).write_bytes(b"x")
    git(work, "add", ".")
    git(work, "commit", "-qm", "one")
    items = host.item(repository=f"{host.url}/latin/.git")
    for _ in range(2):
        host.paths.clear()
        outcome = download(items)
        assert outcome.code == 0, outcome.err
        assert outcome.line.startswith("done: 0 files, 1 repository, ")
        assert {os.fsencode(name) for name in download.files()} == {b"code/" + name for name in names}
    assert [path.partition("?")[0] for path in host.paths].count("/latin/.git/git-upload-pack") <= 1


def test_a_repository_and_objects_share_a_folder(download: Any, host: Any, objects: Any) -> None:
    """Different files of one folder are no conflict, and a second run finds all of them."""
    objects.content = {"a": b"x"}
    items = download.s3(objects.url, files=[{"path": "a", "targetPath": "code/b"}]) | host.item(path="src")
    for _ in range(2):
        outcome = download(items)
        assert outcome.code == 0, outcome.err
        assert download.files().keys() == {"code/b", "code/a.py", "code/here"}


def test_a_failure_that_passes_is_tried_again(download: Any, host: Any) -> None:
    """A host that answers 503 twice."""
    host.busy = 2
    download.limits["retrySeconds"] = 60
    outcome = download(host.item(path="src"))
    assert outcome.code == 0, outcome.err
    assert download.files() == {"code/a.py": b"two\n", "code/here": b"two\n"}


def test_a_failure_that_stays_is_reported_in_the_words_of_git(download: Any, host: Any) -> None:
    """Exit 6, with the status that the host gave."""
    host.busy = 99
    download.assert_failed(download(host.item()), 6, "git[0]", "503")


def test_a_host_that_says_nothing_is_given_up(download: Any, host: Any) -> None:
    """Exit 6 once the connection was silent for too long; no git stays behind."""
    host.silent = threading.Event()
    download.limits["stallSeconds"] = 1
    outcome = download(host.item())
    host.silent.set()
    download.assert_failed(outcome, 6, "git[0]")


def test_a_private_repository_without_a_token_is_refused(download: Any, host: Any) -> None:
    """Exit 3, without asking anybody on a terminal."""
    host.private = True
    download.assert_failed(download(host.item()), 3, "git[0]", "token")


@pytest.mark.parametrize(
    "more", [{"commit": "f" * 40}, {"commit": "f" * 64}, {"branch": "none"}, {"path": "none"}]
)
def test_what_does_not_exist_is_exit_3(download: Any, host: Any, more: dict[str, str]) -> None:
    """Commit, branch or path."""
    download.assert_failed(download(host.item(**more)), 3, "git[0]")


@pytest.mark.parametrize("how", ["branch", "commit"])
def test_a_repository_with_sha256_hashes(download: Any, host: Any, how: str) -> None:
    """Forges offer it; git itself finds out when it clones, and a fetch into another kind fails."""
    work = host.root / f"{how}256"
    work.mkdir()
    git(work, "init", "-q", "--object-format=sha256")
    (work / "a.py").write_text("one\n")
    git(work, "add", ".")
    git(work, "commit", "-qm", "one")
    git(host.root, "clone", "-q", "--bare", work.name, f"{work.name}.git")
    git(host.root / f"{work.name}.git", "config", "uploadpack.allowFilter", "true")
    more = {"commit": git(work, "rev-parse", "HEAD")} if how == "commit" else {}
    items = host.item(**more)
    items["git"][0]["repository"] = f"{host.url}/{work.name}.git"
    download.limits["retrySeconds"] = 2
    outcome = download(items)
    assert outcome.code == 0, outcome.err
    assert download.files() == {"code/a.py": b"one\n"}
    outcome = download(items)
    assert outcome.code == 0, outcome.err


@pytest.mark.parametrize("status", [410, 451])
def test_a_repository_that_was_taken_down_is_not_tried_again(download: Any, host: Any, status: int) -> None:
    """GitHub answers 451 after a complaint."""
    host.gone = status
    download.limits["retrySeconds"] = 600
    download.assert_failed(download(host.item()), 3, "git[0]", "no longer gives the repository")


def test_a_missing_repository_is_exit_3(download: Any, host: Any) -> None:
    """With its URL."""
    items = host.item(repository=f"{host.url}/none.git")
    download.assert_failed(download(items), 3, "git[0]", "none.git", "not found")


@pytest.mark.parametrize(
    ("more", "word"),
    [
        ({"repository": "ext::sh -c id"}, "repository"),
        ({"repository": "file:///etc"}, "repository"),
        ({"repository": "http://user:pw@127.0.0.1/x.git"}, "credentials"),
        ({"repository": "http://169.254.169.254/x.git"}, "169.254.169.254"),
        ({"branch": "--upload-pack=id"}, "branch"),
        ({"commit": "abcdef12"}, "commit"),
        ({"path": "../x"}, "path"),
        ({"targetPath": "../x"}, "targetPath"),
    ],
)
def test_what_could_run_or_reach_something_else_is_refused(
    download: Any, host: Any, more: dict[str, str], word: str
) -> None:
    """Exit 2 before any request."""
    download.assert_failed(download(host.item(**more)), 2, "git[0]", word)
    assert not host.paths


def test_links_out_of_the_tree_are_refused_by_name(download: Any, host: Any) -> None:
    """Exit 2, nothing of the tree is left."""
    download.assert_failed(download(host.item(branch="dev/evil")), 2, "git[0]", "link out", "points out")


@pytest.mark.parametrize("path", [".", "./", "./.", "./src", "src/", "src/./a.py", "src//a.py"])
def test_a_path_may_be_spelled_otherwise(download: Any, host: Any, path: str) -> None:
    """Points and slashes that change nothing change nothing."""
    outcome = download(host.item(path=path))
    assert outcome.code == 0, outcome.err
    assert ("code/src/a.py" if path.strip("./") == "" else "code/a.py") in download.files()


@pytest.mark.parametrize(
    ("path", "code", "word"), [("sub", 3, "submodule"), (".git/config", 2, "inside .git")]
)
def test_a_path_without_files_fails(download: Any, host: Any, path: str, code: int, word: str) -> None:
    """A submodule is empty here, and git's own files are no part of the tree."""
    download.assert_failed(download(host.item(path=path)), code, "git[0]", word)


def test_files_of_another_user(download: Any, host: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Volumes that squash users give every file to one; git has a switch of its own to play that."""
    program = download.root / "bin" / "git"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\nGIT_TEST_ASSUME_DIFFERENT_OWNER="${{GIT_ASKPASS:+1}}" exec {shutil.which("git")} "$@"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    outcome = download(host.item(path="src"))
    assert outcome.code == 0, outcome.err
