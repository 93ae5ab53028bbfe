"""The diagnosis rule: containers that restart too often."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.plugin.kit import pod_status
from kaiwo.plugin.observation import Finding
from kaiwo_site_defaults.settings import SiteSettings

if TYPE_CHECKING:
    from kaiwo.plugin.observation import Observation


def diagnose(observation: Observation) -> Finding | None:
    """The first container with at least as many restarts as the settings of this moment name."""
    if not isinstance(observation.settings, SiteSettings):
        return None
    for pod in observation.pods:
        for container in pod_status.containers(pod):
            count = container.get("restartCount")
            if isinstance(count, int) and count >= observation.settings.restart_limit:
                text = f"a container of pod {pod_status.pod_name(pod)} restarted {count} times"
                return Finding("RestartsTooOften", text)
    return None
