"""Checks objects against the structural schema of their CustomResourceDefinition.

Types, required and unknown fields, enumerations, patterns and bounds are checked, as the API server does
before anything else. Rules in CEL are not.
"""

from __future__ import annotations

import re
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Final

from kaiwo.testing.assertions import require

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kaiwo.engine.resource import Object

GROUP: Final = "kaiwo.crds"
"""Entry points that know CRDs: functions from a CRD's name (``rayjobs.ray.io``) to it, or None."""

_PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
_TYPES: Final[dict[str, type | tuple[type, ...]]] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
}
_OF_EVERY_OBJECT: Final = {"apiVersion", "kind", "metadata"}


def assert_matches_crd(obj: Object, crd: Object) -> None:
    """Check an object against the schema of its kind.

    Args:
        obj: the object.
        crd: the CustomResourceDefinition of its kind, with the version of its ``apiVersion``.

    Raises:
        AssertionError: it is of another kind or version, or has fields that the API server would refuse or
            drop; all of them with their paths.
    """
    spec = crd["spec"]
    group, _, version = str(obj.get("apiVersion", "")).rpartition("/")
    kind = spec["names"]["kind"]
    require(
        (group, obj.get("kind")) == (spec["group"], kind),
        f"the object is a {obj.get('kind')} of {group}, expected {kind} of {spec['group']}",
    )
    served = {each["name"]: each for each in spec["versions"] if each.get("served", True)}
    require(version in served, f"{kind}: version {version} is not served (served: {', '.join(served)})")
    schema = served[version]["schema"]["openAPIV3Schema"]
    problems = list(_problems(obj, schema, "", root=True))
    name = obj.get("metadata", {}).get("name", "")
    require(not problems, f"{kind} {name} does not match its CRD: {'; '.join(problems)}")


def known_crd(plural: str, group: str) -> Object | None:
    """The CRD of a kind, from what is installed (the sandbox has those of its addons); None without it."""
    for entry in entry_points(group=GROUP):
        crd: Object | None = entry.load()(f"{plural}.{group}")
        if crd is not None:
            return crd
    return None


def crd_of(crds: Sequence[Object], plural: str, group: str) -> Object | None:
    """The CRD of a kind from those that are given, or from what is installed."""
    given = (crd for crd in crds if crd["metadata"]["name"] == f"{plural}.{group}")
    return next(given, None) or (known_crd(plural, group) if group else None)


def _problems(value: Any, schema: Object, path: str, *, root: bool = False) -> Iterator[str]:
    """What the API server would not take of a value, with its path."""
    where = path or "the object"
    if fault := _type_fault(value, schema):
        yield f"{where} {fault}"
        return
    if value is None:
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{where} is {value!r}, expected one of {', '.join(map(repr, schema['enum']))}"
    match value:
        case dict():
            yield from _object_problems(value, schema, path, root=root)
        case list():
            yield from _size_problems(len(value), schema, "Items", where)
            for position, item in enumerate(value):
                yield from _problems(item, schema.get("items", {}), f"{path}[{position}]")
        case str():
            yield from _size_problems(len(value), schema, "Length", where)
            if "pattern" in schema and not re.search(schema["pattern"], value):
                yield f"{where} is {value!r}, which does not match {schema['pattern']}"
        case _:
            yield from _size_problems(value, schema, "imum", where)
    yield from _alternatives(value, schema, path)


def _type_fault(value: Any, schema: Object) -> str:
    if value is None:
        return "" if schema.get("nullable") else "is null"
    if schema.get("x-kubernetes-int-or-string"):
        right = isinstance(value, int | str) and not isinstance(value, bool)
        return "" if right else f"is {_kind(value)}, expected an integer or a string"
    expected = _TYPES.get(schema.get("type", ""))
    if expected is None or (
        isinstance(value, expected) and (expected is bool or not isinstance(value, bool))
    ):
        return ""
    return f"is {_kind(value)}, expected {schema['type']}"


def _object_problems(value: Object, schema: Object, path: str, *, root: bool) -> Iterator[str]:
    properties = schema.get("properties", {})
    embedded = root or schema.get("x-kubernetes-embedded-resource")
    yield from _size_problems(len(value), schema, "Properties", path or "the object")
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{_below(path, name)} is missing"
    for name, part in value.items():
        at = _below(path, name)
        if embedded and name in _OF_EVERY_OBJECT:
            continue
        if name in properties:
            yield from _problems(part, properties[name], at)
        elif isinstance(schema.get("additionalProperties"), dict):
            yield from _problems(part, schema["additionalProperties"], at)
        elif (
            not schema.get(_PRESERVE)
            and schema.get("additionalProperties") is not True
            and schema.get("type")
        ):
            yield f"{at} is unknown"


def _size_problems(size: float, schema: Object, what: str, where: str) -> Iterator[str]:
    """Bounds such as ``minItems`` and ``maximum``."""
    low, high = schema.get(f"min{what}"), schema.get(f"max{what}")
    if low is not None and size < low:
        yield f"{where} is below min{what} {low}"
    if high is not None and size > high:
        yield f"{where} is above max{what} {high}"


def _alternatives(value: Any, schema: Object, path: str) -> Iterator[str]:
    """``allOf``, ``anyOf``, ``oneOf`` and ``not``, which in a structural schema only restrict values."""
    where = path or "the object"
    for part in schema.get("allOf", ()):
        yield from _problems(value, part, path)
    for word in ("anyOf", "oneOf"):
        parts = schema.get(word, ())
        matching = sum(not any(_problems(value, part, path)) for part in parts)
        if parts and not (matching == 1 if word == "oneOf" else matching):
            yield f"{where} does not match {word} of its schema"
    if "not" in schema and not any(_problems(value, schema["not"], path)):
        yield f"{where} matches what its schema excludes"


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", int: "an integer"}
    return names.get(type(value), type(value).__name__)
