"""A contribution, a listener, a diagnosis rule and a lifecycle that share one section of KaiwoConfig."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.plugin import hookimpl
from kaiwo.plugin.diagnosis import DiagnosisRule
from kaiwo.plugin.lifecycle import Lifecycle, TransitionListener
from kaiwo.plugin.rendering import PodContribution

if TYPE_CHECKING:
    from kaiwo.plugin.kit.kinds import Object
    from kaiwo.plugin.observation import Finding, Observation
    from kaiwo.plugin.rendering import RenderInput

KAIWO_API = "1.0"


def contribute(inp: RenderInput, template: Object) -> Object:
    """Add the proxy; pydantic is imported here, so that importing this module stays quick."""
    from kaiwo_site_defaults import proxy

    return proxy.contribute(inp, template)


def diagnose(observation: Observation) -> Finding | None:
    """Look for restarts."""
    from kaiwo_site_defaults import restarts

    return restarts.diagnose(observation)


@hookimpl
def kaiwo_pod_contributions() -> list[PodContribution]:
    """HTTPS_PROXY in pods that are created from now on."""
    from kaiwo_site_defaults.settings import SiteSettings

    return [PodContribution(name="site_proxy", contribute=contribute, settings=SiteSettings)]


@hookimpl
def kaiwo_transitions() -> list[TransitionListener]:
    """Announcements in the operator's log."""
    from kaiwo_site_defaults.settings import SiteSettings

    notify = "kaiwo_site_defaults.announcer:notify"
    return [TransitionListener(name="site_announcer", notify=notify, settings=SiteSettings)]


@hookimpl
def kaiwo_diagnosis_rules() -> list[DiagnosisRule]:
    """Restarts as the reason of a workload."""
    from kaiwo_site_defaults.settings import SiteSettings

    return [DiagnosisRule(name="site_restarts", diagnose=diagnose, settings=SiteSettings)]


@hookimpl
def kaiwo_lifecycle() -> list[Lifecycle]:
    """What is announced, in the operator's log."""
    from kaiwo_site_defaults.settings import SiteSettings

    return [
        Lifecycle(
            name="site_announcer",
            start="kaiwo_site_defaults.announcer:start",
            settings_changed="kaiwo_site_defaults.announcer:settings_changed",
            settings=SiteSettings,
        )
    ]
