"""Checksums of content: which one a store gives, and how it is computed while parts arrive in any order.

The CRCs of parts combine to the CRC of the whole, so the worker that writes a part computes its CRC. Digests
of hashlib do not combine. They are computed from the beginning of the file, as far as its parts are there.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import re
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_CRC_DIGITS: Final = {"crc64nvme": 16, "crc32c": 8, "crc32": 8}
"""Hexadecimal digits of each CRC, by the names that stores and the AWS library use."""

_S3_HEADERS: Final = (*_CRC_DIGITS, "sha256", "sha1")
"""Algorithms of ``x-amz-checksum-*``; an object has one of them."""

_MD5_ETAG: Final = re.compile(r'"?([0-9a-f]{32})"?')
_READ_BYTES: Final = 1024**2


@dataclass(frozen=True, slots=True)
class ExpectedDigest:
    """A digest that content must have.

    Attributes:
        algorithm: ``crc64nvme``, ``crc32c``, ``crc32``, or what hashlib calls it.
        digest: in hexadecimal, lower case.
        origin: where it was found, for messages.
    """

    algorithm: str
    digest: str
    origin: str


def from_etag(etag: str | None) -> ExpectedDigest | None:
    """The MD5 in an S3 ETag, which an object that was uploaded in one piece has."""
    found = _MD5_ETAG.fullmatch(etag or "")
    return ExpectedDigest("md5", found[1], "the ETag") if found else None


def from_headers(headers: Mapping[str, str]) -> ExpectedDigest | None:
    """The best checksum of the whole object in response headers; header names are in lower case."""
    candidates: list[tuple[str, str, str]] = []
    if headers.get("x-amz-checksum-type", "FULL_OBJECT").upper() == "FULL_OBJECT":
        for algorithm in _S3_HEADERS:
            name = f"x-amz-checksum-{algorithm}"
            candidates.append((algorithm, headers.get(name, ""), name))
    parts = (part.strip().partition("=") for part in headers.get("x-goog-hash", "").split(","))
    google = {name: value for name, _, value in parts}
    # Every object has a CRC, composed ones too. Google's tools check it, and it is far quicker than MD5.
    candidates.append(("crc32c", google.get("crc32c", ""), "x-goog-hash"))
    candidates.append(("md5", google.get("md5", ""), "x-goog-hash"))
    candidates.append(("md5", headers.get("content-md5", ""), "Content-MD5"))
    for algorithm, value, origin in candidates:
        # A value that ends in "-<number>" is a checksum of the checksums of parts, whose bounds are unknown.
        if value and "-" not in value and (digest := _from_base64(value)):
            return ExpectedDigest(algorithm, digest, origin)
    return None


def _from_base64(value: str) -> str:
    try:
        return base64.b64decode(value, validate=True).hex()
    except (binascii.Error, ValueError):
        return ""


class RunningChecksum(Protocol):
    """The digest of a file whose parts arrive in any order."""

    expected: ExpectedDigest

    def begin(self, index: int) -> None:
        """Begin a part, or begin it again."""
        ...

    def add(self, index: int, data: Any) -> None:
        """Add bytes of a part in their order, before they are written; anything with the buffer protocol."""
        ...

    def arrived(self, index: int) -> None:
        """Record that a part is in the file."""
        ...

    def digest(self) -> str:
        """The digest in hexadecimal, after every part arrived."""
        ...


def running_checksum(expected: ExpectedDigest, fd: int, sizes: list[int]) -> RunningChecksum:
    """The computation of an expected digest.

    Args:
        expected: the digest that the file must have.
        fd: the file; parts that were written by an earlier run are read from it.
        sizes: bytes of each part.
    """
    if expected.algorithm in _CRC_DIGITS:
        return CombinedCrc(expected, fd, sizes)
    return SequentialHash(expected, fd, sizes)


class CombinedCrc:
    """A CRC that is computed part by part and combined at the end."""

    def __init__(self, expected: ExpectedDigest, fd: int, sizes: list[int]) -> None:
        # Only the download container has it.
        from awscrt import checksums  # type: ignore[import-untyped]

        self._digits = _CRC_DIGITS[expected.algorithm]
        self._crc = getattr(checksums, expected.algorithm)
        self._combine = getattr(checksums, f"combine_{expected.algorithm}")
        self.expected = expected
        self._fd = fd
        self._sizes = sizes
        self._parts: dict[int, int] = {}

    def begin(self, index: int) -> None:
        """Begin a part, or begin it again."""
        self._parts[index] = 0

    def add(self, index: int, data: Any) -> None:
        """Add bytes of a part before they are written."""
        self._parts[index] = self._crc(data, self._parts[index])

    def arrived(self, index: int) -> None:
        """Do nothing; a part of an earlier run is read from the file at the end."""

    def digest(self) -> str:
        """The digest, after every part arrived."""
        value = offset = 0
        for index, size in enumerate(self._sizes):
            if index not in self._parts:
                self._read(index, offset)
            value = self._combine(value, self._parts[index], size)
            offset += size
        return f"{value:0{self._digits}x}"

    def _read(self, index: int, offset: int) -> None:
        self.begin(index)
        end = offset + self._sizes[index]
        while data := os.pread(self._fd, min(_READ_BYTES, end - offset), offset):
            self.add(index, data)
            offset += len(data)


class SequentialHash:
    """A digest of hashlib; a single part is hashed before it is written, several as they arrive."""

    def __init__(self, expected: ExpectedDigest, fd: int, sizes: list[int]) -> None:
        self.expected = expected
        self._hash = hashlib.new(expected.algorithm, usedforsecurity=False)
        self._fd = fd
        self._sizes = sizes
        self._there: set[int] = set()
        self._next = 0
        self._offset = 0
        self._lock = threading.Lock()

    def begin(self, index: int) -> None:
        """Begin a part, or begin it again."""
        if len(self._sizes) == 1:
            self._hash = hashlib.new(self.expected.algorithm, usedforsecurity=False)
            self._there.discard(index)
            self._next = self._offset = 0

    def add(self, index: int, data: Any) -> None:  # noqa: ARG002 - a file of one part has no other
        """Add bytes of a part before they are written."""
        if len(self._sizes) == 1:
            self._hash.update(data)
            self._offset += len(data)

    def arrived(self, index: int) -> None:
        """Record a part, and hash what can be hashed unless another worker is doing so."""
        self._there.add(index)
        if self._lock.acquire(blocking=False):
            try:
                self._advance()
            finally:
                self._lock.release()

    def digest(self) -> str:
        """The digest, after every part arrived."""
        with self._lock:
            self._advance()
        return self._hash.hexdigest()

    def _advance(self) -> None:
        while self._next in self._there:
            end = self._offset + self._sizes[self._next]
            while self._offset < end:
                data = os.pread(self._fd, min(_READ_BYTES, end - self._offset), self._offset)
                if not data:
                    return
                self._hash.update(data)
                self._offset += len(data)
            self._next += 1


def sha256_of(path: Path) -> str:
    """Compute the SHA-256 of a file, in hexadecimal.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
