from __future__ import annotations

import base64
import hashlib
import time
import zlib
from typing import Any

import pytest
from awscrt import checksums  # type: ignore[import-untyped] # the library has no types

BODY = bytes(range(256)) * 1024
LARGE = BODY * 5
"""Large enough that a quick checksum is worth a request of its own."""

MULTIPART = '"0123456789abcdef0123456789abcdef-2"'
NO_MD5 = '"' + "0" * 32 + '"'
FULL = {"x-amz-checksum-type": "FULL_OBJECT"}


def test_an_object_that_changes_during_the_download_fails(download: Any, objects: Any) -> None:
    """No file is made of two versions."""
    objects.content["a"] = BODY

    def change(handler: Any) -> bool:
        if handler.command == "GET":
            objects.etags["a"] = '"0123"'
        return False

    objects.faults["a"] = change
    download.assert_failed(download(download.one(objects.url)), 4, "files[0]", "/bucket/a", "changed")


def digest(algorithm: str, body: bytes) -> bytes:
    """A checksum as the stores give it, before its encoding."""
    if algorithm == "crc32":
        return zlib.crc32(body).to_bytes(4)
    if algorithm == "crc32c":
        return int(checksums.crc32c(body)).to_bytes(4)
    if algorithm == "crc64nvme":
        return int(checksums.crc64nvme(body)).to_bytes(8)
    return hashlib.new(algorithm, body, usedforsecurity=False).digest()


@pytest.mark.parametrize("part_size", [65536, 8 * 1024**2], ids=["parts", "one part"])
@pytest.mark.parametrize("right", [True, False], ids=["right", "wrong"])
@pytest.mark.parametrize(
    "kind", ["item", "etag", "crc64nvme", "crc32c", "crc32", "sha256", "sha1", "content-md5"]
)
def test_content_is_checked_with_every_kind_of_checksum(
    download: Any, objects: Any, kind: str, right: bool, part_size: int
) -> None:
    """A wrong one is exit 4 with item, both checksums and a next step, and nothing is left of the file."""
    algorithm = {"item": "sha256", "etag": "md5", "content-md5": "md5"}.get(kind, kind)
    true = digest(algorithm, LARGE)
    says = true if right else digest(algorithm, b"")
    encoded = base64.b64encode(says).decode()
    download.limits["partSize"] = part_size
    objects.content["a"] = LARGE
    objects.etags["a"] = f'"{says.hex()}"' if kind == "etag" else MULTIPART
    more = {"sha256": says.hex().upper()} if kind == "item" else {}
    if kind == "content-md5":
        objects.headers = lambda _: {"Content-MD5": encoded}
    elif kind not in ("item", "etag"):
        objects.checksums["a"] = {f"x-amz-checksum-{kind}": encoded, **FULL}
    outcome = download(download.one(objects.url, **more))
    if right:
        assert outcome.code == 0, outcome.err
        assert download.files() == {"a.bin": LARGE}
    else:
        words = ("s3[0].buckets[0].files[0]", "/bucket/a", algorithm, true.hex(), says.hex(), "check the")
        download.assert_failed(outcome, 4, *words)
    assert not list(download.volume.glob("*.part"))


def test_a_quick_checksum_of_the_store_is_taken_instead_of_the_md5(download: Any, objects: Any) -> None:
    """As Amazon's own tools do; an ETag that is no MD5 then does no harm."""
    objects.content["a"] = LARGE
    objects.etags["a"] = NO_MD5
    encoded = base64.b64encode(digest("crc64nvme", LARGE)).decode()
    objects.checksums["a"] = {"x-amz-checksum-crc64nvme": encoded, **FULL}
    outcome = download(download.one(objects.url))
    assert outcome.code == 0, outcome.err
    assert download.files() == {"a.bin": LARGE}


