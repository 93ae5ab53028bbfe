"""CRDs read from a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kaiwo.cli.failures import USAGE, Failure
from kaiwo.cli.input_files.yaml_documents import parse
from kaiwo.cli.input_files.yaml_scalars import DocumentError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaiwo.engine.resource import Object

_HOW = "write the file with: kubectl get crd -o yaml"


def read_crds(path: str) -> Sequence[Object]:
    """The CRDs of a file, of several documents or a List.

    Raises:
        Failure: it is no YAML, with line and column; or it holds no CRD.
    """
    found: list[Object] = []
    try:
        with click.open_file(path, encoding="utf-8-sig") as stream:
            documents = [document.value for document in parse(stream.read())]
    except DocumentError as error:
        raise Failure(f"{path}:{error.line}:{error.column}: {error}", _HOW, code=USAGE) from error
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise Failure(f"{path}: cannot be read: {reason}", _HOW, code=USAGE) from error
    for value in documents:
        items = value.get("items") if isinstance(value, dict) and value.get("kind") == "List" else [value]
        found += [item for item in (items if isinstance(items, list) else ()) if isinstance(item, dict)]
    found = [item for item in found if item.get("kind") == "CustomResourceDefinition"]
    if not found:
        raise Failure(f"{path}: no CustomResourceDefinition in this file", _HOW, code=USAGE)
    return found
