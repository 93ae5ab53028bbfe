"""Finds the objects of an installation in a cluster: those that are rendered, and those that are labelled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kaiwo.admission.bundles import CONFIGURATIONS
from kaiwo.api.installation import INSTANCE, NAME, OPERATOR, PART_OF
from kaiwo.engine.errors import NotFound
from kaiwo.engine.resource import DEPLOYMENT
from kaiwo.install.inventory import LABELLED_KINDS, InstalledObject, old_name
from kaiwo.plugin.removals import Removal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable

    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Object, Resource

MANAGED_BY = "app.kubernetes.io/managed-by"
HELM = "Helm"
_RELEASE = "meta.helm.sh/release-name"
_RELEASE_NAMESPACE = "meta.helm.sh/release-namespace"


@dataclass(frozen=True, slots=True)
class LiveObjects:
    """The objects of an installation that exist.

    Attributes:
        operator: how the operator is stopped; None when there is none, or when it is stopped already.
        webhooks: configurations by which the API server calls the operator.
        others: the rest, in the order of their removal.
        notes: objects that stay, and why.
        left_to_helm: the commands that remove the rest, one for each Helm release.
    """

    operator: Removal | None
    webhooks: tuple[Removal, ...]
    others: tuple[Removal, ...]
    notes: tuple[str, ...]
    left_to_helm: tuple[str, ...]


async def read_objects(
    client: Client,
    items: Iterable[InstalledObject],
    installation: str,
    *,
    with_old_names: bool,
    is_kept: Callable[[InstalledObject], bool],
) -> LiveObjects:
    """The objects that are rendered for an installation or labelled as its own, as far as they exist.

    A label finds what another version rendered, or what was rendered with other options. What a Helm release
    holds is left to Helm, but for the webhook configurations, and the operator, which is scaled to zero.

    Args:
        client: of the cluster.
        items: what is rendered.
        installation: its namespace.
        with_old_names: whether objects with the names of earlier versions count.
        is_kept: whether an object stays.
    """
    found: dict[tuple[str, str, str], tuple[InstalledObject, Object]] = {}
    notes: list[str] = []
    async for item, obj in _rendered(client, items, installation, with_old_names=with_old_names):
        if item.is_kept_by_program or is_own(obj, installation):
            found[_key(item)] = (item, obj)
        else:
            notes.append(f"{item.resource} {item.name} stays; it is not labelled {INSTANCE}={installation}")
    async for item, obj in labelled(client, installation):
        found.setdefault(_key(item), (item, obj))
    live = [(item, obj) for item, obj in found.values() if not is_kept(item)]
    releases = sorted({release for _, obj in live if (release := _release(obj, installation))})
    return LiveObjects(
        operator=next((_stopped(item, obj) for item, obj in live if _is_operator(item)), None),
        webhooks=tuple(
            Removal.of(item.resource, obj) for item, obj in live if item.resource in CONFIGURATIONS
        ),
        others=tuple(
            Removal.of(item.resource, obj)
            for item, obj in live
            if not _is_operator(item)
            and item.resource not in CONFIGURATIONS
            and not _release(obj, installation)
        ),
        notes=tuple(notes),
        left_to_helm=tuple(
            f"objects of the Helm release {name} stay; remove them with helm uninstall {name} -n {namespace}"
            for name, namespace in releases
        ),
    )


async def labelled(
    client: Client, installation: str, kinds: Iterable[Resource] = LABELLED_KINDS
) -> AsyncIterator[tuple[InstalledObject, Object]]:
    """Objects with the labels of an installation, programs first.

    Args:
        client: of the cluster.
        installation: its namespace.
        kinds: of the objects.
    """
    selector = f"{PART_OF}=kaiwo,{INSTANCE}={installation}"
    for resource in kinds:
        try:
            async for obj in client.list(resource, label_selector=selector):
                metadata = obj["metadata"]
                item = InstalledObject(
                    resource, metadata.get("namespace", ""), metadata["name"], label_of(obj, NAME)
                )
                yield item, obj
        except NotFound:
            continue  # the kind is not served


def is_own(obj: Object, installation: str) -> bool:
    """Whether labels say that an object belongs to an installation, or to one of before they had its name."""
    instance = label_of(obj, INSTANCE)
    if instance:
        return instance == installation
    return label_of(obj, PART_OF) == "kaiwo"


def label_of(obj: Object, key: str) -> str:
    """The value of a label, empty without it."""
    return str((obj["metadata"].get("labels") or {}).get(key, ""))


async def _rendered(
    client: Client, items: Iterable[InstalledObject], installation: str, *, with_old_names: bool
) -> AsyncIterator[tuple[InstalledObject, Object]]:
    """Objects that exist under the rendered names, and under those of earlier versions."""
    for item in items:
        if (obj := await _get(client, item)) is not None:
            yield item, obj
        before = old_name(item, installation) if with_old_names else None
        old = await _get(client, before) if before else None
        if before and old and label_of(old, PART_OF) == "kaiwo" and not label_of(old, INSTANCE):
            yield before, old


async def _get(client: Client, item: InstalledObject) -> Object | None:
    try:
        return await client.get(item.resource, item.namespace or None, item.name)
    except NotFound:
        return None


def _key(item: InstalledObject) -> tuple[str, str, str]:
    return str(item.resource), item.namespace, item.name


def _is_operator(item: InstalledObject) -> bool:
    return item.resource == DEPLOYMENT and item.name == OPERATOR


def _stopped(item: InstalledObject, obj: Object) -> Removal | None:
    """How an operator is stopped: deleted, or scaled to zero where Helm holds its Deployment."""
    if label_of(obj, MANAGED_BY) != HELM:
        return Removal.of(item.resource, obj)
    if not obj["spec"].get("replicas", 1):
        return None
    return Removal.change(item.resource, obj, "replicas", {"spec": {"replicas": 0}})


def _release(obj: Object, installation: str) -> tuple[str, str] | None:
    """Name and namespace of the Helm release that holds an object."""
    if label_of(obj, MANAGED_BY) != HELM:
        return None
    annotations = obj["metadata"].get("annotations") or {}
    return (
        str(annotations.get(_RELEASE) or "NAME"),
        str(annotations.get(_RELEASE_NAMESPACE) or installation),
    )