@pytest.mark.parametrize("size", [1, 5])
def test_the_etag_of_an_object_with_a_key_of_its_own_is_no_md5(
    download: Any, objects: Any, size: int
) -> None:
    """S3 says that it is encrypted with a key of KMS; its size is checked."""
    objects.content["a"] = BODY * size
    objects.etags["a"] = NO_MD5
    objects.headers = lambda _: {"x-amz-server-side-encryption": "aws:kms"}
    outcome = download(download.one(objects.url))
    assert outcome.code == 0, outcome.err
    assert download.files() == {"a.bin": BODY * size}


def test_a_checksum_of_checksums_is_not_taken_for_one_of_the_content(download: Any, objects: Any) -> None:
    """As S3 gives it for objects that came in parts before it knew better."""
    objects.content["a"] = LARGE
    objects.etags["a"] = MULTIPART
    objects.checksums["a"] = {"x-amz-checksum-crc32c": "AAAAAA==-2", "x-amz-checksum-type": "COMPOSITE"}
    outcome = download(download.one(objects.url))
    assert outcome.code == 0, outcome.err
    assert download.files() == {"a.bin": LARGE}


def test_the_request_for_a_checksum_is_signed(download: Any, objects: Any) -> None:
    """S3 refuses headers of its own that are not part of the signature."""
    objects.content["a"] = LARGE
    encoded = base64.b64encode(digest("crc64nvme", LARGE)).decode()
    objects.checksums["a"] = {"x-amz-checksum-crc64nvme": encoded, **FULL}
    objects.allowed = lambda headers: "CANARYKEY" in headers.get("authorization", "")
    items = download.one(objects.url)
    items["s3"][0]["accessKeyId"] = download.secret("id", "CANARYKEY")
    items["s3"][0]["secretKey"] = download.secret("key", "CANARYSECRET")
    outcome = download(items)
    assert outcome.code == 0, outcome.err
    asked = [headers for _, _, headers in objects.requests if "x-amz-checksum-mode" in headers]
    assert len(asked) == 1
    assert ";x-amz-checksum-mode;" in asked[0]["authorization"]
    assert all("CANARYSECRET" not in str(headers) for _, _, headers in objects.requests)


def test_small_objects_cost_one_request(download: Any, objects: Any) -> None:
    """The MD5 of little content is quicker than asking for another checksum."""
    objects.content = {f"d/{number}": bytes([number]) * 1000 for number in range(20)}
    items = download.s3(objects.url, folders=[{"path": "d", "targetPath": "d"}])
    assert download(items).code == 0
    assert len([key for _, key, _ in objects.requests if key]) == 20


def test_a_store_that_never_tells_is_given_up_in_time(download: Any, objects: Any) -> None:
    """Exit 6 after the time for tries, once and not again for each read."""
    objects.content["a"] = LARGE
    objects.etags["a"] = MULTIPART

    def busy(handler: Any) -> bool:
        if handler.headers.get("x-amz-checksum-mode"):
            handler.reply(503)
            return True
        return False

    objects.faults["a"] = busy
    download.limits["retrySeconds"] = 2
    began = time.monotonic()
    download.assert_failed(download(download.one(objects.url)), 6, "files[0]", "HTTP 503")
    assert time.monotonic() - began < 4
    assert not [method for method, key, _ in objects.requests if key and method == "GET"]


def test_a_store_that_is_busy_when_it_is_asked_is_asked_again(download: Any, objects: Any) -> None:
    """Content does not go unchecked because the checksum could not be had at once."""
    objects.content["a"] = LARGE
    objects.etags["a"] = MULTIPART
    encoded = base64.b64encode(digest("crc32c", b"")).decode()
    objects.checksums["a"] = {"x-amz-checksum-crc32c": encoded, **FULL}
    left = [2]

    def busy(handler: Any) -> bool:
        if handler.headers.get("x-amz-checksum-mode") and left[0]:
            left[0] -= 1
            handler.reply(503)
            return True
        return False

    objects.faults["a"] = busy
    download.limits["retrySeconds"] = 30
    download.assert_failed(download(download.one(objects.url)), 4, "crc32c")
    assert left == [0]
