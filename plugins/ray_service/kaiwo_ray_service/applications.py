"""Reads what Ray Serve says of the applications and deployments of a RayService."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.plugin.kit.json_access import lenient_map, lenient_maps, lenient_text
from kaiwo.workload.observe.ray_messages import failure_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaiwo.plugin.kit.kinds import Object

_ACTIVE, _PENDING = "activeServiceStatus", "pendingServiceStatus"
_UNHEALTHY = ("UNHEALTHY", "DEPLOY_FAILED")
"""Statuses of Ray Serve of what does not work, an application and a deployment alike."""

_FREE = ", total resources available: "
"""What follows in the message of a deployment that waits for resources changes all the time."""


def applications(service: Object) -> Mapping[str, Object]:
    """Ray Serve's applications by name: of the cluster in service, before there is one of the coming one.

    KubeRay from 1.3 on has those of the coming one alone while there are both.
    """
    for part in (_ACTIVE, _PENDING):
        if found := _of(service, part):
            return found
    return {}


def unhealthy(service: Object) -> str:
    """What is wrong with the first application that does not work; empty while there is none."""
    for app, item in applications(service).items():
        if (status := item.get("status")) in _UNHEALTHY:
            texts = (failure_text(item.get("message")), *_deployments(item))
            why = "; ".join(text.rstrip(".") for text in texts if text)
            return f"application {app} is {status}{f': {why}' if why else ''}{_upgrade(service)}"
    return ""


def not_running(service: Object) -> str:
    """The applications and their statuses, with what deployments wait for; empty without any application."""
    return ", ".join(_progress(app, item) for app, item in applications(service).items())


def is_ready(service: Object) -> bool:
    """Whether Ray Serve answers requests."""
    apps = applications(service)
    return _serves(service) or (bool(apps) and all(item.get("status") == "RUNNING" for item in apps.values()))


def _of(service: Object, part: str) -> dict[str, Object]:
    status = lenient_map(lenient_map(service.get("status")).get(part))
    found = lenient_map(status.get("applicationStatuses"))
    return {app: lenient_map(item) for app, item in found.items()}


def _serves(service: Object) -> bool:
    conditions = lenient_maps(lenient_map(service.get("status")).get("conditions"))
    return any(item.get("type") == "Ready" and item.get("status") == "True" for item in conditions)


def _upgrade(service: Object) -> str:
    """Which cluster the applications are on, where another one serves; empty where there is one alone."""
    status = lenient_map(service.get("status"))
    clusters = [
        lenient_text(lenient_map(status.get(part)).get("rayClusterName")) for part in (_ACTIVE, _PENDING)
    ]
    if not all(clusters) or not _serves(service) or _of(service, _ACTIVE):
        return ""
    active, coming = clusters
    return f"; that is on the new RayCluster {coming}, RayCluster {active} serves on as before"


def _deployments(app: Object) -> list[str]:
    """Why deployments do not work: the message of their application often only names them."""
    found = lenient_map(app.get("serveDeploymentStatuses"))
    items = ((name, lenient_map(item)) for name, item in found.items())
    texts = [
        (name, failure_text(item.get("message"))) for name, item in items if item.get("status") in _UNHEALTHY
    ]
    return [f"deployment {name}: {text}" for name, text in texts if text]


def _progress(app: str, item: Object) -> str:
    status = item.get("status")
    found = lenient_map(item.get("serveDeploymentStatuses")) if status == "DEPLOYING" else {}
    texts = (failure_text(lenient_map(deployment).get("message")) for deployment in found.values())
    waits = "; ".join(text.partition(_FREE)[0] for text in texts if text)
    return f"{app} is {status or 'not deployed'}{f': {waits}' if waits else ''}"
