"""CRDs, and the KaiwoConfig, read from a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kaiwo.cli.failures import USAGE, Failure
from kaiwo.engine.yaml_reader import parse
from kaiwo.engine.yaml_scalars import DocumentError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaiwo.engine.resource import Object

_HOW = "write the file with: kubectl get crd -o yaml"


def read_crds(path: str) -> Sequence[Object]:
    """The CRDs of a file, of several documents or a List.

    Raises:
        Failure: it is no YAML, with line and column; or it holds no CRD.
    """
    found = _objects(path, _HOW)
    found = [item for item in found if item.get("kind") == "CustomResourceDefinition"]
    if not found:
        raise Failure(f"{path}: no CustomResourceDefinition in this file", _HOW, code=USAGE)
    return found


def read_kaiwo_config(path: str) -> Object:
    """The KaiwoConfig of a file, alone or among other objects.

    Raises:
        Failure: it is no YAML, with line and column; or it holds no KaiwoConfig.
    """
    how = "write the file with: kubectl get kaiwoconfig kaiwo -o yaml"
    found = [item for item in _objects(path, how) if item.get("kind") == "KaiwoConfig"]
    if not found:
        raise Failure(f"{path}: no KaiwoConfig in this file", how, code=USAGE)
    return found[0]


def _objects(path: str, how: str) -> list[Object]:
    """All objects of a file, of several documents or a List."""
    found: list[Object] = []
    try:
        with click.open_file(path, encoding="utf-8-sig") as stream:
            documents = [document.value for document in parse(stream.read())]
    except DocumentError as error:
        raise Failure(f"{path}:{error.line}:{error.column}: {error}", how, code=USAGE) from error
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise Failure(f"{path}: cannot be read: {reason}", how, code=USAGE) from error
    for value in documents:
        items = value.get("items") if isinstance(value, dict) and value.get("kind") == "List" else [value]
        found += [item for item in (items if isinstance(items, list) else ()) if isinstance(item, dict)]
    return found
