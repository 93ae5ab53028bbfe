"""Git LFS files: downloaded on request, checked, and only over http and https."""

from __future__ import annotations

import hashlib
import threading
import time
from typing import Any

import pytest

POINTER = "version {0}\noid sha256:{1}\nsize {2}\n"
VERSION = "https://git-lfs.github.com/spec/v1"


def add_branch(host: Any, branch: str, files: dict[str, str]) -> None:
    """Push a branch with further files."""
    host.git("work", "checkout", "-q", "-B", branch, "main")
    for name, text in files.items():
        path = host.root / "work" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text.encode())
        host.git("work", "add", name)
    host.git("work", "commit", "-qm", branch)
    host.git("work", "push", "-q", "../repo.git", branch)
    host.git("work", "checkout", "-q", "main")


def test_lfs_files_are_downloaded_only_on_request(download: Any, host: Any) -> None:
    """Without ``lfs`` the pointer stays, no LFS server is contacted, and a warning names the field to set."""
    outcome = download(host.item())
    assert outcome.code == 0, outcome.err
    assert download.files()["code/model.bin"].startswith(b"version https://git-lfs")
    assert not [path for path in host.paths if "lfs" in path]
    [warning] = [line for line in outcome.err.splitlines() if "LFS" in line]
    assert "git[0]: 1 LFS pointer " in warning
    assert "lfs: true" in warning


def test_a_checkout_with_lfs_files_is_not_taken_for_one_without(download: Any, host: Any) -> None:
    """Setting ``lfs`` on a finished checkout downloads its LFS files."""
    assert download(host.item()).code == 0
    outcome = download(host.item(lfs=True))
    assert outcome.code == 0, outcome.err
    assert download.files()["code/model.bin"] == host.large


def test_large_files_that_are_not_what_the_pointer_says_fail(download: Any, host: Any) -> None:
    """Exit 4."""
    host.large = host.large[:-1] + b"x"
    download.assert_failed(download(host.item(lfs=True)), 4, "git[0]", "model.bin")


def test_a_broken_connection_is_no_wrong_content(download: Any, host: Any) -> None:
    """It goes on behind the bytes that arrived; the workload would have failed for good."""
    host.torn = 4000
    download.limits["retrySeconds"] = 60
    outcome = download(host.item(path="model.bin", lfs=True))
    assert outcome.code == 0, outcome.err
    assert download.files() == {"code/model.bin": host.large}
    assert host.ranges == ["", "bytes=4000-"]


def test_the_next_run_goes_on_where_one_was_interrupted(download: Any, host: Any) -> None:
    """Repositories of models are larger than what one try gets; nothing is left in the state folder."""
    host.torn = 4000
    download.assert_failed(download(host.item(path="model.bin", lfs=True)), 6, "git[0]", "ended early")
    outcome = download(host.item(path="model.bin", lfs=True))
    assert outcome.code == 0, outcome.err
    assert download.files() == {"code/model.bin": host.large}
    assert host.ranges == ["", "bytes=4000-"]
    assert not list(download.volume.glob(".kaiwo-download/lfs-*"))


def test_bytes_of_an_earlier_run_that_are_wrong_are_downloaded_again(download: Any, host: Any) -> None:
    """A node that fails may lose what was written last."""
    host.torn = 4000
    assert download(host.item(path="model.bin", lfs=True)).code == 6
    (stored,) = download.volume.glob(".kaiwo-download/lfs-*")
    stored.write_bytes(bytes(4000))
    outcome = download(host.item(path="model.bin", lfs=True))
    assert outcome.code == 0, outcome.err
    assert download.files() == {"code/model.bin": host.large}
    assert host.ranges == ["", "bytes=4000-", ""]


def test_a_url_that_expired_is_asked_for_anew(download: Any, host: Any) -> None:
    """The URLs of a batch are valid for minutes, and its files may take hours."""
    host.expired = 1
    outcome = download(host.item(path="model.bin", lfs=True))
    assert outcome.code == 0, outcome.err
    assert sum(path.endswith("/objects/batch") for path in host.paths) == 2


def test_lfs_files_are_not_downloaded_over_another_protocol(
    download: Any, host: Any, ftp: tuple[str, list[bytes]]
) -> None:
    """A redirect to an FTP server is exit 2, and nothing connects to it."""
    host.moved, received = ftp
    download.assert_failed(download(host.item(lfs=True)), 2, "git[0]", "model.bin", "ftp://")
    assert received == []


@pytest.mark.parametrize(("scheme", "code"), [("http", 0), ("file", 2)])
def test_large_files_are_where_the_repository_says(download: Any, host: Any, scheme: str, code: int) -> None:
    """Its .lfsconfig names their server, which gets no credentials of another."""
    url = f"{scheme}://localhost:{host.server_address[1]}/large"
    host.git("work", "checkout", "-q", "-B", scheme, "main")
    (host.root / "work" / ".lfsconfig").write_text(f"[lfs]\n\turl = {url}\n")
    host.git("work", "add", ".lfsconfig")
    host.git("work", "commit", "-qm", "large")
    host.git("work", "push", "-q", "../repo.git", scheme)
    token = download.secret("token", host.token)
    items = host.item(branch=scheme, path="model.bin", lfs=True, token=token)
    # Another loopback host may be reached only where the user wrote it.
    other = {"repository": f"http://localhost:{host.server_address[1]}/repo.git", "targetPath": "other"}
    items["git"].append({**other, "branch": "main"})
    outcome = download(items)
    assert outcome.code == code, outcome.err
    assert code or (download.files()["code/model.bin"] == host.large and "/large/objects/batch" in host.paths)
    assert not [given for name, given in host.given if "localhost" in name and given]


