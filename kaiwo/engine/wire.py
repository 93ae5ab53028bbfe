"""The shapes of list pages and watch events on the wire, decoded no deeper than needed."""

from __future__ import annotations

import msgspec

from kaiwo.engine.errors import ConnectionBroken
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

_list = msgspec.json.Decoder(_List).decode
_event = msgspec.json.Decoder(WatchEvent).decode
_object = msgspec.json.Decoder(Object).decode


def decode_page(body: bytes, what: str) -> Page:
    """A list answer; ConnectionLost when it is none, as from a proxy in between."""
    try:
        found = _list(body)
    except msgspec.DecodeError as error:
        raise ConnectionBroken(f"{what}: the answer is not a list: {error}") from error
    return Page(found.items or (), found.metadata.resourceVersion, found.metadata.rest)


def decode_event(line: bytes, what: str) -> WatchEvent:
    """A line of a watch; ConnectionLost when it is garbled."""
    try:
        return _event(line)
    except msgspec.DecodeError as error:
        raise ConnectionBroken(f"{what}: an event is not JSON: {error}") from error


def decode_object(body: bytes | msgspec.Raw, what: str) -> Object:
    """A JSON object; ConnectionLost when the answer is none."""
    try:
        return _object(body)
    except msgspec.DecodeError as error:
        raise ConnectionBroken(f"{what}: the answer is not a JSON object: {error}") from error
