"""Checksums of content: which one a store gives, and computing it while parts arrive in any order.

CRCs of parts can be put together to that of the whole, so each is computed by who writes the part. Digests
of hashlib cannot, so they follow the parts that are there, from the beginning of the file.
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

_CRCS: Final = {"crc64nvme": 16, "crc32c": 8, "crc32": 8}
"""Hexadecimal digits of CRCs, by the names that stores and AWS's library give them."""

_S3_HEADERS: Final = (*_CRCS, "sha256", "sha1")
"""Algorithms of ``x-amz-checksum-*``; an object has one of them."""

_MD5_ETAG: Final = re.compile(r'"?([0-9a-f]{32})"?')
_READ: Final = 1024**2


@dataclass(frozen=True, slots=True)
class Expected:
    """A digest that content must have.

    Attributes:
        algorithm: ``crc64nvme``, ``crc32c``, ``crc32``, or what hashlib calls it.
        digest: in hexadecimal, lower case.
        origin: who says so, for messages.
    """

    algorithm: str
    digest: str
    origin: str


def from_etag(etag: str | None) -> Expected | None:
    """S3's ETag of an object that was uploaded in one piece is its MD5."""
    found = _MD5_ETAG.fullmatch(etag or "")
    return Expected("md5", found[1], "the ETag") if found else None


def from_headers(headers: Mapping[str, str]) -> Expected | None:
    """The best checksum of the whole object in response headers; names of headers are in lower case."""
    candidates: list[tuple[str, str, str]] = []
    if headers.get("x-amz-checksum-type", "FULL_OBJECT").upper() == "FULL_OBJECT":
        for algorithm in _S3_HEADERS:
            name = f"x-amz-checksum-{algorithm}"
            candidates.append((algorithm, headers.get(name, ""), name))
    parts = (part.strip().partition("=") for part in headers.get("x-goog-hash", "").split(","))
    google = {name: value for name, _, value in parts}
    # Every object has a CRC, composed ones too; Google's own tools check it, and it is far quicker than MD5.
    candidates.append(("crc32c", google.get("crc32c", ""), "x-goog-hash"))
    candidates.append(("md5", google.get("md5", ""), "x-goog-hash"))
    candidates.append(("md5", headers.get("content-md5", ""), "Content-MD5"))
    for algorithm, value, origin in candidates:
        # One that ends in "-<number>" is a checksum of the checksums of parts, whose bounds are not told.
        if value and "-" not in value and (digest := _from_base64(value)):
            return Expected(algorithm, digest, origin)
    return None


def _from_base64(value: str) -> str:
    try:
        return base64.b64decode(value, validate=True).hex()
    except (binascii.Error, ValueError):
        return ""


class Check(Protocol):
    """A digest over a file whose parts arrive in any order."""

    expected: Expected

    def begin(self, index: int) -> None:
        """A part begins, or begins anew."""
        ...

    def take(self, index: int, data: Any) -> None:
        """Bytes of a part on their way to the file, in their order; anything with the buffer protocol."""
        ...

    def arrived(self, index: int) -> None:
        """A part is in the file."""
        ...

    def digest(self) -> str:
        """The digest in hexadecimal, once every part arrived."""
        ...


def check(expected: Expected, fd: int, sizes: list[int]) -> Check:
    """What computes a digest.

    Args:
        expected: what it should be.
        fd: the file; it is read where parts were not seen on their way.
        sizes: bytes of each part.
    """
    if expected.algorithm in _CRCS:
        return Combined(expected, fd, sizes)
    return InOrder(expected, fd, sizes)


class Combined:
    """A CRC: computed part by part, then put together."""

    def __init__(self, expected: Expected, fd: int, sizes: list[int]) -> None:
        # Only the download container has it.
        from awscrt import checksums  # type: ignore[import-untyped]

        self._digits = _CRCS[expected.algorithm]
        self._crc = getattr(checksums, expected.algorithm)
        self._combine = getattr(checksums, f"combine_{expected.algorithm}")
        self.expected = expected
        self._fd = fd
        self._sizes = sizes
        self._parts: dict[int, int] = {}

    def begin(self, index: int) -> None:
        """A part begins, or begins anew."""
        self._parts[index] = 0

    def take(self, index: int, data: Any) -> None:
        """Bytes of a part on their way to the file."""
        self._parts[index] = self._crc(data, self._parts[index])

    def arrived(self, index: int) -> None:
        """A part is in the file; one that an earlier run fetched is read there at the end."""

    def digest(self) -> str:
        """The digest, once every part arrived."""
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
        while data := os.pread(self._fd, min(_READ, end - offset), offset):
            self.take(index, data)
            offset += len(data)


class InOrder:
    """A digest of hashlib: a file of one part is taken in on its way, others as their parts are there."""

    def __init__(self, expected: Expected, fd: int, sizes: list[int]) -> None:
        self.expected = expected
        self._hash = hashlib.new(expected.algorithm, usedforsecurity=False)
        self._fd = fd
        self._sizes = sizes
        self._there: set[int] = set()
        self._next = 0
        self._offset = 0
        self._lock = threading.Lock()

    def begin(self, index: int) -> None:
        """A part begins, or begins anew."""
        if len(self._sizes) == 1:
            self._hash = hashlib.new(self.expected.algorithm, usedforsecurity=False)
            self._there.discard(index)
            self._next = self._offset = 0

    def take(self, index: int, data: Any) -> None:  # noqa: ARG002 - a file of one part has no other
        """Bytes of a part on their way to the file."""
        if len(self._sizes) == 1:
            self._hash.update(data)
            self._offset += len(data)

    def arrived(self, index: int) -> None:
        """Note a part, and take in what can be taken unless another worker is doing so."""
        self._there.add(index)
        if self._lock.acquire(blocking=False):
            try:
                self._advance()
            finally:
                self._lock.release()

    def digest(self) -> str:
        """The digest, once every part arrived."""
        with self._lock:
            self._advance()
        return self._hash.hexdigest()

    def _advance(self) -> None:
        while self._next in self._there:
            end = self._offset + self._sizes[self._next]
            while self._offset < end:
                data = os.pread(self._fd, min(_READ, end - self._offset), self._offset)
                if not data:
                    return
                self._hash.update(data)
                self._offset += len(data)
            self._next += 1


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
