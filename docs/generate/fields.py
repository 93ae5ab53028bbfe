"""Tables of fields, from the same models that make the CRDs."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from docs.generate.reasons import ROOT
from kaiwo.api.kind_models import compose_spec
from kaiwo.api.resolved_config import ResolvedConfig
from kaiwo.api.schema import structural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaiwo.api.kind_models import Kind
    from kaiwo.engine.resource import Object
    from kaiwo.plugin.registry import Plugins


_REFERENCE = frozenset({"file", "secretKey", "secretName"})
_READERS: Final = ("kaiwo/workload", "kaiwo/host", "kaiwo/plugin", "plugins")


@dataclass(frozen=True, slots=True)
class FieldRow:
    """One field.

    Attributes:
        path: where it stands below ``spec``, ``[]`` after the name of a list.
        type: what it takes, in words.
        default: its default as JSON, ``required``, or empty when leaving it out has a meaning of its own.
        meaning: its description.
    """

    path: str
    type: str
    default: str
    meaning: str


def of_kind(kind: Kind, plugins: Plugins) -> list[FieldRow]:
    """The fields below ``spec`` of one of the host's kinds, with those of plugins."""
    model = compose_spec(kind, plugins.fields(), plugins.settings_models())
    return schema_rows(structural(model))


def schema_rows(schema: Object) -> list[FieldRow]:
    """The fields of a structural schema."""
    return list(_rows(schema, ""))


def of_config(plugins: Plugins) -> list[FieldRow]:
    """The fields of KaiwoConfig; one that nothing reads is marked as without effect."""
    attributes = {_camel(field.name) for field in fields(ResolvedConfig)}
    rows = []
    for row in of_kind("KaiwoConfig", plugins):
        name = row.path.rpartition(".")[2]
        section = row.path.partition(".")[0]
        idle = name in attributes and section not in ("data", "plugins") and not _is_read(name)
        rows.append(replace(row, meaning=f"{row.meaning} **No effect yet.**") if idle else row)
    return rows


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _is_read(name: str) -> bool:
    """Whether the operator's code reads this value of the configuration in force."""
    attribute = re.sub("([A-Z])", lambda found: f"_{found[1].lower()}", name)
    return bool(re.search(rf"config(\(\))?\.{attribute}\b", _code()))


@cache
def _code() -> str:
    sources = (path for folder in _READERS for path in sorted((ROOT / folder).rglob("*.py")))
    return "\n".join(path.read_text(encoding="utf-8") for path in sources if "tests" not in path.parts)


def of_custom_kind(kind: str, plugins: Plugins) -> list[FieldRow]:
    """The fields below ``spec`` of a plugin's kind."""
    (model,) = (item.spec for item in plugins.kinds() if item.resource.kind == kind)
    return schema_rows(structural(model))


def _rows(schema: Object, prefix: str) -> Iterator[FieldRow]:
    required = schema.get("required", ())
    for name, field in schema.get("properties", {}).items():
        path = f"{prefix}{name}"
        default = "required" if name in required else _default(field)
        yield FieldRow(path, _type(field), default, field.get("description", ""))
        if _is_reference(field) or field.get("description", "").startswith("Deprecated"):
            continue
        yield from _rows(field, f"{path}.")
        yield from _rows(field.get("items", {}), f"{path}[].")


def _is_reference(field: Object) -> bool:
    return bool(field.get("properties", {}).keys() == _REFERENCE)


def _default(field: Object) -> str:
    if "default" not in field or field.get("properties"):
        return ""
    value: Any = field["default"]
    return f"`{value if isinstance(value, str) else json.dumps(value)}`"


def _type(field: Object) -> str:
    if values := field.get("enum"):
        return " or ".join(f"`{value}`" for value in values)
    if field.get("x-kubernetes-int-or-string"):
        return "quantity"
    if _is_reference(field):
        return "reference to a Secret"
    kind = str(field.get("type", "object"))
    if kind == "array":
        inner = _type(field.get("items", {}))
        return f"list of {inner}s" if inner in ("string", "object") else f"list of {inner}"
    if kind == "object" and "additionalProperties" in field:
        inner = _type(field["additionalProperties"])
        return {"string": "map of strings", "quantity": "map of quantities"}.get(inner, "map")
    return kind
