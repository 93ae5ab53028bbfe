"""Whether the operator's metrics can be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.client.doctor.result import failed, not_allowed, ok, unknown
from kaiwo.engine.errors import EngineError, Forbidden
from kaiwo.engine.resource import DEPLOYMENT, POD
from kaiwo.workload.json_access import lenient_map, lenient_maps

if TYPE_CHECKING:
    from kaiwo.client.doctor.result import DoctorCheck, DoctorScope
    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Object

PORT = "metrics"
"""Name of the port of the operator's container."""

_FAMILY = "kaiwo_"
"""With which the names of the operator's metrics begin."""


async def check_metrics(api: Client, scope: DoctorScope) -> list[DoctorCheck]:
    """Read /metrics of a ready operator pod through the API server."""
    selector = f"app.kubernetes.io/name={scope.operator}"
    deployments = [obj async for obj in api.list(DEPLOYMENT, label_selector=selector)]
    if not deployments:
        return [unknown("metrics", "no Deployment of the operator, so no endpoint to read")]
    deployment = deployments[0]
    namespace = deployment["metadata"]["namespace"]
    pods = [obj async for obj in api.list(POD, namespace, label_selector=selector)]
    ready = next((pod for pod in pods if _is_ready(pod)), None)
    if ready is None:
        return [unknown("metrics", f"no ready pod of {namespace}/{deployment['metadata']['name']}")]
    name = ready["metadata"]["name"]
    path = f"/api/v1/namespaces/{namespace}/pods/{name}:{metrics_port(deployment)}/proxy/metrics"
    try:
        text = await api.get_text(path)
    except Forbidden as error:
        return [unknown("metrics", not_allowed(error))]
    except EngineError as error:
        text = f"error: {error}"
    return [judge_metrics(text, namespace, name)]


def metrics_port(deployment: Object) -> int:
    """The port of the operator's metrics."""
    template = lenient_map(lenient_map(deployment.get("spec")).get("template"))
    for container in lenient_maps(lenient_map(template.get("spec")).get("containers")):
        for port in lenient_maps(container.get("ports")):
            if port.get("name") == PORT and isinstance(port.get("containerPort"), int):
                return int(port["containerPort"])
    return 8080


def judge_metrics(text: str, namespace: str, pod: str) -> DoctorCheck:
    """Whether an answer of /metrics has the operator's metrics."""
    families = {line.split()[2] for line in text.splitlines() if line.startswith(f"# TYPE {_FAMILY}")}
    if families:
        return ok("metrics", f"{namespace}/{pod} exports {len(families)} metrics of Kaiwo")
    return failed(
        "metrics",
        f"{namespace}/{pod}: no metrics of Kaiwo: {text.splitlines()[0] if text else 'empty answer'}",
        f"kubectl -n {namespace} logs {pod}",
    )


def _is_ready(pod: Object) -> bool:
    conditions = lenient_maps(lenient_map(pod.get("status")).get("conditions"))
    return any(item.get("type") == "Ready" and item.get("status") == "True" for item in conditions)
