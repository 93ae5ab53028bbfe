"""The workload kinds as the command line calls them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.cli.failures import NOT_FOUND, USAGE, Failure
from kaiwo.engine.resource import Resource

if TYPE_CHECKING:
    from kaiwo.cli.kit import Cluster
    from kaiwo.engine.resource import Object

GROUP = "kaiwo.silogen.ai"
VERSION = "v1alpha1"

KAIWO_JOB = Resource(GROUP, VERSION, "KaiwoJob", "kaiwojobs")
KAIWO_SERVICE = Resource(GROUP, VERSION, "KaiwoService", "kaiwoservices")
KAIWO_CONFIG = Resource(f"config.{GROUP}", VERSION, "KaiwoConfig", "kaiwoconfigs", namespaced=False)

WORKLOADS = (KAIWO_JOB, KAIWO_SERVICE)
BY_KIND = {resource.kind: resource for resource in WORKLOADS}


def _words(resource: Resource, *short: str) -> dict[str, Resource]:
    kind = resource.kind.lower()
    full = (f"{kind}.{resource.group}", f"{resource.plural}.{resource.group}")
    return dict.fromkeys((*short, kind, resource.plural, *full), resource)


WORDS = _words(KAIWO_JOB, "job", "jobs", "kj") | _words(KAIWO_SERVICE, "service", "services", "ks")
"""What people write for a kind: also kubectl's short and full names."""

SHORT = {"KaiwoJob": "job", "KaiwoService": "service"}


def target(text: str) -> tuple[tuple[Resource, ...], str]:
    """The kinds and the name that ``train``, ``job/train`` or ``kaiwoservice.kaiwo.silogen.ai/chat`` mean.

    Raises:
        Failure: an unknown kind, or no name.
    """
    kind, slash, name = text.rpartition("/")
    kinds: tuple[Resource, ...] = WORKLOADS
    if not slash:
        pass
    elif kind.lower() in WORDS:
        kinds = (WORDS[kind.lower()],)
    else:
        raise Failure(
            f'"{text}": "{kind}" is no kind of workload', "write job/NAME or service/NAME", code=USAGE
        )
    if not name:
        raise Failure(f'"{text}": no name', "kaiwo list shows the names", code=USAGE)
    return kinds, name


def find(cluster: Cluster, text: str) -> tuple[Resource, Object]:
    """The one workload that is meant.

    Raises:
        Failure: there is none, or a job and a service have that name.
    """
    kinds, name = target(text)
    found = found_in(cluster, kinds, name)
    if not found:
        what = " or ".join(SHORT[resource.kind] for resource in kinds)
        raise Failure(f'no {what} "{name}" in namespace {cluster.namespace}', _elsewhere(), code=NOT_FOUND)
    if len(found) > 1:
        raise Failure(
            f'"{name}" is the name of a job and of a service in namespace {cluster.namespace}',
            f"write job/{name} or service/{name}",
            code=USAGE,
        )
    return found[0]


def found_in(cluster: Cluster, kinds: tuple[Resource, ...], name: str) -> list[tuple[Resource, Object]]:
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
    """The cluster does not know the kind."""
    return Failure(
        f"the cluster does not know the kind {resource.kind}: Kaiwo's CRDs are not installed",
        "kaiwo manifests crds | kubectl apply --server-side -f - (as an administrator), or another --context",
    )


def _elsewhere() -> str:
    return "kaiwo list -A shows all that you may see"
