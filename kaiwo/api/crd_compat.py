"""Keeps declared fields in rendered CRDs, and compares live CRDs with rendered ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kaiwo.api import kaiwoconfig, workload
from kaiwo.api.crd_versions import VERSION, version_of
from kaiwo.api.schema import OPAQUE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kaiwo.engine.resource import Object

GROUPS = frozenset({workload.GROUP, kaiwoconfig.GROUP})

_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_WORDS = frozenset({"description"})
"""Keys whose differences do not change what the API server does."""


def keep_known(rendered: Iterable[Object], previous: Sequence[Object]) -> list[Object]:
    """The rendered definitions, widened by everything that the previous ones declare; sorted by name."""
    before = {crd["metadata"]["name"]: crd for crd in previous if _is_definition(crd)}
    kept: dict[str, Object] = {}
    for crd in rendered:
        name = crd["metadata"]["name"]
        old = before.pop(name, None)
        kept[name] = crd if old is None else _widened(crd, old)
    for name, crd in before.items():
        if crd["spec"].get("group") in GROUPS:
            kept[name] = {
                "apiVersion": crd["apiVersion"],
                "kind": crd["kind"],
                "metadata": {"name": name, **_marked(crd)},
                "spec": crd["spec"],
            }
    return [kept[name] for name in sorted(kept)]


def crd_differences(live: Iterable[Object], rendered: Iterable[Object]) -> list[str]:
    """Compare definitions; one sentence per difference, empty when all are as rendered.

    A field that is live and not rendered is no difference: it belongs to a plugin that is not selected.
    """
    found = {crd["metadata"]["name"]: crd for crd in live if _is_definition(crd)}
    found_differences: list[str] = []
    for crd in rendered:
        name, kind = crd["metadata"]["name"], crd["spec"]["names"]["kind"]
        if name not in found:
            found_differences.append(f"{kind}: the definition {name} is not in the cluster; apply it")
            continue
        for version, schema in _schemas(crd):
            served = dict(_schemas(found[name]))
            if version not in served:
                found_differences.append(
                    f"{kind}: version {version} is not in the cluster; apply the definition again"
                )
                continue
            found_differences.extend(
                f"{kind}: {difference}; apply the definition again"
                for difference in _differences(served[version], schema, "")
            )
    return found_differences


def undeclared_fields(
    live: Iterable[Object], rendered: Iterable[Object]
) -> list[tuple[str, tuple[str, ...]]]:
    """Kind and path of each field that live definitions have and rendered ones of the same name do not.

    Args:
        live: definitions as the API server has them.
        rendered: those of the selected plugins alone.
    """
    wanted = {crd["metadata"]["name"]: dict(_schemas(crd)) for crd in rendered}
    return [
        (crd["spec"]["names"]["kind"], path)
        for crd in live
        for version, schema in _schemas(crd)
        if version in wanted.get(crd["metadata"]["name"], {})
        for path in _undeclared(schema, wanted[crd["metadata"]["name"]][version], ())
    ]


def _undeclared(live: Object, wanted: Object, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    if wanted.get(_PRESERVE):
        return
    known = wanted.get("properties") or {}
    for name, part in (live.get("properties") or {}).items():
        if name in known:
            yield from _undeclared(part, known[name], (*path, name))
        else:
            yield (*path, name)


def max_items(crd: Object, version: str, path: Iterable[str]) -> int:
    """``maxItems`` of a list in one version of a live definition; 0 where it sets none.

    Args:
        crd: the CustomResourceDefinition.
        version: name of the version.
        path: names of the fields down to the list; lists on the way are passed through.
    """
    node: Any = dict(_schemas(crd)).get(version)
    for name in path:
        node = node.get("items", node) if isinstance(node, dict) else None
        node = (node.get("properties") or {}).get(name) if isinstance(node, dict) else None
    limit = node.get("maxItems") if isinstance(node, dict) else None
    return limit if isinstance(limit, int) else 0


def _marked(crd: Object) -> Object:
    """The annotation with the version that rendered a definition, where it has one."""
    found = version_of(crd)
    return {"annotations": {VERSION: found}} if found else {}


def _is_definition(crd: Any) -> bool:
    return (
        isinstance(crd, dict)
        and crd.get("kind") == "CustomResourceDefinition"
        and isinstance(crd.get("spec"), dict)
        and isinstance(crd.get("metadata"), dict)
        and isinstance(crd["metadata"].get("name"), str)
    )


def _schemas(crd: Object) -> Iterator[tuple[str, Object]]:
    for version in crd["spec"].get("versions", ()):
        yield version["name"], version.get("schema", {}).get("openAPIV3Schema", {})


def _widened(crd: Object, old: Object) -> Object:
    before = dict(_schemas(old))
    versions = [
        {
            **version,
            "schema": {"openAPIV3Schema": _widened_schema(version["schema"]["openAPIV3Schema"], schema)},
        }
        if (schema := before.pop(version["name"], None))
        else version
        for version in crd["spec"]["versions"]
    ]
    return {**crd, "spec": {**crd["spec"], "versions": versions}}


def _widened_schema(new: Object, old: Object) -> Object:
    if new.get(_PRESERVE) and not new.get("properties"):
        return new
    merged = dict(new)
    properties = dict(new.get("properties") or {})
    # What takes any key keeps the old ones anyway, and may not name keys as well.
    named = {} if new.get("additionalProperties") else old.get("properties") or {}
    for name, part in named.items():
        properties[name] = _widened_schema(properties[name], part) if name in properties else _opaque(part)
    if properties:
        merged["properties"] = dict(sorted(properties.items()))
    for key in ("items", "additionalProperties"):
        if isinstance(new.get(key), dict) and isinstance(old.get(key), dict):
            merged[key] = _widened_schema(new[key], old[key])
    return merged


def _opaque(part: Object) -> Object:
    """The same field with any value of the same type; nothing in it is checked or defaulted."""
    kept: Object = {key: part[key] for key in ("description", "type") if key in part}
    if part.get("type") == "array":
        return {**kept, "items": dict(OPAQUE)}
    if part.get("type") in {"string", "integer", "number", "boolean"}:
        return kept
    return {**kept, **OPAQUE}


def _differences(live: Object, wanted: Object, path: str) -> Iterator[str]:
    shown = path or "the object"
    if _PRESERVE in wanted and not wanted.get("properties"):
        if live.get(_PRESERVE) is not True:
            yield f"{shown} is not kept as it is written"
        return
    nested = {"properties", "items", "additionalProperties"}
    for key in sorted((wanted.keys() | live.keys()) - nested - _WORDS):
        if wanted.get(key) != live.get(key):
            yield f"{shown} differs in {key}"
    known = live.get("properties") or {}
    for name, part in (wanted.get("properties") or {}).items():
        below = f"{path}.{name}" if path else name
        if name in known:
            yield from _differences(known[name], part, below)
        else:
            yield f"{below} is not declared"
    for key, mark in (("items", "[]"), ("additionalProperties", "{}")):
        if isinstance(wanted.get(key), dict):
            yield from _differences(live.get(key) or {}, wanted[key], f"{path}{mark}")
