"""The S3 store and the git server of the demo."""

from __future__ import annotations

import shutil
import subprocess
import urllib.error
import urllib.request
from typing import TYPE_CHECKING

import pytest

from kaiwo_sandbox.demo.download_servers import BUCKET, USER, DownloadServers

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LOGIN = {"Authorization": f"AWS4-HMAC-SHA256 Credential={USER}/20260101/us-east-1/s3/aws4_request"}


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[DownloadServers]:
    """Both servers."""
    running = DownloadServers(tmp_path)
    running.start()
    yield running
    running.close()


def get(url: str, **headers: str) -> tuple[int, bytes]:
    """Status and body of an answer."""
    request = urllib.request.Request(url, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def test_the_store_serves_only_requests_with_the_key(servers: DownloadServers) -> None:
    """It serves a listing and a range; other users get 403 and missing objects 404."""
    bucket = f"{servers.url}/{BUCKET}"
    code, listed = get(f"{bucket}?list-type=2&prefix=clean/", **LOGIN)
    assert (code, listed.count(b"<Key>")) == (200, 4)
    code, part = get(f"{bucket}/clean/part-0.bin", Range="bytes=10-19", **LOGIN)
    assert (code, len(part)) == (206, 10)
    assert get(f"{bucket}/none", **LOGIN)[0] == 404
    assert get(f"{servers.url}/other?prefix=", **LOGIN)[0] == 404
    assert get(bucket)[0] == 403


def test_git_clones_what_is_served(servers: DownloadServers, tmp_path: Path) -> None:
    """Also with depth 1."""
    target = tmp_path / "clone"
    source = f"{servers.url}/git/project.git"
    git = shutil.which("git") or "git"
    subprocess.run([git, "clone", "-q", "--depth", "1", source, str(target)], check=True, timeout=30)
    assert (target / "train.py").read_text() == "print('hello from git')\n"


def test_the_addresses_are_values_of_set(servers: DownloadServers) -> None:
    """As `kaiwo submit --set` takes them."""
    assert servers.changes == (
        f"storage.data.download.s3[0].endpointUrl={servers.url}",
        f"storage.data.download.git[0].repository={servers.url}/git/project.git",
    )
