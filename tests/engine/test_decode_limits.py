"""JSON that is nested too deeply, or too large, for a decoder."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaiwo.engine.decode_limits import (
    MAX_DEPTH,
    MAX_VALUES,
    fault,
    items,
    members,
    readable,
    too_deep,
    too_large,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

Text = st.text(st.sampled_from('ab{}[]",:\\\n é'), max_size=6)
Json = st.recursive(
    st.none() | st.integers(-9, 9) | Text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(Text, inner, max_size=4),
    max_leaves=15,
)


def nested(levels: int, text: str = "", *, lists: bool = False) -> bytes:
    """JSON of that many levels, with a text beside each."""
    quoted = json.dumps(text).encode()
    if lists:
        return b"[" * levels + quoted + b"]" * levels
    return b"".join(b"{" + quoted + b":" for _ in range(levels)) + b"1" + b"}" * levels


@pytest.mark.parametrize("text", ["", "}", "}}}}", '"}', "\\", '\\"}', "{}", "][" * 40])
@pytest.mark.parametrize("lists", [False, True])
def test_the_depth_is_found_whatever_the_strings_hold(text: str, *, lists: bool) -> None:
    """Brackets inside of strings neither hide a level nor add one."""
    assert not too_deep(nested(MAX_DEPTH, text, lists=lists))
    assert too_deep(nested(MAX_DEPTH + 1, text, lists=lists))
    assert too_deep(nested(9000, text, lists=lists))


def test_a_wide_object_is_not_deep() -> None:
    """Thousands of maps beside each other are no depth."""
    assert not too_deep(json.dumps([{"a": {"b": [{"}": "]"}]}}] * 5000).encode())


def depth(value: Any) -> int:
    """Levels of decoded JSON."""
    if isinstance(value, list | dict):
        return 1 + max(map(depth, value.values() if isinstance(value, dict) else value), default=0)
    return 0


@given(Json, st.integers(0, 2 * MAX_DEPTH), st.booleans())
def test_the_depth_is_that_of_the_decoded_object(value: Any, more: int, compact: bool) -> None:
    """Any JSON, any number of levels around it, with and without spaces."""
    for _ in range(more):
        value = {"}": value, '"': ["\\"]}
    text = json.dumps(value, separators=(",", ":") if compact else None).encode()
    assert too_deep(text) is (depth(value) > MAX_DEPTH)


def _fields(levels: int, empty: int) -> dict[str, Any]:
    """A map of that many levels, with empty maps beside the innermost one."""
    value: dict[str, Any] = {f"f:{number}": {} for number in range(empty)}
    for _ in range(levels - bool(empty) - 1):
        value = {"f:spec": value}
    return value


@given(st.integers(1, 2 * MAX_DEPTH), st.integers(0, 200), st.integers(1, 2 * MAX_DEPTH), st.integers(0, 200))
def test_managed_fields_hide_no_level(levels: int, empty: int, managed: int, others: int) -> None:
    """Whether the deepest value is in managedFields or beside them, and however many empty maps there are."""
    found = {"managedFields": [{"fieldsV1": _fields(managed, others)}], "name": "it"}
    obj = {"metadata": found, "spec": _fields(levels, empty)}
    assert too_deep(json.dumps(obj, separators=(",", ":")).encode()) is (depth(obj) > MAX_DEPTH)


@given(st.dictionaries(Text, Json, max_size=4), st.lists(Json, max_size=4))
def test_parts_are_those_of_a_decoder(obj: dict[str, Any], array: list[Any]) -> None:
    """Splitting at the first level gives the same members and items as decoding."""
    for text in (json.dumps, lambda value: json.dumps(value, indent=1)):
        assert {k: json.loads(v) for k, v in members(text(obj).encode()).items()} == obj
        assert [json.loads(item) for item in items(text(array).encode())] == array


@pytest.mark.parametrize("raw", [b"", b"[]", b"{", b'{"a":{}', b'{"a":"'])
def test_what_is_no_object_is_an_error(raw: bytes) -> None:
    """Bytes that were cut off are not taken for an object."""
    with pytest.raises(ValueError, match="JSON"):
        members(raw)


def test_the_rest_of_a_deep_object_can_be_read() -> None:
    """Metadata and status stay; the member that is too deep is named, managedFields go."""
    deep = nested(1200, "a")
    raw = (
        b'{"kind":"K","metadata":{"name":"n","managedFields":[%b]},"spec":{"user":"u","job":%b},"status":{"s":1}}'
        % (deep, deep)
    )
    found = readable(raw)
    assert json.loads(found.document) == {"kind": "K", "metadata": {"name": "n"}, "status": {"s": 1}}
    assert found.omitted == {"spec": "spec.job is nested more than 100 levels deep"}


def test_no_frame_of_the_interpreter_is_needed_for_a_level() -> None:
    """The depth is found also where hardly any recursion is left."""
    limit = sys.getrecursionlimit()
    raw = b'{"metadata":{"name":"n"},"spec":%b}' % nested(9000, "a")
    frame, used = sys._getframe(), 0
    while frame is not None:
        frame, used = frame.f_back, used + 1
    sys.setrecursionlimit(used + 60)
    try:
        assert readable(raw).omitted == {"spec": "spec.a is nested more than 100 levels deep"}
    finally:
        sys.setrecursionlimit(limit)


@pytest.mark.parametrize("value", ["1", "{}", "[]", '""', '","', '"{[,"', '"\\\\\\",\\\\"', '{"":[0]}'])
def test_values_are_counted_whatever_the_strings_hold(value: str) -> None:
    """Commas and brackets inside of strings are no values; those of maps and lists are."""
    each = len(list(values(json.loads(value)))) + 1
    fitting = MAX_VALUES // (each + (value in ("{}", "[]")))
    for spaces in ("", " \n"):
        raw = f"[{f',{spaces}'.join([value] * (fitting - 1))}]".encode()
        assert not too_large(raw)
        assert too_large(raw[:-1] + f",{value}".encode() * (MAX_VALUES - fitting + 2) + b"]")


def values(value: Any) -> Iterator[Any]:
    """Every value inside of decoded JSON."""
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield item
        yield from values(item)


def test_an_object_with_a_long_text_is_not_large() -> None:
    """A script of a megabyte with a comma at each second character is one value."""
    assert not too_large(json.dumps({"script": "a," * 500_000}).encode())


def test_the_rest_of_a_large_object_can_be_read() -> None:
    """The member with too many values is named; managedFields, which repeat the keys, do not count."""
    many = b"[" + b"1," * MAX_VALUES + b"1]"
    raw = b'{"metadata":{"name":"n","managedFields":%b},"spec":{"user":"u","job":%b},"status":{}}'
    assert readable(raw % (b"[]", many)).omitted == {"spec": "spec.job holds more than 100000 values"}
    assert fault(raw % (many, b"[]"))
    assert readable(raw % (many, b"[]")).omitted == {}


@pytest.mark.parametrize("text", ["]", '\\"}', "\\\\", "é{", '"'])
def test_parts_are_found_behind_long_values(text: str) -> None:
    """Strings with brackets and escaped quotes stand anywhere in a value of 50 KB."""
    for shift in range(len(text) + 3):
        value = ["x" * shift, *[{text: [[text]]}, text] * 1500]
        raw = json.dumps({"a": value, text: {"b": value}, "c": 1}).encode()
        deep = raw[:-1] + b',"deep":' + nested(9000) + b"}"
        found = members(deep)
        assert found.pop("deep") == nested(9000)
        assert {name: json.loads(part) for name, part in found.items()} == json.loads(raw)


WIDE = {
    "maps": b'{"":0}',
    "lists": b"[]",
    "numbers": b"0",
    "texts": b'""',
    "escapes": b'"\\"\\"\\"\\""',
    "steps": b"[[]," * 30 + b"0" + b"]" * 30,
    **{f"{levels} levels": b"[" * levels + b"]" * levels for levels in (4, 9, 16, 20, 40, 95)},
}
"""What 1.2 MB of a wide object may consist of."""

SECONDS = 0.5
"""CPU for one object; 0.2 is promised on a machine that does nothing else."""


@pytest.mark.parametrize("levels", [1200, 8900])
@pytest.mark.parametrize("item", WIDE.values(), ids=WIDE)
def test_what_is_deep_and_wide_is_found_out_quickly(item: bytes, levels: int) -> None:
    """The largest objects that the API server takes, whatever stands before, beside or inside the depth."""
    wide = b"[" + b",".join([item] * (1_200_000 // (len(item) + 1))) + b"]"
    deep = b'{"a":' * levels + b"%b" + b"}" * levels
    managed = deep % b"{}"
    for spec in (
        b'{"job":' + deep % b"1" + b',"rayJob":' + wide + b"}",
        b'{"rayJob":' + wide + b',"job":' + deep % b"1" + b"}",
        b'{"job":' + deep % wide + b"}",
    ):
        raw = b'{"metadata":{"name":"n","managedFields":%b},"spec":%b}' % (managed, spec)
        began = time.thread_time()
        assert too_deep(raw)
        assert fault(raw)
        omitted = readable(raw).omitted
        assert time.thread_time() - began < SECONDS
        assert omitted["spec"].startswith(("spec.job ", "spec.rayJob holds"))
