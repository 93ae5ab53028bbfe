"""Finding live workloads by the names that people write."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from kaiwo.client.errors import InvalidArgument, NotInstalled, WorkloadNotFound
from kaiwo.client.kinds import KIND_NAMES, SHORT, WORKLOADS

if TYPE_CHECKING:
    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Object, Resource


def parse_name(text: str) -> tuple[tuple[Resource, ...], str]:
    """The kinds and the name that ``train``, ``job/train`` or ``kaiwoservice.kaiwo.silogen.ai/chat`` mean.

    Raises:
        InvalidArgument: an unknown kind, or no name.
    """
    kind, slash, name = text.rpartition("/")
    kinds: tuple[Resource, ...] = WORKLOADS
    if not slash:
        pass
    elif kind.lower() in KIND_NAMES:
        kinds = (KIND_NAMES[kind.lower()],)
    else:
        raise InvalidArgument(
            f'{text}: unknown kind "{kind}" (known: job, service)', "write job/NAME or service/NAME"
        )
    if not name and not slash:
        raise InvalidArgument(
            "expected the name of a workload, got an empty string", "kaiwo list shows the names"
        )
    if not name:
        raise InvalidArgument(f"{text}: expected a name after the slash", "kaiwo list shows the names")
    return kinds, name


def label(obj: Object) -> str:
    """The short name of a workload: ``job/train``."""
    return f"{SHORT[obj['kind']]}/{obj['metadata']['name']}"


def reference(obj: Object) -> str:
    """A workload as the next command names it, whatever the context's namespace is: ``job/train -n team``."""
    return f"{label(obj)} -n {obj['metadata']['namespace']}"


async def find_one(api: Client, namespace: str, text: str) -> tuple[Resource, Object]:
    """The one workload that is meant.

    Args:
        api: the API server.
        namespace: where it is.
        text: ``train``, ``job/train`` or ``service/chat``.

    Raises:
        WorkloadNotFound: there is none.
        InvalidArgument: a job and a service have that name.
        NotInstalled: the cluster does not serve the kind.
    """
    kinds, name = parse_name(text)
    found = await find_all(api, namespace, kinds, name)
    if not found:
        what = " or ".join(SHORT[resource.kind] for resource in kinds)
        hint = await _near(api, namespace, kinds, name) or "kaiwo list -A"
        raise WorkloadNotFound(f'{what} "{name}" not found in namespace {namespace}', hint)
    if len(found) > 1:
        raise InvalidArgument(
            f'"{name}" is both a job and a service in namespace {namespace}',
            f"write job/{name} or service/{name}",
        )
    return found[0]


async def _near(api: Client, namespace: str, kinds: tuple[Resource, ...], name: str) -> str:
    """Which existing name was probably meant; empty when none is near, or names may not be listed."""
    from kaiwo.api.suggestion import did_you_mean
    from kaiwo.engine.errors import ApiError

    names = set()
    for kind in kinds:
        try:
            names |= {obj["metadata"]["name"] async for obj in api.list(kind, namespace)}
        except ApiError:
            continue
    return did_you_mean(name, names)


async def find_all(
    api: Client, namespace: str, kinds: tuple[Resource, ...], name: str
) -> list[tuple[Resource, Object]]:
    """The objects of that name among the kinds.

    Raises:
        NotInstalled: the cluster does not serve a kind.
    """
    found = await asyncio.gather(*(_find(api, resource, namespace, name) for resource in kinds))
    return [(resource, obj) for resource, obj in zip(kinds, found, strict=True) if obj is not None]


async def _find(api: Client, resource: Resource, namespace: str, name: str) -> Object | None:
    from kaiwo.engine.errors import NotFound

    try:
        return await api.get(resource, namespace, name)
    except NotFound as error:
        if not error.details.get("name"):
            raise not_installed(resource) from error
        return None


def not_installed(resource: Resource) -> NotInstalled:
    """The error of a cluster that does not serve the kind."""
    return NotInstalled(
        f"kind {resource.kind} is not served by the cluster; Kaiwo's CRDs are not installed",
        "as an administrator: kaiwo manifests crds | kubectl apply --server-side -f -",
    )
