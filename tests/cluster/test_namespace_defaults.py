"""Defaults of a namespace in a running operator: who gets them, when a change counts, routes to services."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.api.crds import KAIWO_SERVICE
from kaiwo.engine.resource import CONFIG_MAP, CUSTOM_RESOURCE_DEFINITION, JOB, SERVICE
from kaiwo.testing.operator import until
from kaiwo_aim.kinds import HTTP_ROUTE, NAMESPACE_CONFIG

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from kaiwo.engine.resource import Object
    from kaiwo.testing.operator import OperatorProcess

    Start = Callable[..., Awaitable[OperatorProcess]]

pytestmark = pytest.mark.cluster

CRD = f"{HTTP_ROUTE.plural}.{HTTP_ROUTE.group}"
AWS = "https://s3.us-east-1.amazonaws.com"
BUCKETS = [{"name": "models", "folders": [{"path": ".", "targetPath": "m"}]}]
HOLD = {"kaiwo-sandbox/hold": "true"}
STORAGE = {
    "storageEnabled": True,
    "data": {"storageSize": "1Gi", "download": {"s3": [{"endpointUrl": f"{AWS}/", "buckets": BUCKETS}]}},
    "huggingFace": {"storageSize": "1Gi", "preCacheRepos": [{"repoId": "org/model"}]},
}


def spec(secret: str, **more: Any) -> Object:
    """Defaults that name one Secret for everything."""
    keys = {name: {"secretName": secret, "secretKey": name} for name in ("accessKeyId", "secretAccessKey")}
    return {
        "credentials": {
            "huggingFaceToken": {"secretName": secret, "secretKey": "token"},
            "s3": [{"endpointUrl": AWS, **keys}],
        },
        "images": {"imagePullSecrets": [secret]},
        **more,
    }


async def apply(lab: Any, name: str, wanted: Object) -> None:
    """Create or change an AIMNamespaceConfig."""
    obj = {
        "apiVersion": NAMESPACE_CONFIG.api_version, "kind": NAMESPACE_CONFIG.kind,
        "metadata": {"name": name, "namespace": lab.namespace}, "spec": wanted,
    }  # fmt: skip
    await lab.client.apply(NAMESPACE_CONFIG, obj, field_manager="test")


def says(kind: str, status: str, reason: str) -> Callable[[Object | None], bool]:
    """Whether an object has a condition."""

    def there(obj: Object | None) -> bool:
        conditions = ((obj or {}).get("status") or {}).get("conditions") or []
        return any((c["type"], c["status"], c["reason"]) == (kind, status, reason) for c in conditions)

    return there


def takes(secret: str) -> Callable[[Object | None], bool]:
    """Whether a download Job takes the token, keys and pull secret of a Secret."""

    def there(obj: Object | None) -> bool:
        if obj is None or obj["metadata"].get("deletionTimestamp"):
            return False
        pod = obj["spec"]["template"]["spec"]
        env = {item["name"]: item.get("valueFrom") for item in pod["containers"][0]["env"]}
        mounted = {volume["secret"]["secretName"] for volume in pod["volumes"] if "secret" in volume}
        token = ((env.get("HF_TOKEN") or {}).get("secretKeyRef") or {}).get("name")
        return (token, mounted, pod.get("imagePullSecrets")) == (secret, {secret}, [{"name": secret}])

    return there


async def test_a_change_reaches_what_has_not_started(operator: Start, lab: Any) -> None:
    """The waiting download follows a change and the deletion of defaults, the running Job keeps its own."""
    await apply(lab, "first", spec("one"))
    await operator()
    await lab.submit("runs", pods=HOLD)
    running = await until(lab.client, JOB, lab.namespace, "runs", lambda obj: obj is not None)
    assert running["spec"]["template"]["spec"]["imagePullSecrets"] == [{"name": "one"}]
    await lab.submit("waits", storage=STORAGE, pods=HOLD)
    await until(lab.client, JOB, lab.namespace, "waits-download", takes("one"), timeout=90)
    await apply(lab, "default", spec("two"))
    await until(lab.client, JOB, lab.namespace, "waits-download", takes("two"), timeout=90)
    config = await lab.client.get(CONFIG_MAP, lab.namespace, "waits-download")
    assert '"two"' in config["data"]["config.yaml"]
    there = says("InUse", "False", "AnotherInUse")
    await until(lab.client, NAMESPACE_CONFIG, lab.namespace, "first", there, timeout=60)
    await lab.client.delete(NAMESPACE_CONFIG, lab.namespace, "default")
    await until(lab.client, JOB, lab.namespace, "waits-download", takes("one"), timeout=90)
    there = says("InUse", "True", "InUse")
    await until(lab.client, NAMESPACE_CONFIG, lab.namespace, "first", there, timeout=60)
    kept = await lab.client.get(JOB, lab.namespace, "runs")
    assert kept["metadata"]["uid"] == running["metadata"]["uid"]
    assert kept["spec"]["template"]["spec"]["imagePullSecrets"] == [{"name": "one"}]


async def test_a_malformed_default_stops_who_needs_it_until_it_is_gone(operator: Start, lab: Any) -> None:
    """The API server takes half a pair of keys; the condition and the workload name the other half."""
    broken = spec("one")
    del broken["credentials"]["s3"][0]["secretAccessKey"]
    await apply(lab, "default", broken)
    await operator()
    await lab.submit("needs", storage=STORAGE)
    status = await lab.reaches("needs", "ERROR", reason="InvalidNamespaceDefaults")
    assert "spec.credentials.s3[0].secretAccessKey" in status["message"]
    there = says("Valid", "False", "InvalidSpec")
    await until(lab.client, NAMESPACE_CONFIG, lab.namespace, "default", there, timeout=60)
    await lab.client.delete(NAMESPACE_CONFIG, lab.namespace, "default")
    await lab.reaches("needs", "PENDING", reason="Downloading")


@pytest.fixture
async def no_gateway_api(lab: Any) -> AsyncIterator[None]:
    """A cluster without HTTPRoutes, before and after the test."""
    yield
    await lab.client.delete(CUSTOM_RESOURCE_DEFINITION, None, CRD)


def gateway_crd() -> Object:
    """HTTPRoute, as far as the operator writes it."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": anything, "status": anything}}
    names = {"kind": HTTP_ROUTE.kind, "plural": HTTP_ROUTE.plural, "singular": "httproute"}
    version = {
        "name": "v1", "served": True, "storage": True,
        "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}},
    }  # fmt: skip
    approved = {"api-approved.kubernetes.io": "unapproved, for a test"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": CRD, "annotations": approved},
        "spec": {
            "group": HTTP_ROUTE.group, "names": names | {"listKind": "HTTPRouteList"},
            "scope": "Namespaced", "versions": [version],
        },
    }  # fmt: skip


