from __future__ import annotations

import errno
import os
from typing import Any

import pytest

from kaiwo_storage_s3_gcs_azure_git_hf.download import main as program

BODY = bytes(range(256)) * 1024


def test_a_missing_bucket_is_not_found(download: Any, objects: Any) -> None:
    """Exit 3, with the bucket."""
    objects.bucket = "other"
    outcome = download(download.s3(objects.url, folders=[{"path": "", "targetPath": ""}]))
    download.assert_failed(outcome, 3, "s3[0].buckets[0].folders[0]", "/bucket", "NoSuchBucket")


def test_a_missing_object_is_not_found(download: Any, objects: Any) -> None:
    """Exit 3, with the object."""
    download.assert_failed(
        download(download.one(objects.url)), 3, "s3[0].buckets[0].files[0]", "/bucket/a", "404"
    )


def test_wrong_credentials_are_refused_at_once(download: Any, objects: Any) -> None:
    """Exit 3 after a single request, and the credentials are in no output."""
    objects.allowed = lambda headers: "GOODKEY" in headers.get("authorization", "")
    objects.content["a"] = BODY
    download.limits["retrySeconds"] = 60
    items = download.one(objects.url)
    items["s3"][0]["accessKeyId"] = download.secret("id", "CANARYKEY")
    items["s3"][0]["secretKey"] = download.secret("key", "CANARYSECRET")
    outcome = download(items)
    download.assert_failed(outcome, 3, "s3[0]", "access denied", "credentials")
    assert len(objects.requests) == 1
    assert "CANARY" not in outcome.err + outcome.out


def test_a_local_file_that_vanishes_is_not_reported_as_a_missing_object(
    download: Any, objects: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the write, and not the permission to list the bucket."""
    objects.content["a"] = BODY

    def vanished(*_: Any) -> int:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))

    monkeypatch.setattr(os, "pwritev", vanished)
    download.assert_failed(download(download.one(objects.url)), 2, "files[0]", "write failed")


def test_a_prefix_without_match_is_an_error(download: Any, objects: Any) -> None:
    """``data`` does not match ``database/x``."""
    objects.content["database/x"] = BODY
    outcome = download(download.s3(objects.url, folders=[{"path": "data", "targetPath": "d"}]))
    download.assert_failed(outcome, 3, "s3[0].buckets[0].folders[0]", "/bucket/data", "matches")


@pytest.mark.parametrize("key", ["data/../../x", "data//x", "data/./x"])
def test_keys_that_cannot_be_files_are_refused_by_name(download: Any, objects: Any, key: str) -> None:
    """A key with ``..`` must not become a path."""
    objects.content[key] = BODY
    outcome = download(download.s3(objects.url, folders=[{"path": "data", "targetPath": "d"}]))
    download.assert_failed(outcome, 2, "s3[0].buckets[0].folders[0]", key)


@pytest.mark.parametrize("target", ["/etc/x", "../x", "d/../../x", ".kaiwo-download/journal", "."])
def test_targets_outside_the_volume_are_refused(download: Any, objects: Any, target: str) -> None:
    """Absolute, with ``..``, or the program's own files: exit 2 before any request."""
    objects.content["a"] = BODY
    outcome = download(download.s3(objects.url, files=[{"path": "a", "targetPath": target}]))
    download.assert_failed(outcome, 2, "s3")
    assert not objects.requests


def test_two_items_on_one_target_are_refused_before_the_first_byte(download: Any, objects: Any) -> None:
    """Both are named."""
    objects.content |= {"a": BODY, "d/x": BODY}
    items = download.s3(
        objects.url,
        files=[{"path": "a", "targetPath": "out/x"}],
        folders=[{"path": "d", "targetPath": "./out"}],
    )
    outcome = download(items)
    download.assert_failed(outcome, 2, "files[0]", "folders[0]", "out/x")
    assert all(method == "HEAD" or not key for method, key, _ in objects.requests)


def test_a_link_out_of_the_volume_is_not_followed(download: Any, objects: Any) -> None:
    """A folder that is a link to elsewhere receives nothing."""
    objects.content["a"] = BODY
    outside = download.root / "outside"
    outside.mkdir()
    download.volume.mkdir()
    (download.volume / "link").symlink_to(outside)
    outcome = download(download.s3(objects.url, files=[{"path": "a", "targetPath": "link/x"}]))
    download.assert_failed(outcome, 2, "files[0]", "link")
    assert list(outside.iterdir()) == []


def test_a_link_in_place_of_a_partial_file_is_named(download: Any, objects: Any) -> None:
    """It is not followed, and the user learns which file to remove."""
    objects.content["a"] = BODY
    download.volume.mkdir()
    (download.volume / "a.bin.part").symlink_to(download.root / "outside")
    outcome = download(download.one(objects.url))
    download.assert_failed(outcome, 2, "files[0]", "a.bin.part is a symbolic link", "remove the link")
    assert not (download.root / "outside").exists()


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("a: [", "invalid YAML"),
        ("[]", "version"),
        ("version: 2\nitems: {}", "version"),
        ("version: 1\nitems: {oci: [{}]}", "oci"),
        ("version: 1\nitems: {s3: [{}]}", "endpointUrl"),
        ("version: 1\nitems: {x: [{}]}\ndownloaders: {x: 'no.such:thing'}", "no.such:thing"),
    ],
)
def test_a_configuration_that_cannot_be_used_is_exit_2(
    tmp_path: Any, capsys: pytest.CaptureFixture[str], text: str, word: str
) -> None:
    """With the place of the first mistake."""
    path = tmp_path / "config.yaml"
    path.write_text(text)
    assert program.run([str(path)]) == 2
    assert word in capsys.readouterr().err


def test_a_missing_secret_is_named(download: Any, objects: Any) -> None:
    """Exit 2, with Secret and key."""
    items = download.one(objects.url)
    reference = {"secretName": "creds", "secretKey": "gone", "file": "/nonexistent/gone"}
    items["s3"][0] |= {"accessKeyId": reference, "secretKey": reference}
    download.assert_failed(download(items), 2, "s3[0]", "key gone of Secret creds")


@pytest.mark.parametrize("name", ["a b", "a/b", "..", "a?b", "ü", "a\nb", "a%20b"])
def test_a_text_that_is_no_bucket_is_refused(download: Any, objects: Any, name: str) -> None:
    """Before it becomes part of a URL."""
    items = download.one(objects.url)
    items["s3"][0]["buckets"][0]["name"] = name
    download.assert_failed(download(items), 2, "s3[0]", "name")
    assert not objects.requests


@pytest.mark.parametrize("value", ["CANARY\nCANARY", "CANARYü", "CANARY\x01"])
def test_a_secret_that_cannot_be_sent_is_named_and_not_shown(download: Any, objects: Any, value: str) -> None:
    """A whole file where a key belongs, for example."""
    keys = {"accessKeyId": download.secret("id", value), "secretKey": download.secret("key", value)}
    items = download.one(objects.url)
    items["s3"][0].update(keys)
    text = f"AccountName={value};AccountKey=a2V5;BlobEndpoint={objects.url}"
    azure = {"connectionString": download.secret("azure", text), "containers": items["s3"][0]["buckets"]}
    for wanted, key in ((items, "id"), ({"azureBlob": [azure]}, "azure")):
        outcome = download(wanted)
        download.assert_failed(outcome, 2, f"key {key} of Secret creds", "one line")
        assert "CANARY" not in outcome.err + outcome.out
