"""Scanning JSON without recursion, for objects that are nested too deeply to be decoded.

The API server takes 10,000 levels in a field without a schema. A recursive decoder takes fewer, how many
depends on the Python version and on the caller, and one such object must not make a list or a watch
unreadable. So the depth is found in the bytes.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec

MAX_DEPTH = 100
"""Levels that an object may be nested. The deepest one in use, the CRD of RayCronJob, has 38."""

_TOKENS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\],:]', re.DOTALL)
_BRACES = bytes.maketrans(b"[]", b"{}")
_NO_BRACKETS_OR_QUOTES = bytes(set(range(256)) - set(b'{}[]"'))


class Readable(NamedTuple):
    """What can be read of an object that is nested too deeply.

    Attributes:
        document: JSON of the object without managedFields and without its members that are too deep.
        omitted: each member that was left out, with the path of what is too deep, for example
            ``{"spec": "spec.job"}``.
    """

    document: bytes
    omitted: dict[str, str]


def too_deep(raw: bytes) -> bool:
    """Whether JSON is nested more than `MAX_DEPTH` levels deep."""
    opened = raw.count(b"{") + raw.count(b"[")
    # An empty map or list holds no further level; managedFields consist of such maps.
    if opened <= MAX_DEPTH or opened - raw.count(b"{}") - raw.count(b"[]") < MAX_DEPTH:
        return False
    if b"\\" in raw:
        raw = raw.replace(b"\\\\", b"").replace(b'\\"', b"")
    # A bracket is inside a string when an odd number of quotes precedes it; two quotes in a row cancel out.
    brackets = raw.translate(_BRACES, _NO_BRACKETS_OR_QUOTES).replace(b'""', b"")
    brackets = b"".join(brackets.split(b'"')[::2])
    for level in range(MAX_DEPTH):
        if len(brackets) <= 2 * (MAX_DEPTH - level):
            return False
        brackets = brackets.replace(b"{}", b"")
    return bool(brackets)


def readable(raw: bytes) -> Readable:
    """What can be read of an object.

    Raises:
        ValueError: it is not an object with metadata, or its metadata are nested too deeply.
    """
    parts = members(raw)
    metadata = members(parts.get("metadata", b""))
    metadata.pop("managedFields", None)
    parts["metadata"] = _document(metadata)
    if too_deep(parts["metadata"]):
        raise ValueError(f"metadata is nested more than {MAX_DEPTH} levels deep")
    omitted = {name: _deep_path(name, value) for name, value in parts.items() if too_deep(value)}
    return Readable(_document({name: value for name, value in parts.items() if name not in omitted}), omitted)


def members(raw: bytes) -> dict[str, bytes]:
    """The members of a JSON object, each value as it stands there.

    Raises:
        ValueError: it is not a JSON object.
    """
    if not raw.startswith(b"{"):
        raise ValueError("not a JSON object")
    return {msgspec.json.decode(name, type=str): value for name, value in _parts(raw)}


def items(raw: bytes) -> list[bytes]:
    """The items of a JSON array, each as it stands there.

    Raises:
        ValueError: it is not a JSON array.
    """
    if not raw.startswith(b"["):
        raise ValueError("not a JSON array")
    return [value for _, value in _parts(raw)]


def _parts(raw: bytes) -> list[tuple[bytes, bytes]]:
    """Names and values of an object, or the items of an array with empty names."""
    found: list[tuple[bytes, bytes]] = []
    name = b""
    depth = start = 0
    for token in _TOKENS.finditer(raw):
        mark = token[0]
        if mark in (b"{", b"["):
            depth += 1
            if depth == 1:
                start = token.end()
        elif mark in (b"}", b"]"):
            depth -= 1
            if depth == 0:
                value = raw[start : token.start()].strip()
                return [*found, (name, value)] if value else found
        elif depth == 1 and mark == b":":
            name, start = raw[start : token.start()].strip(), token.end()
        elif depth == 1 and mark == b",":
            found.append((name, raw[start : token.start()].strip()))
            name, start = b"", token.end()
    raise ValueError("JSON that ends too early")


def _deep_path(name: str, value: bytes) -> str:
    """The path of the first member that is too deep, or of the value that holds it."""
    inside = members(value) if value.startswith(b"{") else {}
    deeper = (member for member, part in inside.items() if too_deep(part))
    found = next(deeper, None)
    return f"{name}.{found}" if found is not None else name


def _document(parts: dict[str, bytes]) -> bytes:
    return b"{" + b",".join(msgspec.json.encode(name) + b":" + value for name, value in parts.items()) + b"}"
