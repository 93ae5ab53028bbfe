"""Names and labels of the objects that an installation consists of.

Whoever renders, looks for or repairs one of them has its name from here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaiwo.api.config_names import DEFAULT_SCHEDULER

if TYPE_CHECKING:
    from kaiwo.engine.resource import Object

DEFAULT_NAMESPACE: Final = "kaiwo-system"

SYSTEM_NAMESPACE: Final = "kube-system"
"""Namespace of the cluster's own programs, in which Kaiwo changes nothing."""

OPERATOR: Final = "kaiwo-operator"
"""Name of the operator's objects; those outside its namespace are named by `installed_name`."""

SCHEDULER: Final = DEFAULT_SCHEDULER
"""Name of the scheduler's objects, and the ``schedulerName`` it serves: the default in KaiwoConfig."""

NAME: Final = "app.kubernetes.io/name"
PART_OF: Final = "app.kubernetes.io/part-of"
INSTANCE: Final = "app.kubernetes.io/instance"
"""Label with the namespace of the installation that an object belongs to."""


def installed_name(name: str, installation: str) -> str:
    """The name of an object outside the namespace of its installation.

    Two installations in one cluster have roles of their own. A namespace has no dot in its name, so names
    never meet.

    Args:
        name: what the object is, for example `OPERATOR`.
        installation: the namespace of the installation.
    """
    return f"{name}.{installation}"


def head(
    api_version: str, kind: str, name: str, *, app: str, installation: str, namespace: str | None = None
) -> Object:
    """An object with nothing but its type and metadata.

    Args:
        api_version: for example ``apps/v1``.
        kind: for example ``Deployment``.
        name: of the object.
        app: the program it belongs to: `OPERATOR`, `SCHEDULER` or ``kaiwo``.
        installation: the namespace of the installation.
        namespace: None for a cluster-scoped kind.
    """
    metadata: Object = {"name": name, **({"namespace": namespace} if namespace else {})}
    metadata["labels"] = {**labels(app), INSTANCE: installation}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}


def labels(app: str) -> dict[str, str]:
    """The recommended labels of Kubernetes, without a version: an upgrade must not change selectors."""
    return {NAME: app, PART_OF: "kaiwo"}
