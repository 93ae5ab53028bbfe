"""Resource monitoring of an installation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kaiwo.engine.resource import Object

INTERVAL: Final = "30s"

PORT: Final = 9090
"""Where Prometheus listens."""


@dataclass(frozen=True, slots=True)
class MonitoringOptions:
    """Where the operator reads the use of GPUs.

    Attributes:
        endpoint: URL of Prometheus text or of a Prometheus server.
        interval: how often it is read, a duration.
        port: where its processes listen, for NetworkPolicies.
        token_file: file of the container with a bearer token; empty for none.
        ca_file: file of the container with CA certificates; empty for the system's.
    """

    endpoint: str
    interval: str = INTERVAL
    port: int = PORT
    token_file: str = ""
    ca_file: str = ""


def monitoring_variables(options: MonitoringOptions) -> list[Object]:
    """The environment variables of the operator."""
    found = {
        "RESOURCE_MONITORING_ENABLED": "true",
        "RESOURCE_MONITORING_METRICS_ENDPOINT": options.endpoint,
        "RESOURCE_MONITORING_POLLING_INTERVAL": options.interval,
        "RESOURCE_MONITORING_TOKEN_FILE": options.token_file,
        "RESOURCE_MONITORING_CA_FILE": options.ca_file,
    }
    return [{"name": name, "value": value} for name, value in found.items() if value]
