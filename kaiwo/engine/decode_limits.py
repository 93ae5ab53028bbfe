"""How deep and how large JSON may be to be decoded, found out in its bytes.

The API server takes 10,000 levels and 1.5 MB in a field without a schema. A recursive decoder takes fewer
levels, how many depends on the Python version and on the caller; and 1.5 MB of small values are 100 MB of
dictionaries. One such object must not make a list or a watch unreadable, nor cost the memory of a thousand
others.
"""

from __future__ import annotations

import re
from itertools import accumulate
from typing import NamedTuple

import msgspec

MAX_DEPTH = 100
"""Levels that an object may be nested. The deepest one in use, the CRD of RayCronJob, has 38."""

MAX_VALUES = 100_000
"""Members of maps and items of lists that one member of an object may hold. They take 20 MB at most; a pod
template of everyday size has a hundred."""

_SLOPE = 32
"""Brackets for each peak of nested brackets below which a level is taken off all of them at once: a step of
Python for each peak takes longer."""

_FIRST, _LONGEST = 1 << 10, 1 << 14
"""Bytes in which the end of a value is searched at once: it is usually near."""

_SPACE = re.compile(rb"\s*+")
_NAME = re.compile(rb'\s*+("[^"]*+")\s*+:')
_SCALAR = re.compile(rb'\s*+(?:"[^"]*+"|[^"{}\[\],\s]++)?+\s*+')
_MARK = re.compile(rb"\s*+([,}\]])")
_BRACKET = re.compile(rb"[{}\[\]]")
_RUNS = re.compile(rb"{+|}+")
_CUT_OFF = "JSON that ends too early"
_BRACES = bytes.maketrans(b"[]", b"{}")
_NO_BRACKETS_OR_QUOTES = bytes(set(range(256)) - set(b'{}[]"'))
_NO_OPENINGS = bytes(set(range(256)) - set(b"{["))
_NO_BRACKETS = bytes(set(range(256)) - set(b"{}[]"))
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
    if too_large(raw):  # first: it takes less time
        return f"holds more than {MAX_VALUES} values"
    if too_deep(raw):
        return f"is nested more than {MAX_DEPTH} levels deep"
    return ""


def too_deep(raw: bytes) -> bool:
    """Whether JSON is nested more than `MAX_DEPTH` levels deep."""
    opened = _opened(raw)
    if opened <= MAX_DEPTH:
        return False
    # Most brackets of an object are in its managedFields, two levels down. Most of these are of empty maps,
    # and such a map holds no further level.
    managed = _managed_fields(raw)
    inside = _opened(managed)
    if opened - inside <= MAX_DEPTH and inside - managed.count(b"{}") + 3 <= MAX_DEPTH:
        return False
    brackets = _outside_strings(raw, _NO_BRACKETS_OR_QUOTES)
    return max(_heights(brackets)) > MAX_DEPTH


def _opened(raw: bytes) -> int:
    """Number of opening brackets, also of those inside of strings."""
    return len(raw.translate(None, _NO_OPENINGS))


class _Metadata(msgspec.Struct, rename="camel", gc=False):
    managed_fields: msgspec.Raw = msgspec.Raw(b"")


class _Document(msgspec.Struct, gc=False):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


_decode_document = msgspec.json.Decoder(_Document).decode


def _managed_fields(raw: bytes) -> bytes:
    """The JSON of an object's managedFields; empty where it has none, or cannot be read."""
    try:
        return bytes(_decode_document(raw).metadata.managed_fields)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return b""


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
    # A character is inside a string when an odd number of quotes precedes it; two in a row cancel out.
    kept = _unescaped(raw).translate(_BRACES, dropped).replace(b'""', b"")
    return b"".join(kept.split(b'"')[::2])


def _unescaped(raw: bytes) -> bytes:
    """JSON of the same length in which every quote begins or ends a string."""
    return raw.replace(b"\\\\", b"__").replace(b'\\"', b"__") if b"\\" in raw else raw


def _heights(braces: bytes) -> list[int]:
    """Levels above the first brace at the ends of runs of braces, among them the highest and the lowest."""
    taken, peaks = 0, True
    while peaks:
        lower = braces.replace(b"{}", b"")
        peaks = _SLOPE * (len(braces) - len(lower)) > 2 * len(braces)
        braces, taken = lower, taken + (len(lower) < len(braces))
    steps = (len(run) if run.startswith(b"{") else -len(run) for run in _RUNS.findall(braces))
    heights = list(accumulate(steps, initial=0))
    return [max(heights) + taken, *heights]


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
    """Names and values of an object, or the items of an array with empty names, without recursion.

    Raises:
        ValueError: it ends too early.
    """
    found: list[tuple[bytes, bytes]] = []
    plain, named = _unescaped(raw), raw.startswith(b"{")
    position = _after(_SPACE, plain, 1)
    if plain[position : position + 1] in (b"}", b"]"):
        return found
    while True:
        key = _NAME.match(plain, position) if named else None
        start = key.end() if key else position
        end = _after(_SCALAR, plain, start)
        if plain[end : end + 1] in (b"{", b"["):
            end = _end(plain, end)
        mark = _MARK.match(plain, end)
        if mark is None or (named and key is None):
            raise ValueError(_CUT_OFF)
        found.append((raw[key.start(1) : key.end(1)] if key else b"", raw[start:end].strip()))
        if mark[1] != b",":
            return found
        position = mark.end()


def _after(pattern: re.Pattern[bytes], text: bytes, position: int) -> int:
    """Where the text that a pattern matches at a position ends."""
    match = pattern.match(text, position)
    return match.end() if match else position


def _end(plain: bytes, start: int) -> int:
    """Where the value ends that the bracket at `start` opens.

    Args:
        plain: JSON without escaped quotes.
        start: the position of the bracket.

    Raises:
        ValueError: it does not end.
    """
    depth, quoted, position, length = 1, 0, start + 1, _FIRST
    while position < len(plain):
        pieces = plain[position : position + length].split(b'"')
        braces = b"".join(pieces[quoted::2]).translate(_BRACES, _NO_BRACKETS)
        if depth + min(_heights(braces)) <= 0:
            return _end_within(pieces, position, depth, quoted=quoted)
        depth += braces.count(b"{") - braces.count(b"}")
        quoted ^= (len(pieces) - 1) & 1
        position += length
        length = min(2 * length, _LONGEST)
    raise ValueError(_CUT_OFF)


def _end_within(pieces: list[bytes], position: int, depth: int, *, quoted: int) -> int:
    """Where a value ends whose end is in one of these pieces between quotes.

    Args:
        pieces: the pieces.
        position: of the first one.
        depth: how many brackets are open there.
        quoted: 1 when the first piece is inside of a string.
    """
    for number, piece in enumerate(pieces):
        for bracket in _BRACKET.finditer(piece) if number % 2 == quoted else ():
            depth += 1 if bracket[0] in (b"{", b"[") else -1
            if not depth:
                return position + bracket.end()
        position += len(piece) + 1
    raise ValueError(_CUT_OFF)


def _faults(name: str, value: bytes) -> str:
    """What is wrong with a member, with the path of the value below it that is, if it is one alone."""
    wrong = fault(value)
    if not wrong or not value.startswith(b"{"):
        return wrong and f"{name} {wrong}"
    found = ((member, fault(part)) for member, part in members(value).items())
    deeper = next((f"{name}.{member} {why}" for member, why in found if why), None)
    return deeper or f"{name} {wrong}"


def _document(parts: dict[str, bytes]) -> bytes:
    return b"{" + b",".join(msgspec.json.encode(name) + b":" + value for name, value in parts.items()) + b"}"
