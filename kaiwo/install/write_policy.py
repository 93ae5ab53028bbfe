"""Renders the policy that keeps the operator from writing to the namespaces of the cluster and its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaiwo.admission.names import SECRET
from kaiwo.api.crds import KAIWO_JOB
from kaiwo.api.installation import OPERATOR, SYSTEM_NAMESPACE, installed_name
from kaiwo.api.kaiwoconfig import GPU_TIME, HISTORY
from kaiwo.install.admission_policy import denying_policy

if TYPE_CHECKING:
    from kaiwo.engine.resource import Object
    from kaiwo.install.rendered_manifest import RenderedManifest

NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"
"""Label that the API server sets on every namespace, and that cannot be changed."""

_ALLOWED: Final = (
    "request.resource.group == 'coordination.k8s.io' && request.resource.resource == 'leases'",
    "request.resource.resource == 'events'",
    f"request.resource.resource == 'configmaps' && request.name in ['{HISTORY}', '{GPU_TIME}']",
    f"request.resource.group == '{KAIWO_JOB.group}' && request.subResource == 'status'",
)
"""Leader election, Events, its two ConfigMaps, and the report that a workload in such a
namespace cannot run."""


_CERTIFICATES: Final = f"request.resource.resource == 'secrets' && request.name == '{SECRET}'"


def write_policy(namespace: str, *, own_certificates: bool = False) -> list[RenderedManifest]:
    """A ValidatingAdmissionPolicy and its binding, for Kubernetes 1.30 and later.

    The operator's ClusterRole counts in every namespace, and a role cannot exclude one. Someone who may
    create workloads, or who holds the operator's token, must not reach the control plane with it.

    Args:
        namespace: of the operator.
        own_certificates: whether it keeps the certificates of its webhooks in their Secret.
    """
    exceptions = (*_ALLOWED, _CERTIFICATES) if own_certificates else _ALLOWED
    name = installed_name(OPERATOR, namespace)
    spec: Object = {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "namespaceSelector": {
                "matchExpressions": [
                    {"key": NAMESPACE_NAME, "operator": "In", "values": [SYSTEM_NAMESPACE, namespace]}
                ]
            },
            # The selector never excludes an object that is cluster-scoped and not a Namespace.
            "resourceRules": [
                _writes(["*"], ["*/*"], "Namespaced"),
                _writes([""], ["namespaces"], "Cluster"),
            ],
        },
        "matchConditions": [
            is_operator(namespace),
            {"name": "not-allowed", "expression": " && ".join(f"!({allowed})" for allowed in exceptions)},
        ],
        "validations": [
            {
                "expression": "false",
                "message": f"the Kaiwo operator does not write to {SYSTEM_NAMESPACE} and {namespace}: "
                "create the workload in another namespace",
                "reason": "Forbidden",
            }
        ],
    }
    return denying_policy(name, spec, app=OPERATOR, installation=namespace)


def is_operator(namespace: str) -> Object:
    """The match condition that the operator of an installation makes the request.

    Args:
        namespace: of the operator.
    """
    return {
        "name": "operator",
        "expression": f"request.userInfo.username == 'system:serviceaccount:{namespace}:{OPERATOR}'",
    }


def _writes(groups: list[str], resources: list[str], scope: str) -> Object:
    operations = ["CREATE", "UPDATE", "DELETE"]
    return {
        "apiGroups": groups,
        "apiVersions": ["*"],
        "operations": operations,
        "resources": resources,
        "scope": scope,
    }
