"""The objects that an installation consists of, in the order in which they are deleted."""

from __future__ import annotations

from dataclasses import dataclass
from shlex import quote
from typing import TYPE_CHECKING, Final

from kaiwo.admission.bundles import CONFIGURATIONS
from kaiwo.api.installation import OPERATOR, SCHEDULER, installed_name
from kaiwo.api.kaiwoconfig import GPU_TIME, HISTORY
from kaiwo.engine.resource import (
    CONFIG_MAP,
    CUSTOM_RESOURCE_DEFINITION,
    DEPLOYMENT,
    LEASE,
    NAMESPACE,
    SECRET,
    SERVICE,
    Resource,
)
from kaiwo.install.render import PARTS, InstallOptions, render
from kaiwo.install.webhooks import EVERY_WEBHOOK

if TYPE_CHECKING:
    from kaiwo.engine.resource import Object
    from kaiwo.install.webhooks import WebhookOptions
    from kaiwo.plugin.registry import Plugins

_RBAC = "rbac.authorization.k8s.io"
_ADMISSION = "admissionregistration.k8s.io"

ROLE_BINDING: Final = Resource(_RBAC, "v1", "RoleBinding", "rolebindings")

_KINDS: Final = {
    resource.kind: resource
    for resource in (
        *CONFIGURATIONS,
        DEPLOYMENT,
        CONFIG_MAP,
        SECRET,
        SERVICE,
        Resource("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets"),
        Resource("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies"),
        Resource("", "v1", "ServiceAccount", "serviceaccounts"),
        Resource(_RBAC, "v1", "Role", "roles"),
        ROLE_BINDING,
        Resource(_RBAC, "v1", "ClusterRole", "clusterroles", namespaced=False),
        Resource(_RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False),
        Resource(
            _ADMISSION, "v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies", namespaced=False
        ),
        Resource(
            _ADMISSION,
            "v1",
            "ValidatingAdmissionPolicyBinding",
            "validatingadmissionpolicybindings",
            namespaced=False,
        ),
    )
}
"""Kinds of rendered objects, by name."""

_UNLABELLED: Final = {resource.kind: resource for resource in (NAMESPACE, CUSTOM_RESOURCE_DEFINITION)}
"""Kinds of rendered objects that installations share."""

LABELLED_KINDS: Final = tuple(_KINDS.values())
"""Kinds of objects that belong to an installation by their labels, programs first."""

COMPARED_KINDS: Final = tuple(kind for kind in LABELLED_KINDS if kind != SECRET)
"""Those that are read for a comparison alone, for which nobody should need a right to Secrets."""


def resource_of(obj: Object) -> Resource:
    """The kind of a rendered object."""
    return _KINDS.get(obj["kind"]) or _UNLABELLED[obj["kind"]]


@dataclass(frozen=True, slots=True)
class InstalledObject:
    """One object of an installation.

    Attributes:
        resource: its kind.
        namespace: its namespace, empty for cluster-scoped kinds.
        name: its name.
        app: the program it belongs to.
    """

    resource: Resource
    namespace: str
    name: str
    app: str

    @property
    def is_kept_by_program(self) -> bool:
        """Whether a program made it, so that it has no labels of the installation."""
        return self.resource == LEASE or self.is_record

    @property
    def is_record(self) -> bool:
        """Whether it is a record of the operator: the last specs of the KaiwoConfig, or GPU time."""
        return self.resource == CONFIG_MAP and self.name in (HISTORY, GPU_TIME)

    @property
    def delete_command(self) -> str:
        """The command that deletes it, for people. The name of a role may have any characters but a slash."""
        where = f" -n {self.namespace}" if self.namespace else ""
        return f"kubectl delete {self.resource} {quote(self.name)}{where}"


def installed_objects(
    plugins: Plugins,
    installation: str,
    workload_namespaces: tuple[str, ...] = (),
    webhooks: WebhookOptions | None = EVERY_WEBHOOK,
) -> list[InstalledObject]:
    """What ``kaiwo manifests`` renders but the Namespace and the CRDs, and what the programs keep beside it.

    The webhook configurations come first, so that no request waits for a program that is gone; then the
    programs.

    Args:
        plugins: loaded plugins.
        installation: the namespace of the installation.
        workload_namespaces: the only namespaces whose workloads run; empty for all.
        webhooks: what the webhooks do, None for none; by default every object that there may be.
    """
    options = InstallOptions(
        namespace=installation,
        workload_namespaces=workload_namespaces,
        network_policy=True,
        webhooks=webhooks,
    )
    rendered = [manifest.obj for manifest in render(PARTS, plugins, options)]
    found = [
        InstalledObject(
            _KINDS[obj["kind"]],
            obj["metadata"].get("namespace", ""),
            obj["metadata"]["name"],
            obj["metadata"]["labels"]["app.kubernetes.io/name"],
        )
        for obj in reversed(rendered)
        if obj["kind"] != "Namespace"
    ]
    found.sort(key=lambda item: (item.resource not in CONFIGURATIONS, item.resource != DEPLOYMENT))
    return [
        *found,
        *(InstalledObject(LEASE, installation, name, name) for name in (OPERATOR, SCHEDULER)),
        *(InstalledObject(CONFIG_MAP, installation, name, OPERATOR) for name in (HISTORY, GPU_TIME)),
    ]


def old_name(item: InstalledObject, installation: str) -> InstalledObject | None:
    """The object under the name that it had before names carried the installation; None if it has none.

    Args:
        item: the object under its present name.
        installation: the namespace of the installation.
    """
    suffix = installed_name("", installation)
    if item.namespace == installation or not item.name.endswith(suffix):
        return None
    return InstalledObject(item.resource, item.namespace, item.name.removesuffix(suffix), item.app)
