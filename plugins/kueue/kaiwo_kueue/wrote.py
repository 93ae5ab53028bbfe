"""What Kaiwo wrote on a node, remembered on the node itself, so that it can be taken back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kaiwo.workload.json_access import lenient_map

if TYPE_CHECKING:
    from kaiwo.engine.resource import Object

WROTE = "kaiwo.silogen.ai/node-wrote"
"""Annotation of a node: JSON with ``labels`` (key to value) and ``taint`` (key) that Kaiwo wrote."""


def wrote(node: Object) -> Object:
    """What Kaiwo wrote on a node; empty when nothing, or when the annotation cannot be read."""
    text = lenient_map(lenient_map(node.get("metadata")).get("annotations")).get(WROTE)
    try:
        return lenient_map(msgspec.json.decode(text)) if isinstance(text, str) and text else {}
    except msgspec.DecodeError:
        return {}
