"""Writes that bypass the page cache."""

from __future__ import annotations

import base64
import binascii
import errno
import hashlib
import os
import random
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo_storage_s3_gcs_azure_git_hf.download import disk
from kaiwo_storage_s3_gcs_azure_git_hf.download.transfer import blocks

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MIB = 1024**2
BODY = random.Random(5).randbytes(3 * MIB + 1234)
CRC = {"x-amz-checksum-crc32": base64.b64encode(binascii.crc32(BODY).to_bytes(4)).decode()}
"""The CRCs of parts combine, so that nothing is read from the file."""


@pytest.fixture
def written_direct(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How many bytes were written around the page cache; skips where the file system cannot do that."""
    probe = tmp_path / "probe"
    probe.touch()
    fd = disk.open_direct(probe)
    if fd is None:
        pytest.skip("the file system of the temporary folder is not written around the page cache")
    os.close(fd)
    counts: list[int] = []
    opened: set[int] = set()
    real_open, real_write = disk.open_direct, disk.write_all

    def noted_open(path: Path) -> int | None:
        found = real_open(path)
        if found is not None:
            opened.add(found)
        return found

    def noted_write(number: int, data: memoryview, offset: int) -> None:
        real_write(number, data, offset)
        if number in opened:
            counts.append(len(data))

    monkeypatch.setattr(disk, "open_direct", noted_open)
    monkeypatch.setattr(disk, "write_all", noted_write)
    return lambda: sum(counts)


@pytest.mark.parametrize("part_size", [65536, MIB, 2 * MIB])
def test_a_large_file_is_written_around_the_page_cache(
    download: Any, objects: Any, written_direct: Callable[[], int], part_size: int
) -> None:
    """All of it but the end, which is no whole block."""
    objects.content["a"] = BODY
    objects.checksums["a"] = CRC
    download.limits["partSize"] = part_size
    outcome = download(download.one(objects.url))
    assert outcome.code == 0, outcome.err
    assert written_direct() == len(BODY) // disk.DIRECT_BLOCK * disk.DIRECT_BLOCK
    assert list(download.files().values()) == [BODY]


@pytest.mark.parametrize("part_size", [65536 + 100, 4 * MIB], ids=["odd parts", "one part"])
def test_a_file_of_one_part_or_odd_parts_is_written_through_the_page_cache(
    download: Any, objects: Any, written_direct: Callable[[], int], part_size: int
) -> None:
    """A small file is quicker so; of odd parts, two workers would write one block in two ways."""
    objects.content["a"] = BODY
    objects.checksums["a"] = CRC
    download.limits["partSize"] = part_size
    outcome = download(download.one(objects.url))
    assert outcome.code == 0, outcome.err
    assert written_direct() == 0
    assert list(download.files().values()) == [BODY]


def test_what_is_read_again_for_its_digest_stays_in_the_page_cache(
    download: Any, objects: Any, written_direct: Callable[[], int]
) -> None:
    """A sha256 of several parts is computed from the file, which would come from the disk."""
    objects.content["a"] = BODY
    assert download.limits["partSize"] < len(BODY)
    items = download.one(objects.url)
    items["s3"][0]["buckets"][0]["files"][0]["sha256"] = hashlib.sha256(BODY).hexdigest()
    outcome = download(items)
    assert outcome.code == 0, outcome.err
    assert written_direct() == 0
    assert list(download.files().values()) == [BODY]


def test_a_disk_that_refuses_direct_writes_is_written_as_usual(
    download: Any, objects: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One with larger blocks answers EINVAL at the first write."""
    objects.content["a"] = BODY
    objects.checksums["a"] = CRC
    refused: list[int] = []
    direct: set[int] = set()
    real = disk.write_all

    def opened(path: Path) -> int:
        direct.add(fd := os.open(path, os.O_WRONLY))
        return fd

    def write(fd: int, data: memoryview, offset: int) -> None:
        if fd in direct:
            refused.append(offset)
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        real(fd, data, offset)

    monkeypatch.setattr(disk, "open_direct", opened)
    monkeypatch.setattr(disk, "write_all", write)
    outcome = download(download.one(objects.url))
    assert outcome.code == 0, outcome.err
    assert refused
    assert list(download.files().values()) == [BODY]


def test_a_full_disk_is_reported_for_direct_writes_too(
    download: Any, objects: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit 5 when there is no space left, and the message names the object."""
    objects.content["a"] = BODY
    objects.checksums["a"] = CRC
    direct: set[int] = set()
    real = disk.write_all

    def opened(path: Path) -> int:
        direct.add(fd := os.open(path, os.O_WRONLY))
        return fd

    def write(fd: int, data: memoryview, offset: int) -> None:
        if fd in direct:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(fd, data, offset)

    monkeypatch.setattr(disk, "open_direct", opened)
    monkeypatch.setattr(disk, "write_all", write)
    download.assert_failed(download(download.one(objects.url)), 5, "files[0]", "no space left")


def test_a_file_system_without_direct_writes_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The open answers EINVAL there; that of a network file system succeeds, and is not used."""
    file = tmp_path / "file"
    file.touch()
    real = os.open

    def refuses(path: Any, flags: int, *rest: Any, **more: Any) -> int:
        if flags & os.O_DIRECT:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return real(path, flags, *rest, **more)

    monkeypatch.setattr(disk, "_file_system_type", lambda _: 0x6969)  # NFS
    assert disk.open_direct(file) is None
    monkeypatch.setattr(os, "open", refuses)
    assert disk.open_direct(file) is None


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([], []),
        ([3], [3]),
        ([10], [10]),
        ([3, 4, 5], [10, 2]),
        ([25], [10, 10, 5]),
        ([0, 7, 0, 13], [10, 10]),
    ],
)
def test_chunks_of_any_size_become_blocks_of_one(sizes: list[int], expected: list[int]) -> None:
    """In their order, only the last one smaller."""
    body = bytes(range(sum(sizes)))
    starts = [sum(sizes[:index]) for index in range(len(sizes))]
    chunks = [body[start : start + size] for start, size in zip(starts, sizes, strict=True)]
    found = [bytes(block) for block in blocks(chunks, memoryview(bytearray(10)))]
    assert [len(block) for block in found] == expected
    assert b"".join(found) == body
