"""Git LFS files: downloaded on request, checked, and only over http and https."""

from __future__ import annotations

from typing import Any

import pytest


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
