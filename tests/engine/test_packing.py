"""Packing: small, and nothing lost."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from kaiwo.engine.cached_object import Packing

Documents = st.lists(
    st.dictionaries(st.text(max_size=5), st.text(max_size=400), max_size=5).map(
        lambda d: json.dumps(d).encode()
    ),
    min_size=1,
    max_size=5,
)


@given(Documents)
def test_what_is_packed_comes_out_again(documents: list[bytes]) -> None:
    """Whatever came first, long or short: each document is as before."""
    packing = Packing()
    packed = [packing.pack(document) for document in documents]
    assert [packing.unpack(one) for one in packed] == documents


def test_similar_documents_take_little() -> None:
    """The thousandth Job of the same shape costs a tenth."""
    packing = Packing()
    shape = {f"field-{n}": f"value-{n * n}" for n in range(100)}
    documents = [json.dumps({**shape, "name": f"job-{n}"}).encode() for n in range(10)]
    assert len(packing.pack(documents[0])) > 0
    assert all(len(packing.pack(document)) < len(document) / 10 for document in documents[1:])


def test_a_very_large_first_document_does_no_harm() -> None:
    """A megabyte of entrypoint is a dictionary like any other."""
    packing = Packing()
    large = json.dumps({"a": "xyz" * 400_000}).encode()
    small = json.dumps({"b": list(range(200))}).encode()
    assert packing.unpack(packing.pack(large)) == large
    assert packing.unpack(packing.pack(small)) == small
