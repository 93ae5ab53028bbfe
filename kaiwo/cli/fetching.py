"""What a workload would have downloaded, one line for each item, whichever plugin serves it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.api.download import item_key
from kaiwo.workload.storage import requests

if TYPE_CHECKING:
    from kaiwo.api.workload import Workload

_LONGEST = 300


def downloads(workload: Workload) -> list[str]:
    """Each item as ``s3[0]: endpointUrl=https://… buckets(name=models …)``; Secrets by their names only."""
    lines = []
    for request in requests(workload):
        items = request.items if isinstance(request.items, list) else []
        for position, item in enumerate(items):
            text = _text(item)
            text = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
            lines.append(f"{item_key(request.path)}[{position}]: {text}")
    return lines


def _text(value: object) -> str:
    if isinstance(value, dict):
        if "secretName" in value and "secretKey" in value:
            return f"secret {value['secretName']}/{value['secretKey']}"
        return " ".join(_field(str(name), part) for name, part in value.items())
    if isinstance(value, list):
        return "; ".join(_text(part) for part in value)
    return str(value)


def _field(name: str, value: object) -> str:
    return f"{name}({_text(value)})" if isinstance(value, dict | list) else f"{name}={value}"
