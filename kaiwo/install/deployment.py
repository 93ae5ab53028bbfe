"""The parts that the Deployments of operator and scheduler share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaiwo.api.config_names import SHARD_LABEL
from kaiwo.api.installation import head, labels
from kaiwo.install.rendered_manifest import RenderedManifest

if TYPE_CHECKING:
    from kaiwo.engine.resource import Object

PRIORITY_CLASS: Final = "system-cluster-critical"
"""Priority class that Kubernetes has for what a cluster needs; such pods are not evicted for workloads."""

_NOBODY = 65532
"""User and group ``nonroot`` of distroless images; the number lets the kubelet verify that it is not root."""


def deployment(
    name: str,
    namespace: str,
    container: Object,
    *,
    replicas: int,
    volumes: list[Object] | None = None,
    annotations: dict[str, str] | None = None,
    shard: str = "",
) -> list[RenderedManifest]:
    """A Deployment that meets the pod security standard "restricted", and its PodDisruptionBudget.

    Pods are kept on different nodes and in different zones, where there are several. A drain of nodes leaves
    one of them running.

    Args:
        name: of Deployment, where it has no shard, and of the service account.
        namespace: of both.
        container: the only container, without its security context.
        replicas: number of pods; one of them leads.
        volumes: of the pod.
        annotations: of the pod; a changed annotation replaces the pod.
        shard: makes a second Deployment of the same program, which no Service of the first one selects.
    """
    secured = container | {
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        }
    }
    full, marks = (f"{name}-{shard}", {SHARD_LABEL: shard}) if shard else (name, {})
    selected = {"app.kubernetes.io/name": full}
    pod: Object = {
        "serviceAccountName": name,
        "priorityClassName": PRIORITY_CLASS,
        "affinity": {
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    _apart(selected, "kubernetes.io/hostname", 100),
                    _apart(selected, "topology.kubernetes.io/zone", 50),
                ]
            }
        },
        "automountServiceAccountToken": True,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _NOBODY,
            "runAsGroup": _NOBODY,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [secured],
    }
    if volumes:
        pod["volumes"] = volumes
    obj = head("apps/v1", "Deployment", full, app=name, installation=namespace, namespace=namespace)
    obj["metadata"]["labels"] |= marks
    metadata = {"labels": {**labels(full), **marks}, **({"annotations": annotations} if annotations else {})}
    obj["spec"] = {
        "replicas": replicas,
        "selector": {"matchLabels": selected},
        "template": {"metadata": metadata, "spec": pod},
    }
    budget = head(
        "policy/v1", "PodDisruptionBudget", full, app=name, installation=namespace, namespace=namespace
    )
    budget["metadata"]["labels"] |= marks
    # Not minAvailable, which would hold up every drain where there is one pod.
    budget["spec"] = {"maxUnavailable": 1, "selector": {"matchLabels": selected}}
    return [RenderedManifest(budget), RenderedManifest(obj)]


def _apart(selected: dict[str, str], topology: str, weight: int) -> Object:
    """The wish that no two of some pods are on nodes with the same value of a label."""
    term = {"labelSelector": {"matchLabels": selected}, "topologyKey": topology}
    return {"weight": weight, "podAffinityTerm": term}


def probe(path: str, port: str, *, scheme: str = "HTTP", period: int) -> Object:
    """A probe every ``period`` seconds that fails after three requests without an answer within 5 s."""
    request = {"path": path, "port": port, "scheme": scheme}
    return {"httpGet": request, "periodSeconds": period, "timeoutSeconds": 5, "failureThreshold": 3}


def resources(cpu: str, memory: str, limit: str) -> Object:
    """Requests, and a limit of memory alone: a throttled process could lose its Lease."""
    return {"requests": {"cpu": cpu, "memory": memory}, "limits": {"memory": limit}}
