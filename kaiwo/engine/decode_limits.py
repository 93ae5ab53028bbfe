"""How deep and how large JSON may be to be decoded, found out in its bytes.

The API server takes 10,000 levels and 1.5 MB in a field without a schema. A recursive decoder takes fewer
levels, how many depends on the Python version and on the caller; and 1.5 MB of small values are 100 MB of
dictionaries. One such object must not make a list or a watch unreadable, nor cost the memory of a thousand
others.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec

MAX_DEPTH = 100
"""Levels that an object may be nested. The deepest one in use, the CRD of RayCronJob, has 38."""

MAX_VALUES = 100_000
"""Members of maps and items of lists that one member of an object may hold. They take 20 MB at most; a pod
template of everyday size has a hundred."""

_SMALL = 1 << 16
"""Bytes of a member in which the path of what is too deep is searched: without recursion, 1.5 MB take a third
of a second."""

_TOKENS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\],:]', re.DOTALL)
_BRACES = bytes.maketrans(b"[]", b"{}")
_NO_BRACKETS_OR_QUOTES = bytes(set(range(256)) - set(b'{}[]"'))
_NO_MARKS_OR_QUOTES = bytes(set(range(256)) - set(b'{[,"'))


class Readable(NamedTuple):
    """What can be read of an object that is nested too deeply or too large.

    Attributes:
        document: JSON of the object without managedFields and without its members that are beyond a limit.
        omitted: each member that was left out, with what is wrong, for example
            ``{"spec": "spec.job is nested more than 100 levels deep"}``.
    """

    document: bytes
    omitted: dict[str, str]


def fault(raw: bytes) -> str:
    """What makes JSON impossible to decode: ``is nested ...``, ``holds more ...``; empty for all else."""
    if too_deep(raw):
        return f"is nested more than {MAX_DEPTH} levels deep"
    if too_large(raw):
        return f"holds more than {MAX_VALUES} values"
    return ""


def too_deep(raw: bytes) -> bool:
    """Whether JSON is nested more than `MAX_DEPTH` levels deep."""
    opened = raw.count(b"{") + raw.count(b"[")
    # An empty map or list holds no further level; managedFields consist of such maps.
    if opened <= MAX_DEPTH or opened - raw.count(b"{}") - raw.count(b"[]") < MAX_DEPTH:
        return False
    brackets = _outside_strings(raw, _NO_BRACKETS_OR_QUOTES)
    for level in range(MAX_DEPTH):
        if len(brackets) <= 2 * (MAX_DEPTH - level):
            return False
        brackets = brackets.replace(b"{}", b"")
    return bool(brackets)


def too_large(raw: bytes) -> bool:
    """Whether JSON holds more than `MAX_VALUES` values.

    Every value is the first after an opening bracket, or comes after a comma. An empty map or list counts as
    if it held a value.
    """
    if len(raw) < 2 * MAX_VALUES:
        return False
    if sum(map(raw.count, (b",", b"{", b"["))) <= MAX_VALUES:
        return False
    return len(_outside_strings(raw, _NO_MARKS_OR_QUOTES)) > MAX_VALUES


def _outside_strings(raw: bytes, dropped: bytes) -> bytes:
    """The characters outside of strings, brackets as braces.

    Args:
        raw: JSON.
        dropped: characters to leave out; quotes are not among them.
    """
    if b"\\" in raw:
        raw = raw.replace(b"\\\\", b"").replace(b'\\"', b"")
    # A character is inside a string when an odd number of quotes precedes it; two in a row cancel out.
    kept = raw.translate(_BRACES, dropped).replace(b'""', b"")
    return b"".join(kept.split(b'"')[::2])


def readable(raw: bytes) -> Readable:
    """What can be read of an object.

    Raises:
        ValueError: it is not an object with metadata, or its metadata cannot be decoded.
    """
    parts = members(raw)
    metadata = members(parts.get("metadata", b""))
    metadata.pop("managedFields", None)
    parts["metadata"] = _document(metadata)
    if wrong := fault(parts["metadata"]):
        raise ValueError(f"metadata {wrong}")
    found = {name: _faults(name, value) for name, value in parts.items()}
    omitted = {name: wrong for name, wrong in found.items() if wrong}
    return Readable(_document({name: value for name, value in parts.items() if name not in omitted}), omitted)


def members(raw: bytes) -> dict[str, bytes]:
    """The members of a JSON object, each value as it stands there.

    Raises:
        ValueError: it is not a JSON object.
    """
    if not raw.startswith(b"{"):
        raise ValueError("not a JSON object")
    try:
        return {name: bytes(value) for name, value in _decode_members(raw).items()}
    except RecursionError:
        return {msgspec.json.decode(name, type=str): value for name, value in _parts(raw)}
    except msgspec.DecodeError as error:
        raise ValueError(f"not JSON: {error}") from error


_decode_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def items(raw: bytes) -> list[bytes]:
    """The items of a JSON array, each as it stands there.

    Raises:
        ValueError: it is not a JSON array.
    """
    if not raw.startswith(b"["):
        raise ValueError("not a JSON array")
    return [value for _, value in _parts(raw)]


def _parts(raw: bytes) -> list[tuple[bytes, bytes]]:
    """Names and values of an object, or the items of an array with empty names, without recursion."""
    found: list[tuple[bytes, bytes]] = []
    name = b""
    depth = start = 1
    for token in _TOKENS.finditer(raw, 1):
        mark = token[0]
        if mark in (b"{", b"["):
            depth += 1
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


def _faults(name: str, value: bytes) -> str:
    """What is wrong with a member, with the path of the value below it that is, if it is one alone."""
    wrong = fault(value)
    if not wrong or not value.startswith(b"{") or (len(value) > _SMALL and too_deep(value)):
        return wrong and f"{name} {wrong}"
    found = ((member, fault(part)) for member, part in members(value).items())
    deeper = next((f"{name}.{member} {why}" for member, why in found if why), None)
    return deeper or f"{name} {wrong}"


def _document(parts: dict[str, bytes]) -> bytes:
    return b"{" + b",".join(msgspec.json.encode(name) + b":" + value for name, value in parts.items()) + b"}"
