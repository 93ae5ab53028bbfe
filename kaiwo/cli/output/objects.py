"""Kubernetes objects on standard output, in the form given with ``-o``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kaiwo.cli.options import settings
from kaiwo.cli.output.serialization import dump
from kaiwo.cli.output.table import write_table
from kaiwo.cli.terminal import clean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaiwo.cli.output.table import Column
    from kaiwo.engine.resource import Object


def emit(objects: Sequence[Object], columns: Sequence[Column] = (), *, one: bool = False) -> None:
    """Write objects in the form given with ``-o``; without it a table, or YAML when there are no columns.

    Args:
        objects: whole objects.
        columns: of the table.
        one: one object was requested, so that JSON and YAML carry it and no list.
    """
    form = settings().output or ("table" if columns else "yaml")
    match form:
        case "json" | "yaml":
            shown = [without_owners(obj) for obj in objects]
            dump(shown[0] if one and len(shown) == 1 else listed(shown), form)
        case "name":
            for obj in objects:
                click.echo(clean(name_of(obj)))
        case _:
            write_table(columns, objects)


def without_owners(obj: Object) -> Object:
    """Without the bookkeeping of field owners, as kubectl shows objects."""
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict) or "managedFields" not in metadata:
        return obj
    return {**obj, "metadata": {key: value for key, value in metadata.items() if key != "managedFields"}}


def listed(objects: Sequence[Object]) -> Object:
    """Objects as a ``List``, as kubectl writes several."""
    return {"apiVersion": "v1", "kind": "List", "items": list(objects)}


def name_of(obj: Object) -> str:
    """``kaiwojob.kaiwo.silogen.ai/train``, as kubectl writes names."""
    group = str(obj.get("apiVersion", "")).rpartition("/")[0]
    kind = str(obj.get("kind", "")).lower()
    return f"{kind}.{group}/{obj['metadata']['name']}" if group else f"{kind}/{obj['metadata']['name']}"
