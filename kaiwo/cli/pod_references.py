"""Secrets and ConfigMaps that the pods of a workload need, and whether they exist."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kaiwo.engine.resource import CONFIG_MAP, SECRET

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kaiwo.api.workload import Workload
    from kaiwo.cli.kit import Cluster
    from kaiwo.engine.resource import Object, Resource


@dataclass(frozen=True, slots=True)
class Reference:
    """One Secret or ConfigMap that a pod names.

    Attributes:
        kind: which of both.
        name: its name.
        key: the key that is used; empty for the whole object.
    """

    kind: Resource
    name: str
    key: str = ""


_BY_FIELD = {
    "secretKeyRef": (SECRET, "name"),
    "secretRef": (SECRET, "name"),
    "secret": (SECRET, "secretName"),
    "configMapKeyRef": (CONFIG_MAP, "name"),
    "configMapRef": (CONFIG_MAP, "name"),
    "configMap": (CONFIG_MAP, "name"),
}
"""Fields of pods that refer to a Secret or ConfigMap: its kind, and the field that has its name."""


def references(objects: Iterable[Object]) -> list[Reference]:
    """What the pod templates of some objects refer to, each once; what is optional is left out."""
    made = {(obj.get("kind"), obj["metadata"].get("name")) for obj in objects}
    found = dict.fromkeys(reference for obj in objects for reference in _within(obj))
    return [reference for reference in found if (reference.kind.kind, reference.name) not in made]


def _within(value: Any) -> Iterator[Reference]:
    if isinstance(value, list):
        for item in value:
            yield from _within(item)
    if not isinstance(value, dict):
        return
    for field, inner in value.items():
        kind, name = _BY_FIELD.get(field, (None, ""))
        if kind is not None and isinstance(inner, dict) and isinstance(inner.get(name), str):
            if inner.get("optional") is not True:
                key = inner.get("key")
                yield Reference(kind, inner[name], key if isinstance(key, str) else "")
        elif field == "imagePullSecrets" and isinstance(inner, list):
            for item in inner:
                if isinstance(item, dict) and isinstance(item.get("name"), str):
                    yield Reference(SECRET, item["name"])
        else:
            yield from _within(inner)


def missing_objects(cluster: Cluster, workload: Workload, objects: Sequence[Object]) -> tuple[str, ...]:
    """What is referred to and does not exist, a sentence each; what may not be read is left out."""
    from kaiwo.engine.errors import Forbidden, NotFound

    found = []
    for reference in references(objects):
        try:
            live = cluster.get(reference.kind, workload.namespace, reference.name)
        except NotFound:
            found.append(_sentence(reference, workload.namespace))
        except Forbidden:
            continue
        else:
            if reference.key and reference.key not in {*(live.get("data") or {}), *(live.get("binaryData") or {})}:
                found.append(
                    f'{reference.kind.kind} "{reference.name}" has no key "{reference.key}"; '
                    "pods that use it do not start"
                )
    return tuple(found)


def _sentence(reference: Reference, namespace: str) -> str:
    what = "secret generic" if reference.kind == SECRET else "configmap"
    key = reference.key or "KEY"
    return (
        f'{reference.kind.kind} "{reference.name}" not found in namespace {namespace}; pods that use it wait '
        f"for it: kubectl create {what} {reference.name} -n {namespace} --from-literal={key}=VALUE"
    )
