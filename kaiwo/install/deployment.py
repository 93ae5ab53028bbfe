"""The parts that the Deployments of operator and scheduler share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.install.rendered_manifest import RenderedManifest, head, labels

if TYPE_CHECKING:
    from kaiwo.engine.resource import Object

_NOBODY = 65532
"""User and group ``nonroot`` of distroless images; the number lets the kubelet verify that it is not root."""


def deployment(
    name: str,
    namespace: str,
    container: Object,
    *,
    volumes: list[Object] | None = None,
    annotations: dict[str, str] | None = None,
) -> RenderedManifest:
    """A Deployment that meets the pod security standard "restricted".

    The number of pods is left to the administrator, and is 1 until somebody scales it.

    Args:
        name: of Deployment and service account.
        namespace: of both.
        container: the only container, without its security context.
        volumes: of the pod.
        annotations: of the pod; a changed annotation replaces the pod.
    """
    secured = container | {
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        }
    }
    selected = {"app.kubernetes.io/name": name}
    pod: Object = {
        "serviceAccountName": name,
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
    obj = head("apps/v1", "Deployment", name, app=name, installation=namespace, namespace=namespace)
    metadata = {"labels": labels(name), **({"annotations": annotations} if annotations else {})}
    obj["spec"] = {
        "selector": {"matchLabels": selected},
        "template": {"metadata": metadata, "spec": pod},
    }
    return RenderedManifest(obj)


def probe(path: str, port: str, *, scheme: str = "HTTP", period: int) -> Object:
    """A probe every ``period`` seconds that fails after three requests without an answer within 5 s."""
    request = {"path": path, "port": port, "scheme": scheme}
    return {"httpGet": request, "periodSeconds": period, "timeoutSeconds": 5, "failureThreshold": 3}


def resources(cpu: str, memory: str, limit: str) -> Object:
    """Requests, and a limit of memory alone: a throttled process could lose its Lease."""
    return {"requests": {"cpu": cpu, "memory": memory}, "limits": {"memory": limit}}
