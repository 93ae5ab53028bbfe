"""What a workload takes of the defaults of its namespace: only where it says nothing itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaiwo.plugin.facts import Blocked
from kaiwo.plugin.namespace_defaults import (
    NO_DEFAULTS,
    DefaultsProblem,
    DefaultValues,
    precedence,
    same_server,
)
from kaiwo.workload import plugin_calls
from kaiwo.workload.applied_record import digest
from kaiwo.workload.errors import PluginError, SpecError
from kaiwo.workload.json_access import lenient_map
from kaiwo.workload.storage.volumes import requests, volumes

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from kaiwo.api.workload import Workload
    from kaiwo.engine.resource import Object
    from kaiwo.plugin.namespace_defaults import ItemCredentials, NamespaceDefaults, SecretVariable
    from kaiwo.plugin.rendering import Resolved
    from kaiwo.plugin.sources import DownloadSource, SecretReference
    from kaiwo.workload.model import Registry

DEFAULTS_ORIGIN: Final = "the defaults of the namespace"
"""Where a value comes from, as ``kaiwo plan --explain`` says it."""


def combined(values: Sequence[DefaultValues]) -> DefaultValues:
    """The defaults of several kinds as one; of the same variable or Secret the first counts."""
    if len(values) == 1:
        return values[0]
    variables = {variable.name: variable for one in reversed(values) for variable in reversed(one.variables)}
    return DefaultValues(
        tuple(reversed(variables.values())),
        tuple(dict.fromkeys(name for one in values for name in one.image_pull_secrets)),
        tuple(entry for one in values for entry in one.credentials),
        tuple(problem for one in values for problem in one.problems),
    )


def values_in_use(found: Iterable[tuple[NamespaceDefaults, Sequence[Object]]]) -> DefaultValues:
    """The defaults of a namespace, from what declares them and all objects of its kind there."""
    values = []
    for declared, objects in found:
        entries = [lenient_map(obj.get("metadata")) for obj in objects]
        usable = [
            (precedence(str(entry.get("name")), str(entry.get("creationTimestamp") or "")), obj)
            for entry, obj in zip(entries, objects, strict=True)
            if not entry.get("deletionTimestamp")
        ]
        if usable:
            values.append(read_defaults(declared, min(usable, key=lambda pair: pair[0])[1]))
    return combined(values) if values else NO_DEFAULTS


def read_defaults(declared: NamespaceDefaults, obj: Object) -> DefaultValues:
    """The defaults that an object has; a plugin that fails is a problem of all workloads there."""
    try:
        return plugin_calls.namespace_defaults(declared, obj)
    except (PluginError, SpecError) as error:
        return DefaultValues(problems=(DefaultsProblem(str(error)),))


def unusable(workload: Workload, registry: Registry, defaults: DefaultValues) -> Blocked | None:
    """Why a workload waits until defaults of its namespace are corrected; None where it needs none."""
    for problem in defaults.problems:
        if not problem.path or _is_concerned(workload, registry, problem):
            return Blocked("InvalidNamespaceDefaults", problem.message)
    return None


def _is_concerned(workload: Workload, registry: Registry, problem: DefaultsProblem) -> bool:
    sources = {source.path: source for source in registry.sources}
    for request in requests(workload):
        if request.path[: len(problem.path)] != problem.path:
            continue
        source = sources.get(request.path)
        if source is None or not source.credentials or len(problem.path) < len(request.path):
            return True
        return any(not source.gives_credentials(item) for item in _items(request.items))
    return len(problem.path) == 1 and _has_section(workload, problem.path[0])


def _has_section(workload: Workload, section: str) -> bool:
    storage = workload.spec.storage
    if storage is None or not storage.storage_enabled:
        return False
    given = {"data": storage.data, "huggingFace": storage.hugging_face}.get(section)
    return given is not None and bool(given.storage_size)


def _items(items: object) -> Iterator[Object]:
    yield from (item for item in (items if isinstance(items, list | tuple) else ()) if isinstance(item, dict))


def default_variables(workload: Workload, resolved: Resolved, given: Collection[object]) -> dict[str, Object]:
    """The variables that a container gets, by name.

    Args:
        workload: the workload.
        resolved: has the variables.
        given: names of the variables that the container has already.
    """
    sections = {volume.path.removeprefix("spec.storage.") for volume in volumes(workload, resolved)}
    found: dict[str, Object] = {}
    for variable in resolved.variables:
        if variable.section and variable.section not in sections:
            continue
        if variable.name in found or any(name in given for name in (variable.name, *variable.replaced_by)):
            continue
        found[variable.name] = _from_secret(variable)
    return found


def _from_secret(variable: SecretVariable) -> Object:
    reference = {"name": variable.secret, "key": variable.key}
    return {"name": variable.name, "valueFrom": {"secretKeyRef": reference}}


def with_credentials(
    source: DownloadSource, items: Iterable[Object], field: str, entries: Sequence[ItemCredentials]
) -> tuple[Object, ...]:
    """The items of a source, those without credentials with those of the namespace.

    Args:
        source: the source.
        items: as the user wrote them.
        field: the field that has them.
        entries: credentials of the namespace.

    Raises:
        SpecError: an item has none, and is of no use without.
    """
    usable = _usable(source, entries)
    found = []
    for position, item in enumerate(items):
        entry = _entry(source, item, usable)
        secrets = entry.secrets if entry is not None else {}
        found.append({**item, **{name: _reference(secret) for name, secret in secrets.items()}})
        if entry is not None:
            continue
        if source.needs_credentials and not source.gives_credentials(item):
            raise SpecError(
                f"{field}[{position}].{source.credentials[0]}",
                "is missing, and the namespace has no default for it; name a Secret here",
            )
    return tuple(found)


def _usable(source: DownloadSource, entries: Iterable[ItemCredentials]) -> list[ItemCredentials]:
    return [
        entry
        for entry in entries
        if entry.path == source.path and entry.secrets and set(entry.secrets) <= set(source.credentials)
    ]


def _entry(source: DownloadSource, item: Object, usable: Iterable[ItemCredentials]) -> ItemCredentials | None:
    """The first entry for an item that gives no credentials itself."""
    if source.gives_credentials(item):
        return None
    for entry in usable:
        if all(same_server(item.get(name), url) for name, url in entry.urls.items()):
            return entry
    return None


def _reference(secret: SecretReference) -> Object:
    reference = {"secretName": secret.name, "secretKey": secret.key}
    return {**reference, "file": secret.file} if secret.file else reference


def used_for_downloads(workload: Workload, registry: Registry, defaults: DefaultValues) -> str:
    """A hash of what the download pod of a workload takes of the defaults; empty where it takes nothing."""
    if not (defaults.variables or defaults.image_pull_secrets or defaults.credentials):
        return ""
    names = {variable.name for variable in workload.spec.env or ()}
    variables = [
        [variable.name, variable.secret, variable.key]
        for variable in defaults.variables
        if (not variable.section or _has_section(workload, variable.section))
        and not names.intersection((variable.name, *variable.replaced_by))
    ]
    own = {secret.name for secret in workload.spec.image_pull_secrets or ()}
    pull = [name for name in defaults.image_pull_secrets if name not in own]
    sources = {source.path: source for source in registry.sources}
    credentials: list[object] = []
    for request in requests(workload) if defaults.credentials else ():
        source = sources.get(request.path)
        if source is None:
            continue
        usable = _usable(source, defaults.credentials)
        for position, item in enumerate(_items(request.items) if usable else ()):
            if entry := _entry(source, item, usable):
                secrets = {name: _reference(secret) for name, secret in entry.secrets.items()}
                credentials.append([list(request.path), position, secrets])
    taken = [variables, pull, credentials]
    return digest(taken) if any(taken) else ""
