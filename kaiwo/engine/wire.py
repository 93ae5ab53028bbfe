"""List pages, watch events and objects as the API server sends them, decoded no deeper than needed."""

from __future__ import annotations

import re

import msgspec

from kaiwo.engine.decode_limits import fault, items, members, readable
from kaiwo.engine.errors import ConnectionBroken, UndecodableObject
from kaiwo.engine.resource import Object


class Page(msgspec.Struct, frozen=True, gc=False):
    """One page of a list, items still as JSON.

    Attributes:
        items: the objects; items of built-in kinds carry no apiVersion and kind.
        resource_version: of the whole list; watch from here.
        rest: token for the next page, empty on the last.
    """

    items: tuple[msgspec.Raw, ...]
    resource_version: str
    rest: str


class _ListMeta(msgspec.Struct):
    resourceVersion: str = ""  # noqa: N815 -- JSON's own spelling
    rest: str = msgspec.field(default="", name="continue")


class _List(msgspec.Struct):
    metadata: _ListMeta
    items: tuple[msgspec.Raw, ...] | None = None


class WatchEvent(msgspec.Struct, frozen=True, gc=False):
    """One line of a watch.

    Attributes:
        type: ADDED, MODIFIED, DELETED, BOOKMARK or ERROR.
        object: JSON of the object (of a Status for ERROR).
    """

    type: str
    object: msgspec.Raw


encode = msgspec.json.Encoder().encode

_UNLIKE_IN_YAML = re.compile(rb"\x7f|\xc2[\x80-\x9f]|\xe2\x80[\xa8\xa9]|\xef\xbb\xbf|\xef\xbf[\xbe\xbf]")
"""DEL, C1 controls, U+2028, U+2029, U+FEFF, U+FFFE and U+FFFF in UTF-8."""


def encode_for_yaml(value: object) -> bytes:
    """JSON that a YAML parser reads as a JSON parser does.

    Server-side apply is parsed as YAML. Of the characters that JSON lets stand in a string, that refuses some
    and folds others, which are line breaks there, to a blank.
    """
    body = encode(value)
    if body.isascii() and b"\x7f" not in body:
        return body
    return _UNLIKE_IN_YAML.sub(lambda found: b"\\u%04x" % ord(found[0].decode()), body)


_list = msgspec.json.Decoder(_List).decode
_event = msgspec.json.Decoder(WatchEvent).decode
_object = msgspec.json.Decoder(Object).decode


def decode_page(body: bytes, what: str) -> Page:
    """A list answer; ConnectionBroken when it is none, as from a proxy in between."""
    try:
        found = _split_list(body)
    except (msgspec.DecodeError, ValueError) as error:
        raise ConnectionBroken(f"{what}: the answer is not a list: {error}") from error
    return Page(found.items or (), found.metadata.resourceVersion, found.metadata.rest)


def decode_event(line: bytes, what: str) -> WatchEvent:
    """A line of a watch; ConnectionBroken when it is garbled."""
    try:
        return _split_event(line)
    except (msgspec.DecodeError, ValueError) as error:
        raise ConnectionBroken(f"{what}: an event is not JSON: {error}") from error


def decode_object(raw: bytes | msgspec.Raw, what: str) -> Object:
    """A JSON object; ConnectionBroken when the answer is none.

    Raises:
        UndecodableObject: it is nested too deeply or too large.
    """
    body = bytes(raw)
    try:
        if not fault(body):
            return _object(body)
        document, omitted = readable(body)
        rest = _object(document)
    except (msgspec.DecodeError, ValueError) as error:
        raise ConnectionBroken(f"{what}: the answer is not a JSON object: {error}") from error
    if not omitted:
        return rest
    name = "/".join(filter(None, (rest["metadata"].get("namespace"), rest["metadata"].get("name"))))
    raise UndecodableObject(f"{what}: {name}: {', '.join(omitted.values())}", body, readable=rest)


def _split_list(body: bytes) -> _List:
    try:
        return _list(body)
    except RecursionError:  # one item is nested too deeply; the others are as good as ever
        parts = members(body)
        found = tuple(msgspec.Raw(item) for item in items(parts.get("items", b"[]")))
        return _List(msgspec.json.decode(parts.get("metadata", b"{}"), type=_ListMeta), found)


def _split_event(line: bytes) -> WatchEvent:
    try:
        return _event(line)
    except RecursionError:
        parts = members(line)
        type_ = msgspec.json.decode(parts.get("type", b""), type=str)
        return WatchEvent(type_, msgspec.Raw(parts.get("object", b"")))