def test_large_files_are_downloaded_several_at_once(download: Any, host: Any) -> None:
    """A repository of a model has tens of them, and one connection is slower than the network."""
    contents = [f"content {number}".encode() for number in range(4)]
    host.others = {hashlib.sha256(content).hexdigest(): content for content in contents}
    pointers = {
        f"models/{number}": POINTER.format(VERSION, oid, len(content))
        for number, (oid, content) in enumerate(host.others.items())
    }
    add_branch(host, "many", pointers)
    host.together = threading.Barrier(2)
    outcome = download(host.item(branch="many", path="models", lfs=True))
    assert outcome.code == 0, outcome.err
    assert download.files() == {f"code/{number}": content for number, content in enumerate(contents)}
    assert not host.together.broken
    assert sum(path.endswith("/objects/batch") for path in host.paths) == 1


def test_the_first_failure_ends_the_other_large_files(download: Any, host: Any) -> None:
    """Nobody waits for hours for the rest of a repository that cannot be complete."""
    contents = [f"failing {number}".encode() for number in range(40)]
    oids = [hashlib.sha256(content).hexdigest() for content in contents]
    add_branch(
        host,
        "failing",
        {
            f"f{number:02}": POINTER.format(VERSION, oid, len(contents[number]))
            for number, oid in enumerate(oids)
        },
    )
    # None has the content that its pointer names.
    download.assert_failed(download(host.item(branch="failing", lfs=True)), 4, "does not match its pointer")
    assert len(host.ranges) < 30


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        ({"code": 404, "message": "Object does not exist"}, 3, ("not found on the server", "git lfs push")),
        ({"code": 410, "message": "removed by the owner"}, 3, ("not found", "removed by the owner")),
        ({"code": 422, "message": "blocked by policy"}, 3, ("refused", "HTTP 422: blocked by policy")),
        ({"code": 500, "message": "busy"}, 6, ("HTTP 500: busy",)),
        ({"code": "x"}, 3, ("not found on the server",)),
    ],
)
def test_an_error_of_one_large_file_has_the_words_of_the_server(
    download: Any, host: Any, error: dict[str, Any], code: int, words: tuple[str, ...]
) -> None:
    """The batch API answers with 200 and an error of each object; each is not a missing file."""
    host.entry = host.later_entry = {"actions": None, "error": error}
    outcome = download(host.item(path="model.bin", lfs=True))
    download.assert_failed(outcome, code, "git[0]", "LFS file model.bin", *words)


def test_a_large_file_that_the_server_cannot_give_for_a_moment_is_asked_for_again(
    download: Any, host: Any
) -> None:
    """The error of an object may pass as that of a request does."""
    host.entry = {"actions": None, "error": {"code": 503, "message": "busy"}}
    download.limits["retrySeconds"] = 60
    outcome = download(host.item(path="model.bin", lfs=True))
    assert outcome.code == 0, outcome.err
    assert download.files() == {"code/model.bin": host.large}


@pytest.mark.parametrize("status", [403, 509])
def test_a_spent_quota_is_reported_in_the_words_of_the_server(download: Any, host: Any, status: int) -> None:
    """GitHub answers so when the owner's budget is spent; a token does not help, nor does another try."""
    host.batch_error = (status, "This repository exceeded its LFS budget.\nAsk its owner.")
    download.limits["retrySeconds"] = 600
    outcome = download(host.item(path="model.bin", lfs=True))
    download.assert_failed(outcome, 3, "git[0]", f"HTTP {status}: This repository exceeded its LFS budget.")


def test_a_busy_server_is_left_alone_for_as_long_as_it_says(download: Any, host: Any) -> None:
    """Hosts that limit requests count those that come too early, and block who goes on."""
    host.batch_error, host.retry_after = (429, "rate limit"), "2"
    download.limits["retrySeconds"] = 60
    began = time.monotonic()
    outcome = download(host.item(path="model.bin", lfs=True))
    assert outcome.code == 0, outcome.err
    assert time.monotonic() - began > 2


def test_a_url_with_its_own_authentication_gets_no_credentials(download: Any, host: Any) -> None:
    """Stores refuse a request that has a signature in its URL and a header beside it."""
    host.entry = {"authenticated": True}
    items = host.item(path="model.bin", lfs=True, token=download.secret("token", host.token))
    outcome = download(items)
    assert outcome.code == 0, outcome.err
    given = [given[1] for path, given in zip(host.paths, host.given, strict=True) if path.startswith("/lfs/")]
    assert given == [""]


@pytest.mark.parametrize(
    "text",
    [
        POINTER.format("https://hawser.github.com/spec/v1", "{0}", "{1}"),
        POINTER.format("http://git-media.io/v/2", "{0}", "{1}"),
        POINTER.format(VERSION, "{0}", "{1}").replace("\n", "\r\n"),
        POINTER.format(VERSION, "{0}", "{1}").rstrip("\n"),
    ],
)
def test_every_pointer_that_git_lfs_reads_is_one(download: Any, host: Any, text: str) -> None:
    """Those of its first versions, those that an editor changed, and those without a last line break."""
    oid = hashlib.sha256(host.large).hexdigest()
    branch = f"p{hashlib.sha256(text.encode()).hexdigest()[:8]}"
    add_branch(host, branch, {"old.bin": text.format(oid, len(host.large))})
    outcome = download(host.item(branch=branch, path="old.bin", lfs=True))
    assert outcome.code == 0, outcome.err
    assert download.files() == {"code/old.bin": host.large}
