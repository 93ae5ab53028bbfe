"""Checksums of content: which ones a store gives, and computing them while parts arrive."""

from __future__ import annotations

import base64
import binascii
import hashlib
import importlib
import importlib.util
import os
import re
import threading
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

_CRC32C_MODULE = "google_crc32c"
"""What computes CRC-32C; the extra ``download`` has it."""

_MD5_ETAG = re.compile(r'"?([0-9a-f]{32})"?')
_READ = 1024**2


class Hash(Protocol):
    """What hashlib's objects do."""

    def update(self, data: bytes | memoryview, /) -> None:
        """Take more bytes."""
        ...

    def hexdigest(self) -> str:
        """The digest in hexadecimal."""
        ...


class Crc32:
    """zlib's CRC-32, as hashlib's objects look."""

    def __init__(self) -> None:
        self._value = 0

    def update(self, data: bytes | memoryview, /) -> None:
        """Take more bytes."""
        self._value = zlib.crc32(data, self._value)

    def hexdigest(self) -> str:
        """The checksum in hexadecimal, most significant byte first."""
        return f"{self._value:08x}"


class Crc32c:
    """CRC-32C (RFC 9260, appendix A), which Google Cloud Storage gives for every object."""

    def __init__(self) -> None:
        self._extend = importlib.import_module(_CRC32C_MODULE).extend
        self._value = 0

    def update(self, data: bytes | memoryview, /) -> None:
        """Take more bytes."""
        self._value = self._extend(self._value, bytes(data))

    def hexdigest(self) -> str:
        """The checksum in hexadecimal, most significant byte first."""
        return f"{self._value:08x}"


@dataclass(frozen=True, slots=True)
class Expected:
    """A digest that content must have.

    Attributes:
        algorithm: ``sha256``, ``sha1``, ``md5``, ``crc32`` or ``crc32c``.
        digest: in hexadecimal, lower case.
        origin: who says so, for messages.
    """

    algorithm: str
    digest: str
    origin: str

    def hash(self) -> Hash:
        """A new computation."""
        if self.algorithm == "crc32":
            return Crc32()
        if self.algorithm == "crc32c":
            return Crc32c()
        return hashlib.new(self.algorithm, usedforsecurity=False)


def from_etag(etag: str | None) -> Expected | None:
    """S3's ETag of an object that was uploaded in one piece is its MD5."""
    found = _MD5_ETAG.fullmatch(etag or "")
    return Expected("md5", found[1], "the ETag") if found else None


def from_headers(headers: Mapping[str, str]) -> Expected | None:
    """The best whole-object checksum in response headers that can be computed here."""
    given = {name.lower(): value for name, value in headers.items()}
    can_crc32c = importlib.util.find_spec(_CRC32C_MODULE) is not None
    candidates: list[tuple[str, str, str]] = []
    if given.get("x-amz-checksum-type", "FULL_OBJECT").upper() == "FULL_OBJECT":
        candidates += [
            (algorithm, given.get(f"x-amz-checksum-{algorithm}", ""), f"x-amz-checksum-{algorithm}")
            for algorithm in ("sha256", "sha1", "crc32", *(["crc32c"] if can_crc32c else []))
        ]
    parts = (part.strip().partition("=") for part in given.get("x-goog-hash", "").split(","))
    google = {name: value for name, _, value in parts}
    if can_crc32c:
        # Every object has it, composed ones too; Google's own tools check it, and it is far quicker than MD5.
        candidates.append(("crc32c", google.get("crc32c", ""), "x-goog-hash"))
    candidates.append(("md5", google.get("md5", ""), "x-goog-hash"))
    candidates.append(("md5", given.get("content-md5", ""), "Content-MD5"))
    for algorithm, value, origin in candidates:
        if value and "-" not in value and (digest := _from_base64(value)):
            return Expected(algorithm, digest, origin)
    return None


def _from_base64(value: str) -> str:
    try:
        return base64.b64decode(value, validate=True).hex()
    except (binascii.Error, ValueError):
        return ""


class InOrder:
    """A digest over a file whose parts arrive in any order: it follows the parts that are there."""

    def __init__(self, expected: Expected, fd: int, sizes: list[int]) -> None:
        self.expected = expected
        self._hash = expected.hash()
        self._fd = fd
        self._sizes = sizes
        self._there: set[int] = set()
        self._next = 0
        self._offset = 0
        self._lock = threading.Lock()

    def restart(self) -> None:
        """Forget everything: the file begins anew."""
        self._hash = self.expected.hash()
        self._there.clear()
        self._next = self._offset = 0

    def take(self, data: memoryview) -> None:
        """Take in bytes on their way to the file; they follow each other from its beginning."""
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
