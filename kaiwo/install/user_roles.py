"""What people may do with workloads: additions to the cluster's own roles view, edit and admin."""

from __future__ import annotations

from kaiwo.api.crds import WORKLOADS
from kaiwo.install.host_rules import READ
from kaiwo.install.rendered_manifest import RenderedManifest, head
from kaiwo.install.roles import API_VERSION, RBAC

_CHANGE = ("create", "update", "patch", "delete", "deletecollection")


def user_roles() -> list[RenderedManifest]:
    """Who may look at a namespace's Jobs may look at its workloads, who may change those may change these.

    The cluster's role ``edit`` takes in what ``view`` has, and ``admin`` what ``edit`` has.
    """
    return [
        _role("view", READ, "who sees the Jobs of a namespace sees its workloads"),
        _role("edit", _CHANGE, "who runs Jobs in a namespace runs workloads there"),
    ]


def _role(into: str, verbs: tuple[str, ...], why: str) -> RenderedManifest:
    role = head(API_VERSION, "ClusterRole", f"kaiwo-{into}", app="kaiwo")
    role["metadata"]["labels"][f"{RBAC}/aggregate-to-{into}"] = "true"
    groups = sorted({resource.group for resource in WORKLOADS.values()})
    plurals = [resource.plural for resource in WORKLOADS.values()]
    role["rules"] = [{"apiGroups": groups, "resources": plurals, "verbs": list(verbs)}]
    return RenderedManifest(role, ((why,),))
