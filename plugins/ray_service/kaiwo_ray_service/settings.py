"""Settings of the plugin, ``spec.plugins.ray_service`` in KaiwoConfig."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from kaiwo.plugin.kit.fields import Model

Wrap: TypeAlias = Literal["always", "auto", "never"]


class RayServiceSettings(Model):
    """How services on Ray are created."""

    wrap: Annotated[
        Wrap,
        Field(
            description="Whether a RayService is put into an AppWrapper so that it can be queued: always, "
            "auto (only where Kueue itself cannot queue RayServices; from 0.17 it can), or never."
        ),
    ] = "always"
