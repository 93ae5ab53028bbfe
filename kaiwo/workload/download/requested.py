"""What a workload wants downloaded before it starts, and which source serves each part of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kaiwo.api.download import item_key
from kaiwo.api.validation_errors import explain
from kaiwo.plugin.absent_plugins import serving
from kaiwo.plugin.facts import Blocked
from kaiwo.workload import plugin_calls
from kaiwo.workload.applied_record import digest
from kaiwo.workload.errors import SpecError
from kaiwo.workload.json_access import as_maps
from kaiwo.workload.namespace_defaults import with_credentials
from kaiwo.workload.storage.volumes import enabled, requests

if TYPE_CHECKING:
    from kaiwo.api.workload import Workload
    from kaiwo.engine.resource import Object
    from kaiwo.plugin.namespace_defaults import DefaultValues
    from kaiwo.plugin.sources import DownloadSource, SecretReference
    from kaiwo.workload.model import Registry

CONDITION = "DownloadJobSucceeded"
"""The condition of the downloads."""

NOT_AVAILABLE = "DownloadNotAvailable"
"""The reason of a workload whose download no loaded source serves."""


@dataclass(frozen=True, slots=True)
class Fetch:
    """What one source is to fetch.

    Attributes:
        source: the source.
        key: key of the items in the document for the download program.
        field: the field that requests it.
        items: as the user wrote them, with credentials of the namespace where they give none.
    """

    source: DownloadSource
    key: str
    field: str
    items: tuple[Object, ...]

    def secrets(self) -> list[tuple[str, SecretReference]]:
        """The Secrets that the items refer to, each with the item's path.

        Raises:
            PluginError: the source failed to say.
        """
        return [
            (f"{self.field}[{position}]", reference)
            for position, item in enumerate(self.items)
            for reference in plugin_calls.secrets(self.source, item)
        ]


def wants(workload: Workload) -> bool:
    """Whether anything is to be downloaded before the workload starts."""
    return workload.spec.storage is not None and any(requests(workload))


def unserved(workload: Workload, registry: Registry) -> Blocked | None:
    """Why what a workload wants downloaded cannot be; None when it can, or it wants nothing."""
    by_path = {source.path: source for source in registry.sources}
    for request in requests(workload):
        source = by_path.get(request.path)
        if source is not None and source.downloader:
            continue
        if source is not None:
            why = f"source {source.name!r} is declared and not built yet"
        else:
            path = ".".join(("storage", *request.path))
            why = serving(workload.kind, path, registry.absent_fields) or (
                "no loaded plugin serves this field; install or select a storage plugin that does"
            )
        return Blocked(
            NOT_AVAILABLE,
            f"{request.field}: {why}; or remove the field and fetch the data in the entrypoint",
            condition="StorageReady",
        )
    return None


def warnings(workload: Workload, registry: Registry) -> list[str]:
    """What the sources find ignored or odd in what a workload wants downloaded.

    Raises:
        PluginError: a source failed to say.
    """
    by_path = {source.path: source for source in registry.sources}
    found = []
    for request in requests(workload):
        if source := by_path.get(request.path):
            problems = plugin_calls.warnings(source, request.items)
            found += [str(replace(each, path=request.field + each.path)) for each in problems]
    return found


def fetches(workload: Workload, registry: Registry, defaults: DefaultValues) -> tuple[Fetch, ...]:
    """What each source is to fetch; all of them serve it, see :func:`unserved`.

    Args:
        workload: the workload.
        registry: has the sources.
        defaults: of the namespace; items that give no credentials get theirs.

    Raises:
        SpecError: an item is not what its source takes, or lacks credentials that it needs.
    """
    by_path = {source.path: source for source in registry.sources}
    found = []
    for request in requests(workload):
        source = by_path[request.path]
        given = as_maps(request.items, request.field)
        items = with_credentials(source, given, request.field, defaults.credentials)
        for position, item in enumerate(items):
            if error := plugin_calls.item_error(source, item):
                problem = explain(error, ("spec", "storage", *request.path, position))[0]
                text = f"{problem.message}; {problem.hint}" if problem.hint else problem.message
                raise SpecError(problem.path, text)
        found.append(Fetch(source, item_key(request.path), request.field, items))
    return tuple(found)


def fingerprint(workload: Workload) -> str:
    """A short hash of what is to be fetched and where to, equal as long as both are."""
    storage = enabled(workload)
    places = [
        section.mount_path if section else None
        for section in ((storage.data, storage.hugging_face) if storage else ())
    ]
    return digest([[[list(request.path), request.items] for request in requests(workload)], places])
