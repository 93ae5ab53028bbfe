"""The record of what Kaiwo wrote on a node, kept on the node itself so that it can be removed again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kaiwo.plugin.kit.json_access import lenient_map
from kaiwo.plugin.kit.nodes import annotation

if TYPE_CHECKING:
    from kaiwo.plugin.kit.kinds import Object

WRITTEN = "kaiwo.silogen.ai/node-wrote"
"""Annotation of a node: JSON with the ``labels`` and the key of the ``taint`` that Kaiwo wrote."""


def read_record(node: Object) -> Object:
    """What Kaiwo wrote on a node; empty when it wrote nothing, or when the annotation is not valid JSON."""
    text = annotation(node, WRITTEN)
    try:
        return lenient_map(msgspec.json.decode(text)) if text else {}
    except msgspec.DecodeError:
        return {}


def encode_record(record: Object) -> str | None:
    """The value of the annotation, None to remove it."""
    return msgspec.json.encode(record, order="sorted").decode() if record else None
