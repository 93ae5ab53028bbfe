"""The contribution: a proxy for every container that has none of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kaiwo_site_defaults.settings import SiteSettings

if TYPE_CHECKING:
    from kaiwo.plugin.rendering import RenderInput

NAME = "HTTPS_PROXY"


def contribute(inp: RenderInput, template: dict[str, Any]) -> dict[str, Any]:
    """The template with the proxy of the settings with which the workload's child was created."""
    if not isinstance(inp.settings, SiteSettings) or not inp.settings.https_proxy:
        return template
    proxy = {"name": NAME, "value": inp.settings.https_proxy}
    containers = [_with(container, proxy) for container in template["spec"]["containers"]]
    return {**template, "spec": {**template["spec"], "containers": containers}}


def _with(container: dict[str, Any], proxy: dict[str, Any]) -> dict[str, Any]:
    env = container.get("env") or []
    if any(item.get("name") == NAME for item in env):
        return container
    return {**container, "env": [*env, proxy]}
