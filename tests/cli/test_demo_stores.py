"""The little store and git server that the demo's downloads come from."""

from __future__ import annotations

import shutil
import subprocess
import urllib.error
import urllib.request
from typing import TYPE_CHECKING

import pytest

from kaiwo.cli.demo.stores import BUCKET, USER, Stores

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LOGIN = {"Authorization": f"AWS4-HMAC-SHA256 Credential={USER}/20260101/us-east-1/s3/aws4_request"}


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[Stores]:
    """Both servers."""
    served = Stores(tmp_path)
    served.start()
    yield served
    served.close()


def get(url: str, **headers: str) -> tuple[int, bytes]:
    """Status and body of an answer."""
    request = urllib.request.Request(url, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def test_the_store_serves_those_who_have_the_key(stores: Stores) -> None:
    """A listing, a range, and no to everybody else and to what is not there."""
    bucket = f"{stores.url}/{BUCKET}"
    code, listed = get(f"{bucket}?list-type=2&prefix=clean/", **LOGIN)
    assert (code, listed.count(b"<Key>")) == (200, 4)
    code, part = get(f"{bucket}/clean/part-0.bin", Range="bytes=10-19", **LOGIN)
    assert (code, len(part)) == (206, 10)
    assert get(f"{bucket}/none", **LOGIN)[0] == 404
    assert get(f"{stores.url}/other?prefix=", **LOGIN)[0] == 404
    assert get(bucket)[0] == 403


def test_git_clones_what_is_served(stores: Stores, tmp_path: Path) -> None:
    """By git's own protocol, a shallow clone included."""
    target = tmp_path / "clone"
    source = f"{stores.url}/git/project.git"
    git = shutil.which("git") or "git"
    subprocess.run([git, "clone", "-q", "--depth", "1", source, str(target)], check=True, timeout=30)
    assert (target / "train.py").read_text() == "print('hello from git')\n"


def test_the_job_is_told_where_both_are(stores: Stores) -> None:
    """As the command takes changes of fields."""
    assert stores.addresses == (
        f"storage.data.download.s3[0].endpointUrl={stores.url}",
        f"storage.data.download.git[0].repository={stores.url}/git/project.git",
    )
