"""Process settings that cannot be used together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping


def settings_conflicts(values: Mapping[str, Any]) -> list[str]:
    """What is wrong with settings beside each other, one line each.

    Args:
        values: settings that were given, by their name in :class:`kaiwo.host.settings.Settings`.
    """
    return [*_of_endpoint(values), *_without_webhooks(values), *_against_shards(values)]


def _of_endpoint(values: Mapping[str, Any]) -> list[str]:
    """What is set for the metrics endpoint and does not go with its URL."""
    text = values.get("resource_monitoring_metrics_endpoint", "")
    endpoint = urlsplit(text)
    found = []
    if values.get("resource_monitoring_enabled") and not text:
        found.append(
            "RESOURCE_MONITORING_ENABLED is true and RESOURCE_MONITORING_METRICS_ENDPOINT is not set: "
            "set the metrics endpoint, or turn monitoring off"
        )
    for name, variable in (("token", "TOKEN_FILE"), ("ca", "CA_FILE")):
        if values.get(f"resource_monitoring_{name}_file") and endpoint.scheme != "https":
            found.append(
                f"RESOURCE_MONITORING_{variable} is set and RESOURCE_MONITORING_METRICS_ENDPOINT is not "
                "an https:// URL: write https, or leave the file out"
            )
    if values.get("resource_monitoring_token_file") and "@" in endpoint.netloc:
        found.append(
            "RESOURCE_MONITORING_TOKEN_FILE is set and RESOURCE_MONITORING_METRICS_ENDPOINT has a user: "
            "leave one of them out"
        )
    return found


def _without_webhooks(values: Mapping[str, Any]) -> list[str]:
    """What is set and would be without effect, because no webhooks are served."""
    if values.get("webhooks"):
        return []
    enforced = values.get("enforce_kaiwo_on_gpu_workloads")
    identity = values.get("identity", "off")
    found = ["ENFORCE_KAIWO_ON_GPU_WORKLOADS is true"] if enforced else []
    found += [f"KAIWO_IDENTITY is {identity}"] if identity != "off" else []
    return [f"{text} and KAIWO_WEBHOOKS is not true: turn the webhooks on" for text in found]


def _against_shards(values: Mapping[str, Any]) -> list[str]:
    """What is set and cannot be with a shard."""
    if not values.get("shard"):
        return []
    text = f"KAIWO_SHARD is {values['shard']}"
    found = []
    if values.get("watch_namespace"):
        found.append(f"{text} and KAIWO_WATCH_NAMESPACE is set: leave one of them out")
    if values.get("leader_election") is False:
        found.append(
            f"{text} and KAIWO_LEADER_ELECTION is false: shards hand namespaces over by their Leases"
        )
    return found
