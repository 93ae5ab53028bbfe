from __future__ import annotations

import base64
import hashlib
import os
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaiwo_storage_s3_gcs_azure_git_hf.download import checksums

CHECK_VALUES = {"crc64nvme": "ae8b14860a799888", "crc32c": "e3069283", "crc32": "cbf43926"}
"""Of the text ``123456789``, from the catalogue of parametrised CRC algorithms."""

HASHES = ["sha256", "sha1", "md5"]


def digest(algorithm: str, parts: list[bytes], order: list[int], seen: set[int]) -> str:
    """The digest over a file whose parts arrive in an order; those not `seen` were there before."""
    fd = os.memfd_create("parts")
    try:
        os.pwrite(fd, b"".join(parts), 0)
        check = checksums.running_checksum(
            checksums.ExpectedDigest(algorithm, "", ""), fd, [len(part) for part in parts]
        )
        for index in order:
            if index in seen:
                check.begin(index)
                check.add(index, b"what a broken connection left")
                check.begin(index)
                half = len(parts[index]) // 2
                check.add(index, parts[index][:half])
                check.add(index, memoryview(parts[index])[half:])
            check.arrived(index)
        return check.digest()
    finally:
        os.close(fd)


@pytest.mark.parametrize("algorithm", CHECK_VALUES)
def test_crcs_are_those_of_the_catalogue(algorithm: str) -> None:
    """Whatever computes them, and however the text is cut."""
    for parts in ([b"123456789"], [b"123", b"456789"], [b"1", b"", b"2345678", b"9"]):
        order = list(range(len(parts)))
        assert digest(algorithm, parts, order, set(order)) == CHECK_VALUES[algorithm]
        assert digest(algorithm, parts, order, set()) == CHECK_VALUES[algorithm]


@given(
    algorithm=st.sampled_from([*CHECK_VALUES, *HASHES]),
    order=st.permutations(range(4)),
    seen=st.sets(st.integers(0, 3)),
    size=st.integers(1, 300),
)
def test_a_digest_does_not_depend_on_the_order_of_parts(
    algorithm: str, order: list[int], seen: set[int], size: int
) -> None:
    """Parts arrive in any order, some from an earlier run, the last one shorter."""
    parts = [bytes([index]) * (size if index < 3 else 1) for index in range(4)]
    whole = b"".join(parts)
    found = digest(algorithm, parts, order, seen)
    if algorithm in HASHES:
        assert found == hashlib.new(algorithm, whole, usedforsecurity=False).hexdigest()
    else:
        assert found == digest(algorithm, [whole], [0], {0})
    if algorithm == "crc32":
        assert found == f"{zlib.crc32(whole):08x}"


def _encoded(text: str) -> str:
    return base64.b64encode(bytes.fromhex(text)).decode()


@pytest.mark.parametrize(
    ("headers", "algorithm"),
    [
        ({"x-amz-checksum-crc64nvme": "rosUhgp5mIg=", "x-amz-checksum-type": "FULL_OBJECT"}, "crc64nvme"),
        ({"x-amz-checksum-crc32": _encoded("cbf43926")}, "crc32"),
        ({"x-amz-checksum-crc32c": _encoded("e3069283")}, "crc32c"),
        ({"x-amz-checksum-sha256": _encoded("00" * 32)}, "sha256"),
        ({"x-amz-checksum-sha1": _encoded("00" * 20)}, "sha1"),
        ({"x-goog-hash": f"crc32c={_encoded('e3069283')}, md5={_encoded('00' * 16)}"}, "crc32c"),
        ({"x-goog-hash": f"md5={_encoded('00' * 16)}"}, "md5"),
        ({"content-md5": _encoded("00" * 16)}, "md5"),
    ],
)
def test_every_checksum_that_a_store_gives_is_understood(headers: dict[str, str], algorithm: str) -> None:
    """In the algorithm that it is quickest to compute, where there is a choice."""
    found = checksums.from_headers(headers)
    assert found is not None
    assert found.algorithm == algorithm
    assert found.digest == CHECK_VALUES.get(algorithm, found.digest)


@pytest.mark.parametrize(
    "headers",
    [
        {"x-amz-checksum-crc32c": "4waSgw==-3"},
        {"x-amz-checksum-sha256": _encoded("00" * 32), "x-amz-checksum-type": "COMPOSITE"},
        {"x-amz-checksum-crc64nvme": "not base64!"},
        {"x-goog-hash": "crc32c"},
        {},
    ],
)
def test_what_is_no_checksum_of_the_content_is_not_taken_for_one(headers: dict[str, str]) -> None:
    """A checksum of checksums of parts, or no value at all."""
    assert checksums.from_headers(headers) is None
