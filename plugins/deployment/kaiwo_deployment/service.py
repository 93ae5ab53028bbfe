"""The Service by which a Deployment's pods are reached."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.plugin.kit.json_access import lenient_maps
from kaiwo.plugin.kit.kinds import SERVICE
from kaiwo.plugin.kit.names import name_problem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaiwo.plugin.kit.kinds import Object, Resource
    from kaiwo.plugin.kit.workload import Workload

_LAST_PORT = 65535


def service(
    workload: Workload, container: Object, selector: Mapping[str, str]
) -> tuple[dict[Resource, Object], list[str]]:
    """The ClusterIP Service of a container's ports, and warnings; none without ports.

    Args:
        workload: the workload.
        container: the rendered primary container.
        selector: labels of the pods.
    """
    ports = [port for item in lenient_maps(container.get("ports")) if (port := _port(item)) is not None]
    if not ports:
        return {}, []
    if problem := name_problem(workload.name, pattern="dns1035"):
        return {}, [f"no Service is made for the declared ports: as the name of a Service {problem}"]
    metadata = {"name": workload.name}
    if workload.namespace:
        metadata["namespace"] = workload.namespace
    made: Object = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {"type": "ClusterIP", "selector": dict(selector), "ports": ports},
    }
    return {SERVICE: made}, []


def _port(item: Object) -> Object | None:
    """The port of the Service for one of the container; None where the API server refuses that anyway."""
    number, protocol = item.get("containerPort"), item.get("protocol", "TCP")
    if isinstance(number, bool) or not isinstance(number, int) or not 0 < number <= _LAST_PORT:
        return None
    name = item.get("name")
    suffix = "" if protocol == "TCP" else f"-{str(protocol).lower()}"
    return {
        "name": name if isinstance(name, str) and name else f"port-{number}{suffix}",
        "port": number,
        "targetPort": number,
        "protocol": protocol,
    }
