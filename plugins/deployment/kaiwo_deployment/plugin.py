"""The backend ``deployment``: its name, its fields, the objects it works with and the rights it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.plugin import hookimpl
from kaiwo.plugin.backends import Backend, Field
from kaiwo.plugin.kit.kinds import DEPLOYMENT, SERVICE
from kaiwo.plugin.lazy import Lazy
from kaiwo.plugin.rbac import PolicyRule
from kaiwo_deployment.kinds import REPLICA_SET
from kaiwo_deployment.scaled_to_zero import REPLICAS

if TYPE_CHECKING:
    from kaiwo_deployment.backend import DeploymentBackend

KAIWO_API = 1

BACKEND: Lazy[DeploymentBackend] = Lazy("kaiwo_deployment.backend:DeploymentBackend")


@hookimpl
def kaiwo_backends() -> list[Backend]:
    """The backend."""
    from kaiwo.plugin.kit.fields import Opaque

    field = Field(
        "KaiwoService",
        ("deployment",),
        Opaque,
        "A whole apps/v1 Deployment to start from: its spec is used, the common fields are merged into it, "
        "and its labels and annotations are merged onto the created object. Ignored for a service on Ray.",
    )
    verbs = ("get", "list", "watch", "create", "patch", "delete")
    return [
        Backend(
            name="deployment",
            kind="KaiwoService",
            child=DEPLOYMENT,
            fields=(field,),
            implementation=BACKEND,
            write="apply",
            mutable=("*",),
            pod_templates=(("deployment", "spec", "template"),),
            owned_paths=(REPLICAS,),
            secondary=(SERVICE,),
            pod_owners=(REPLICA_SET,),
            requires=(DEPLOYMENT, SERVICE),
            rules=(
                PolicyRule(
                    ("apps",), ("deployments",), verbs, "KaiwoServices run as Deployments", own_objects=True
                ),
                PolicyRule(
                    ("apps",), ("replicasets",), ("list", "watch"), "pods of a Deployment belong to one"
                ),
                PolicyRule(
                    ("",),
                    ("services",),
                    verbs,
                    "a KaiwoService with ports is reached by a Service",
                    own_objects=True,
                ),
            ),
        )
    ]