async def test_a_service_gets_a_route_once_the_gateway_api_is_there(
    operator: Start, lab: Any, control_plane: Any, apply_crd: Any, no_gateway_api: None
) -> None:
    """Before that a condition says so; without the Gateway in the defaults the route goes again."""
    del no_gateway_api
    await apply(lab, "default", {"gateway": {"name": "shared", "namespace": "gateways"}})
    await operator()
    there = says("RoutesReady", "False", "GatewayApiNotInstalled")
    await until(lab.client, NAMESPACE_CONFIG, lab.namespace, "default", there, timeout=60)
    container = {"name": "main", "image": "i", "ports": [{"containerPort": 8000}]}
    await lab.client.create(
        KAIWO_SERVICE,
        {
            "apiVersion": KAIWO_SERVICE.api_version, "kind": "KaiwoService",
            "metadata": {"name": "chat", "namespace": lab.namespace, "annotations": HOLD},
            "spec": {"deployment": {"spec": {"template": {"spec": {"containers": [container]}}}}},
        },
    )  # fmt: skip
    await until(lab.client, SERVICE, lab.namespace, "chat", lambda obj: obj is not None, timeout=60)
    await asyncio.to_thread(apply_crd, control_plane, gateway_crd())
    route = await until(
        lab.client, HTTP_ROUTE, lab.namespace, "chat", lambda obj: obj is not None, timeout=90
    )
    assert route["metadata"]["ownerReferences"][0]["name"] == "chat"
    [rule] = route["spec"]["rules"]
    assert rule["matches"][0]["path"]["value"] == f"/{lab.namespace}/chat/"
    assert (rule["backendRefs"][0]["name"], rule["backendRefs"][0]["port"]) == ("chat", 8000)
    there = says("RoutesReady", "True", "RoutesWritten")
    await until(lab.client, NAMESPACE_CONFIG, lab.namespace, "default", there, timeout=60)
    await apply(lab, "default", {})
    await until(lab.client, HTTP_ROUTE, lab.namespace, "chat", lambda obj: obj is None, timeout=60)
