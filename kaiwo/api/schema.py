"""From pydantic models to structural OpenAPI v3 schemas, as CustomResourceDefinitions need them.

A structural schema has no references, no null alternatives and a type everywhere. What pydantic can say and
such a schema cannot (unions, recursion) becomes an opaque value that the API server keeps as it is; the
models still check it in the command line and in the controller.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kaiwo.api.scalars import INT32_MAX

if TYPE_CHECKING:
    from pydantic import BaseModel

    from kaiwo.engine.resource import Object

OPAQUE: dict[str, Any] = {"x-kubernetes-preserve-unknown-fields": True}

_KEPT = (
    "description",
    "type",
    "format",
    "enum",
    "pattern",
    "minimum",
    "maximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "required",
)


def structural(model: type[BaseModel], *, defaults: bool = True) -> Object:
    """The structural schema of a model, with JSON names.

    Args:
        model: the model.
        defaults: whether the API server is to fill in defaults; not wanted in ``status``.
    """
    document = model.model_json_schema(by_alias=True, mode="validation")
    return _Converter(document.get("$defs", {}), defaults=defaults).convert(document, ())


class _Converter:
    def __init__(self, definitions: dict[str, Any], *, defaults: bool) -> None:
        self.definitions = definitions
        self.defaults = defaults

    def convert(self, node: dict[str, Any], seen: tuple[str, ...]) -> Object:
        merged, seen = self._resolved(node, seen)
        if merged is None:
            return _opaque(node)
        schema: Object = {key: merged[key] for key in _KEPT if key in merged}
        schema.update({key: value for key, value in merged.items() if key.startswith("x-kubernetes-")})
        if "const" in merged:
            schema["enum"] = [merged["const"]]
        if schema.get("x-kubernetes-int-or-string"):
            schema.pop("type", None)
            schema["anyOf"] = [{"type": "integer"}, {"type": "string"}]
        elif "type" not in schema:
            if "enum" not in schema:
                return _opaque(merged)
            schema["type"] = "string"
        for name in ("Minimum", "Maximum"):
            if f"exclusive{name}" in merged:
                schema[name.lower()] = merged[f"exclusive{name}"]
                schema[f"exclusive{name}"] = True
        if schema.get("type") == "integer":
            schema["format"] = "int32" if merged.get("maximum", INT32_MAX + 1) <= INT32_MAX else "int64"
        self._contents(schema, merged, seen)
        if self.defaults and merged.get("default") is not None:
            schema["default"] = {} if schema.get("properties") else merged["default"]
        return schema

    def _contents(self, schema: Object, merged: dict[str, Any], seen: tuple[str, ...]) -> None:
        if schema.get("type") == "array":
            inner = merged.get("items")
            schema["items"] = self.convert(inner, seen) if isinstance(inner, dict) else dict(OPAQUE)
        if schema.get("type") != "object":
            return
        if merged.get("properties"):
            schema["properties"] = {
                name: self.convert(part, seen) for name, part in sorted(merged["properties"].items())
            }
            if merged.get("additionalProperties") not in (None, False):
                schema.update(OPAQUE)
            return
        inner = merged.get("additionalProperties")
        if isinstance(inner, dict) and inner and not schema.get("x-kubernetes-preserve-unknown-fields"):
            schema["additionalProperties"] = self.convert(inner, seen)
        elif inner not in (None, False):
            schema.update(OPAQUE)

    def _resolved(
        self, node: dict[str, Any], seen: tuple[str, ...]
    ) -> tuple[dict[str, Any] | None, tuple[str, ...]]:
        """The node with references and null alternatives folded in; None if that is not structural."""
        merged = dict(node)
        while True:
            if "$ref" in merged:
                name = str(merged.pop("$ref")).rpartition("/")[2]
                if name in seen:
                    return None, seen
                seen = (*seen, name)
                merged = {**self.definitions[name], **merged}
                continue
            alternatives = merged.pop("anyOf", None) or merged.pop("oneOf", None) or merged.pop("allOf", None)
            if not alternatives:
                return merged, seen
            real = [item for item in alternatives if item.get("type") != "null"]
            if len(real) != 1:
                return None, seen
            merged = {**real[0], **merged}


def _opaque(node: dict[str, Any]) -> Object:
    description = node.get("description")
    return {**({"description": description} if description else {}), **OPAQUE}
