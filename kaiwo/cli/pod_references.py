"""Secrets and ConfigMaps that the pods of a workload need, and whether they exist."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kaiwo.engine.resource import CONFIG_MAP, SECRET
from kaiwo.workload.json_access import lenient_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaiwo.api.workload import Workload
    from kaiwo.cli.kit import Cluster
    from kaiwo.engine.resource import Resource


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


_SECRETS = ("secretKeyRef", "secretRef")
_CONFIG_MAPS = ("configMapKeyRef", "configMapRef", "configMap")


def references(spec: object) -> list[Reference]:
    """What the ``spec`` of a workload, its embedded templates and its downloads refer to, each once.

    References that are optional are left out.
    """
    return list(dict.fromkeys(_within(spec)))


def _within(value: Any) -> Iterator[Reference]:
    if isinstance(value, list):
        for item in value:
            yield from _within(item)
    if not isinstance(value, dict) or value.get("optional") is True:
        return
    if name := lenient_text(value.get("secretName")):
        # A secret volume of ours or of a pod, or the credentials of a download.
        yield Reference(SECRET, name, lenient_text(value.get("secretKey")) or lenient_text(value.get("key")))
    for field, inner in value.items():
        kind = SECRET if field in _SECRETS else CONFIG_MAP if field in _CONFIG_MAPS else None
        if kind is not None and isinstance(inner, dict):
            if inner.get("optional") is not True and (name := lenient_text(inner.get("name"))):
                yield Reference(kind, name, lenient_text(inner.get("key")))
        elif field == "imagePullSecrets" and isinstance(inner, list):
            names = [lenient_text(item.get("name")) for item in inner if isinstance(item, dict)]
            yield from (Reference(SECRET, name) for name in names if name)
        else:
            yield from _within(inner)


def missing_objects(cluster: Cluster, workload: Workload, spec: object) -> tuple[str, ...]:
    """What is referred to and does not exist, a sentence each; what may not be read is left out."""
    from kaiwo.engine.errors import Forbidden, NotFound

    found = []
    for reference in references(spec):
        try:
            live = cluster.get(reference.kind, workload.namespace, reference.name)
        except NotFound:
            found.append(_sentence(reference, workload.namespace))
        except Forbidden:
            continue
        else:
            keys = {*(live.get("data") or {}), *(live.get("binaryData") or {})}
            if reference.key and reference.key not in keys:
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
