"""What the host relies on in a download source."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError

from kaiwo.api.kind_models import compose_spec
from kaiwo.api.plugin_fields import Field
from kaiwo.api.schema import structural
from kaiwo.plugin.sources import SecretReference
from kaiwo.plugin.targets import imported
from kaiwo.testing.assertions import require

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaiwo.engine.resource import Object
    from kaiwo.plugin.sources import DownloadSource


def assert_source_contract(
    source: DownloadSource, *, valid: Sequence[Object], invalid: Sequence[Object] = ()
) -> None:
    """Check a download source with items as users write them.

    Its list composes into both kinds of workload and into a structural schema in which every field is
    described; JSON names only; unknown fields are rejected; what is read is written back unchanged; the
    downloader, where one is named, can be imported, and the Secrets of an item can be mounted.

    Args:
        source: the source.
        valid: items that are right, at least one.
        invalid: items that must be rejected.

    Raises:
        AssertionError: what does not hold, with the item.
    """
    require(valid, "give at least one valid item")
    for kind in ("KaiwoJob", "KaiwoService"):
        annotation = list.__class_getitem__(source.item)
        compose_spec(kind, [Field(kind, ("storage", *source.path), annotation, source.description)])
    _check_described(structural(source.item), source.name)
    reader: TypeAdapter[Any] = TypeAdapter(source.item)
    for item in valid:
        read = reader.validate_json(json.dumps(item))
        written = reader.dump_python(read, mode="json", by_alias=True, exclude_unset=True)
        require(written == item, f"{source.name}: {item} is written back as {written}")
        _assert_refused(reader, {**item, "surelyUnknown": 1}, source.name)
        references = source.secrets(item)
        require(
            all(isinstance(reference, SecretReference) for reference in references),
            f"{source.name}: the Secrets of {item} are {references}, not SecretReferences",
        )
    for item in invalid:
        _assert_refused(reader, item, source.name)
    if source.downloader:
        require(callable(imported(source.downloader)), f"{source.downloader} is no function")


def _assert_refused(reader: TypeAdapter[Any], item: Object, name: str) -> None:
    try:
        reader.validate_json(json.dumps(item))
    except ValidationError:
        return
    raise AssertionError(f"{name}: {item} should be refused and is accepted")


def _check_described(schema: Object, path: str) -> None:
    for name, part in schema.get("properties", {}).items():
        where = f"{path}.{name}"
        require(part.get("description"), f"{where} has no description for kubectl explain")
        require("_" not in name, f"{where} is not a JSON name in camel case")
        _check_described(part, where)
        _check_described(part.get("items", {}), f"{where}[]")
