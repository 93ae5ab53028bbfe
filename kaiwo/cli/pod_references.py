"""Secrets and ConfigMaps that the pods of a workload need, and whether they exist."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kaiwo.engine.resource import CONFIG_MAP, SECRET
from kaiwo.workload.json_access import lenient_map, lenient_text

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
        pulls: whether it is for pulling images; pods start without it.
    """

    kind: Resource
    name: str
    key: str = ""
    pulls: bool = False


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
        kind = _kind(field, inner)
        if kind is not None and isinstance(inner, dict):
            if inner.get("optional") is not True and (name := lenient_text(inner.get("name"))):
                yield Reference(kind, name, lenient_text(inner.get("key")))
        elif field == "imagePullSecrets" and isinstance(inner, list):
            names = [lenient_text(item.get("name")) for item in inner if isinstance(item, dict)]
            yield from (Reference(SECRET, name, pulls=True) for name in names if name)
        else:
            yield from _within(inner)


def _kind(field: str, value: object) -> Resource | None:
    """The kind that a field refers to by name, None where it does not."""
    if field in _SECRETS or (field == "secret" and "name" in lenient_map(value)):  # of a projected volume
        return SECRET
    return CONFIG_MAP if field in _CONFIG_MAPS else None


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
    absent = f'{reference.kind.kind} "{reference.name}" not found in namespace {namespace}'
    if reference.pulls:
        return (
            f"{absent}; images that need it cannot be pulled: kubectl create secret docker-registry "
            f"{reference.name} -n {namespace} --docker-server=REGISTRY --docker-username=USER "
            "--docker-password=PASSWORD"
        )
    what = "secret generic" if reference.kind == SECRET else "configmap"
    literal = shlex.quote(f"--from-literal={reference.key or 'KEY'}=VALUE")
    return (
        f"{absent}; pods that use it wait for it: "
        f"kubectl create {what} {reference.name} -n {namespace} {literal}"
    )
