"""Asks the API server what its caller may do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaiwo.engine.resource import Resource

if TYPE_CHECKING:
    from kaiwo.engine.client import Client

_ACCESS_REVIEW: Final = Resource(
    "authorization.k8s.io", "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", namespaced=False
)


async def is_allowed(
    client: Client, verb: str, resource: Resource, namespace: str = "", subresource: str = ""
) -> bool:
    """Whether the caller has a right, as ``kubectl auth can-i`` asks it; nothing is done with it.

    Args:
        client: whose caller is meant.
        verb: as in RBAC.
        resource: the kind; it need not be served.
        namespace: empty for all namespaces, and for kinds without namespaces.
        subresource: for example ``log``, empty for none.

    Raises:
        EngineError: that cannot be known now.
    """
    attributes = {
        "verb": verb,
        "group": resource.group,
        "resource": resource.plural,
        "subresource": subresource,
        "namespace": namespace,
    }
    review = {
        "apiVersion": _ACCESS_REVIEW.api_version,
        "kind": _ACCESS_REVIEW.kind,
        "metadata": {},
        "spec": {"resourceAttributes": attributes},
    }
    answer = await client.create(_ACCESS_REVIEW, review)
    return answer.get("status", {}).get("allowed") is True
