"""What a workload would have downloaded, one line for each item, whichever plugin serves it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kaiwo.api.download import item_key
from kaiwo.plugin.sources import secret_reference
from kaiwo.workload.json_access import cut
from kaiwo.workload.storage.volumes import requests

if TYPE_CHECKING:
    from kaiwo.api.workload import Workload

_LONGEST = 300


def downloads(workload: Workload) -> list[str]:
    """Each item as ``s3[0]: endpointUrl=https://… buckets(name=models …)``; Secrets by their names only."""
    lines = []
    for request in requests(workload):
        items = request.items if isinstance(request.items, list) else []
        for position, item in enumerate(items):
            lines.append(f"{item_key(request.path)}[{position}]: {cut(_text(item), _LONGEST)}")
    return lines


def _text(value: Any) -> str:
    if reference := secret_reference(value):
        return f"secret {reference.name}/{reference.key}"
    if isinstance(value, dict):
        # The API server sorts fields by name; the plain ones say most.
        fields = sorted(
            value.items(),
            key=lambda field: (secret_reference(field[1]) is not None, isinstance(field[1], dict | list)),
        )
        return " ".join(_field(str(name), part) for name, part in fields)
    if isinstance(value, list):
        return "; ".join(_text(part) for part in value)
    return str(value)


def _field(name: str, value: Any) -> str:
    return f"{name}({_text(value)})" if isinstance(value, dict | list) else f"{name}={value}"
