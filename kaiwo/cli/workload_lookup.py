"""Finding live workloads by the names that people write."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.cli.failures import NOT_FOUND, USAGE, Failure
from kaiwo.cli.workload_kinds import KIND_NAMES, SHORT, WORKLOADS

if TYPE_CHECKING:
    from kaiwo.cli.kit import Cluster
    from kaiwo.engine.resource import Object, Resource


def parse_name(text: str) -> tuple[tuple[Resource, ...], str]:
    """The kinds and the name that ``train``, ``job/train`` or ``kaiwoservice.kaiwo.silogen.ai/chat`` mean.

    Raises:
        Failure: an unknown kind, or no name.
    """
    kind, slash, name = text.rpartition("/")
    kinds: tuple[Resource, ...] = WORKLOADS
    if not slash:
        pass
    elif kind.lower() in KIND_NAMES:
        kinds = (KIND_NAMES[kind.lower()],)
    else:
        raise Failure(
            f'{text}: unknown kind "{kind}" (known: job, service)',
            "write job/NAME or service/NAME",
            code=USAGE,
        )
    if not name:
        raise Failure(f"{text}: expected a name after the slash", "kaiwo list shows the names", code=USAGE)
    return kinds, name


def find_one(cluster: Cluster, text: str) -> tuple[Resource, Object]:
    """The one workload that is meant.

    Raises:
        Failure: there is none, or a job and a service have that name.
    """
    kinds, name = parse_name(text)
    found = find_all(cluster, kinds, name)
    if not found:
        what = " or ".join(SHORT[resource.kind] for resource in kinds)
        raise Failure(
            f'{what} "{name}" not found in namespace {cluster.namespace}',
            _near(cluster, kinds, name) or "kaiwo list -A",
            code=NOT_FOUND,
        )
    if len(found) > 1:
        raise Failure(
            f'"{name}" is both a job and a service in namespace {cluster.namespace}',
            f"write job/{name} or service/{name}",
            code=USAGE,
        )
    return found[0]


def _near(cluster: Cluster, kinds: tuple[Resource, ...], name: str) -> str:
    """Which existing name was probably meant; empty when none is near."""
    from kaiwo.api.suggestion import did_you_mean
    from kaiwo.engine.errors import Forbidden

    try:
        names = {obj["metadata"]["name"] for kind in kinds for obj in cluster.list(kind, cluster.namespace)}
    except Forbidden:
        return ""
    return did_you_mean(name, names)


def find_all(cluster: Cluster, kinds: tuple[Resource, ...], name: str) -> list[tuple[Resource, Object]]:
    """The objects of that name among the kinds, in the cluster's namespace.

    Raises:
        Failure: the cluster knows none of the kinds.
    """
    from kaiwo.engine.errors import NotFound

    found: list[tuple[Resource, Object]] = []
    for resource in kinds:
        try:
            found.append((resource, cluster.get(resource, cluster.namespace, name)))
        except NotFound as error:
            if not error.details.get("name"):
                raise not_installed(resource) from error
    return found


def not_installed(resource: Resource) -> Failure:
    """The failure of a cluster that does not serve the kind."""
    return Failure(
        f"kind {resource.kind} is not served by the cluster; Kaiwo's CRDs are not installed",
        "as an administrator: kaiwo manifests crds | kubectl apply --server-side -f -",
    )
