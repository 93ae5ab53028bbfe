"""Checks the core types inside a workload: environment, secret volumes, resources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kaiwo.api.errors import Problem, describe_type, join_path, shorten
from kaiwo.api.spec_rules import PLAIN_RESOURCES, RESOURCE_NAME, duplicate_mounts
from kaiwo.api.suggestion import did_you_mean
from kaiwo.engine.quantity import InvalidQuantity, Quantity, parse_quantity

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_KEY_OF = (("name", "key"), ("optional",))
ENV_SOURCES: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "fieldRef": (("fieldPath",), ("apiVersion",)),
    "resourceFieldRef": (("resource",), ("containerName", "divisor")),
    "configMapKeyRef": _KEY_OF,
    "secretKeyRef": _KEY_OF,
    "fileKeyRef": (("volumeName", "path", "key"), ("optional",)),
}
"""Where a variable's value may come from, with the fields that are required and those that are not
(core/v1 EnvVarSource, Kubernetes 1.36)."""


def check_env(env: object, path: str) -> Iterator[Problem]:
    """Report what the API server would reject in a list of environment variables."""
    for index, item in _entries(env):
        place = f"{path}[{index}]"
        name = item.get("name")
        if isinstance(name, str) and (not name.isascii() or not name.isprintable() or "=" in name):
            yield Problem(
                f"{place}.name",
                f"{shorten(name)} is not a valid variable name",
                "use ASCII letters, digits and _",
            )
        source = item.get("valueFrom")
        if source is None:
            continue
        if item.get("value"):
            yield Problem(f"{place}.valueFrom", "excludes value", "remove one of them")
        if isinstance(source, dict):
            yield from _env_source(source, f"{place}.valueFrom")


def _env_source(source: dict[Any, Any], place: str) -> Iterator[Problem]:
    given = [str(key) for key, value in source.items() if value is not None]
    for key in given:
        if key not in ENV_SOURCES:
            hint = did_you_mean(key, ENV_SOURCES) or "known: " + ", ".join(sorted(ENV_SOURCES))
            yield Problem(f"{place}.{key}", "unknown source", hint)
    if len(given) != 1:
        yield Problem(
            place, f"expected one source, got {len(given)}", "supported: " + ", ".join(sorted(ENV_SOURCES))
        )
    for key in given:
        if key in ENV_SOURCES:
            yield from _source_fields(source[key], key, f"{place}.{key}")


def _source_fields(value: object, name: str, place: str) -> Iterator[Problem]:
    """Fields that a source does not have, else those that it lacks: a misspelt one is both."""
    required, others = ENV_SOURCES[name]
    if not isinstance(value, dict):
        problem = f"expected a mapping, got {describe_type(value)}"
        yield Problem(place, problem, f"give {' and '.join(required)}")
        return
    known = (*required, *others)
    unknown = [str(key) for key in value if key not in known]
    for key in unknown:
        hint = did_you_mean(key, known) or f"known: {', '.join(known)}"
        yield Problem(f"{place}.{key}", f"unknown field of {name}", hint)
    for key in required if not unknown else ():
        if not value.get(key):
            yield Problem(f"{place}.{key}", "is required", "add it")


def check_secret_volumes(volumes: object, path: str) -> Iterator[Problem]:
    """Report secret volumes that share a name, and files outside of their directory."""
    names: dict[str, int] = {}
    for index, item in _entries(volumes):
        name = item.get("name")
        if isinstance(name, str) and names.setdefault(name, index) != index:
            yield Problem(
                f"{path}[{index}].name", f'"{name}" is the name of {path}[{names[name]}] too', "rename it"
            )
        file = item.get("subPath")
        if isinstance(file, str) and (file.startswith("/") or ".." in file.split("/")):
            yield Problem(
                f"{path}[{index}].subPath",
                f"{shorten(file)} is not a path inside mountPath",
                "write a file name, without / in front and without ..",
            )


def _place(secret: dict[Any, Any]) -> str:
    """Where a secret volume is seen: a directory, or the one file of a key; empty where it does not say."""
    path = secret.get("mountPath")
    if not isinstance(path, str):
        return ""
    directory = path.rstrip("/")
    if not secret.get("key"):
        return directory or "/"
    return f"{directory}/{secret.get('subPath') or secret['key']}"


def check_volumes(spec: Mapping[str, Any]) -> Iterator[Problem]:
    """Report volumes that share a name or a mount path, as far as the spec alone shows.

    A mount path that is left out comes from KaiwoConfig; the controller checks it.
    """
    names: dict[str, str] = {}
    secrets: set[str] = set()
    mounts: list[tuple[str, str]] = []
    for field, name, volume in _storage_volumes(spec.get("storage")):
        names[name] = field
        if volume.get("mountPath"):
            mounts.append((str(volume["mountPath"]), field))
    for index, item in _entries(spec.get("secretVolumes")):
        field = f"spec.secretVolumes[{index}]"
        if (name := str(item.get("name"))) in names:
            yield Problem(
                f"{field}.name", f'"{name}" is the name of the volume of {names[name]}', "rename it"
            )
        if (place := _place(item)) and name not in secrets:
            mounts.append((place, field))
        secrets.add(name)
    yield from duplicate_mounts(mounts)


def _storage_volumes(storage: object) -> Iterator[tuple[str, str, dict[Any, Any]]]:
    """Field, name and section of each volume that the storage section requests."""
    if not isinstance(storage, dict) or storage.get("storageEnabled") is not True:
        return
    for section, name in (("data", "data"), ("huggingFace", "hf")):
        volume = storage.get(section)
        if isinstance(volume, dict) and volume.get("storageSize"):
            yield f"spec.storage.{section}", name, volume


def check_resources(resources: object, path: str) -> Iterator[Problem]:
    """Report names that no resource of a container has, negative amounts, and requests above their limits."""
    if not isinstance(resources, dict):
        return
    yield from _resource_names(resources, path)
    requests, limits = _amounts(resources.get("requests")), _amounts(resources.get("limits"))
    for section, amounts in (("requests", requests), ("limits", limits)):
        for key, amount in amounts.items():
            if amount.nano < 0:
                yield Problem(
                    f"{path}.{join_path((section, key))}",
                    f"must be greater than or equal to 0, got {amount}",
                    "",
                )
    for key, amount in requests.items():
        limit = limits.get(key)
        if limit is not None and amount > limit:
            yield Problem(
                f"{path}.{join_path(('requests', key))}",
                f"{amount} is more than the limit {limit}",
                "lower the request or raise the limit",
            )


def _resource_names(resources: dict[Any, Any], path: str) -> Iterator[Problem]:
    for section in ("requests", "limits"):
        values = resources.get(section)
        for key in values if isinstance(values, dict) else ():
            if isinstance(key, str) and RESOURCE_NAME.violated(key):
                gpus = "request GPUs with spec.gpus" if key.lower() in ("gpu", "gpus") else ""
                hint = gpus or did_you_mean(key, PLAIN_RESOURCES)
                yield Problem(f"{path}.{join_path((section, key))}", RESOURCE_NAME.message, hint)


def _amounts(section: object) -> dict[str, Quantity]:
    amounts: dict[str, Quantity] = {}
    for key, value in section.items() if isinstance(section, dict) else ():
        try:
            amounts[str(key)] = parse_quantity(value)
        except InvalidQuantity:
            continue
    return amounts


def _entries(value: object) -> Iterator[tuple[int, dict[str, Any]]]:
    if isinstance(value, list):
        yield from ((index, item) for index, item in enumerate(value) if isinstance(item, dict))
