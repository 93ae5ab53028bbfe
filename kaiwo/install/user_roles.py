"""Renders the rights of users: additions to the cluster's own roles view, edit and admin."""

from __future__ import annotations

from kaiwo.api.crds import WORKLOADS
from kaiwo.install.host_rules import READ
from kaiwo.install.rendered_manifest import RenderedManifest, head, installed_name
from kaiwo.install.roles import API_VERSION, RBAC

_CHANGE = ("create", "update", "patch", "delete", "deletecollection")


def user_roles(installation: str) -> list[RenderedManifest]:
    """ClusterRoles that are aggregated into ``view`` and ``edit``: whoever reads Jobs reads workloads.

    The cluster's role ``edit`` includes ``view``, and ``admin`` includes ``edit``.

    Args:
        installation: the namespace of the installation.
    """
    return [
        _role(installation, "view", READ, "whoever reads the Jobs of a namespace reads its workloads"),
        _role(installation, "edit", _CHANGE, "whoever runs Jobs in a namespace runs workloads there"),
    ]


def _role(installation: str, into: str, verbs: tuple[str, ...], why: str) -> RenderedManifest:
    name = installed_name(f"kaiwo-{into}", installation)
    role = head(API_VERSION, "ClusterRole", name, app="kaiwo", installation=installation)
    role["metadata"]["labels"][f"{RBAC}/aggregate-to-{into}"] = "true"
    groups = sorted({resource.group for resource in WORKLOADS.values()})
    plurals = [resource.plural for resource in WORKLOADS.values()]
    role["rules"] = [{"apiGroups": groups, "resources": plurals, "verbs": list(verbs)}]
    return RenderedManifest(role, ((why,),))
