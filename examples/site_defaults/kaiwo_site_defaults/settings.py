"""The settings of the plugin: ``spec.plugins.site_defaults`` of KaiwoConfig."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from kaiwo.plugin.kit.fields import Model

Announced = Literal["STARTING", "RUNNING", "READY", "COMPLETE", "FAILED", "DEGRADED"]


class SiteSettings(Model):
    """What the site adds to its workloads."""

    https_proxy: str = Field("", description="Value of HTTPS_PROXY in every container; empty for none.")
    announce: list[Announced] = Field(
        ["FAILED"], description="Status words that the operator's log announces, with the workload."
    )
    restart_limit: Annotated[int, Field(ge=1)] = Field(
        5, description="Restarts of one container from which on its workload is said to restart too often."
    )
