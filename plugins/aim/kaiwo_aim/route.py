"""The HTTPRoute of a KaiwoService."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaiwo.plugin.kit.json_access import lenient_map, lenient_maps
from kaiwo_aim.kinds import HTTP_ROUTE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kaiwo.plugin.kit.kinds import Object
    from kaiwo.plugin.kit.workload import Workload
    from kaiwo_aim.defaults import Gateway

SERVE: Final = "-serve-svc"
"""What KubeRay appends to the name of a RayService for the Service of its application."""

_KUBERAY_NAME = 50
"""Longest name of a Service that KubeRay makes; a longer one loses its beginning."""


def service_names(workload: str) -> tuple[str, str]:
    """Names of the Services by which a KaiwoService may be reached: that of a Deployment, that of Ray."""
    return workload, f"{workload}{SERVE}"[-_KUBERAY_NAME:].lstrip("-.")


def served_by(service: str, workloads: Callable[[], Iterable[str]]) -> set[str]:
    """Names of the KaiwoServices that a Service may belong to, by its name.

    Args:
        service: name of the Service.
        workloads: returns the names of the KaiwoServices of its namespace; called where the name of the
            Service may have lost the beginning of that of its KaiwoService.
    """
    found = {service, service.removesuffix(SERVE)}
    if service.endswith(SERVE) and len(service) > _KUBERAY_NAME // 2:
        found |= {name for name in workloads() if service in service_names(name)}
    return found


def port_of(service: Object) -> int | None:
    """The port of a Service that serves HTTP: one that is called so, else the first; None without TCP."""
    ports = [
        port
        for port in lenient_maps(lenient_map(service.get("spec")).get("ports"))
        if port.get("protocol", "TCP") == "TCP" and isinstance(port.get("port"), int)
    ]
    named = [port for port in ports if str(port.get("name") or "").startswith(("http", "serve"))]
    return next((int(port["port"]) for port in (*named, *ports)), None)


def route(workload: Workload, gateway: Gateway, service: str, port: int) -> Object:
    """The HTTPRoute. The program sees the path without ``/<namespace>/<name>``.

    Args:
        workload: the KaiwoService.
        gateway: where it is attached.
        service: name of the Service that gets the requests.
        port: its port.
    """
    from kaiwo.plugin.kit.render import owned

    path = f"/{workload.namespace}/{workload.name}/"
    rewrite = {"path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/"}}
    return {
        "apiVersion": HTTP_ROUTE.api_version,
        "kind": HTTP_ROUTE.kind,
        "metadata": owned({"name": workload.name}, workload),
        "spec": {
            "parentRefs": [
                {
                    "group": HTTP_ROUTE.group,
                    "kind": "Gateway",
                    "name": gateway.name,
                    "namespace": gateway.namespace,
                }
            ],
            "rules": [
                {
                    "matches": [{"path": {"type": "PathPrefix", "value": path}}],
                    "filters": [{"type": "URLRewrite", "urlRewrite": rewrite}],
                    "backendRefs": [
                        {"group": "", "kind": "Service", "name": service, "port": port, "weight": 1}
                    ],
                }
            ],
        },
    }


def not_accepted(live: Object, gateway: Gateway) -> str:
    """Why a Gateway does not take a route; empty while it does or says nothing.

    What another Gateway said stays in the status when the route is attached to this one.
    """
    for parent in lenient_maps(lenient_map(live.get("status")).get("parents")):
        of = lenient_map(parent.get("parentRef"))
        own = lenient_map(live.get("metadata")).get("namespace")
        if (of.get("name"), of.get("namespace") or own) != (gateway.name, gateway.namespace):
            continue
        for condition in lenient_maps(parent.get("conditions")):
            if condition.get("type") in ("Accepted", "ResolvedRefs") and condition.get("status") == "False":
                return f"{condition.get('reason')}: {condition.get('message')}"
    return ""
