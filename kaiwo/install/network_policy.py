"""Renders NetworkPolicies for operator and scheduler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaiwo.api.config_names import SHARD_LABEL
from kaiwo.api.installation import NAME, OPERATOR, head
from kaiwo.install.rendered_manifest import RenderedManifest

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kaiwo.engine.resource import Object
    from kaiwo.install.monitoring_options import MonitoringOptions

API_SERVER_PORTS: Final = (443, 6443)
"""Where most API servers listen. A policy sees the port of the server, not that of its Service."""

_DNS: Final = 53  # some managed clusters name their API server by a host name


def network_policies(
    manifests: Iterable[RenderedManifest],
    installation: str,
    api_server_ports: Sequence[int],
    monitoring: MonitoringOptions | None = None,
) -> list[RenderedManifest]:
    """A NetworkPolicy for each Deployment: in to its ports, out to the API server and to DNS.

    From where metrics and webhooks are called, and the address of the API server, differ between clusters. So
    the policies limit ports and no addresses.

    Args:
        manifests: rendered objects; those that are no Deployment are passed over.
        installation: the namespace of the installation.
        api_server_ports: ports at which the API server's processes listen.
        monitoring: where the operator reads the use of GPUs; None for not at all.
    """
    found = []
    for deployment in (one.obj for one in manifests if one.obj["kind"] == "Deployment"):
        name, app = deployment["metadata"]["name"], deployment["metadata"]["labels"][NAME]
        containers = deployment["spec"]["template"]["spec"]["containers"]
        ports = [port["containerPort"] for container in containers for port in container["ports"]]
        policy = head(
            "networking.k8s.io/v1",
            "NetworkPolicy",
            name,
            app=app,
            installation=installation,
            namespace=installation,
        )
        marks = deployment["metadata"]["labels"]
        policy["metadata"]["labels"] |= {key: marks[key] for key in (SHARD_LABEL,) if key in marks}
        policy["spec"] = {
            "podSelector": deployment["spec"]["selector"],
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"ports": [_port(port) for port in ports]}],
            "egress": [
                {"ports": [_port(port) for port in api_server_ports]},
                {"ports": [_port(_DNS, "UDP"), _port(_DNS)]},
                *([{"ports": [_port(monitoring.port)]}] if monitoring and app == OPERATOR else []),
            ],
        }
        found.append(RenderedManifest(policy))
    return found


def _port(port: int, protocol: str = "TCP") -> Object:
    return {"port": port, "protocol": protocol}
