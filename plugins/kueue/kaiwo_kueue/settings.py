"""Settings of the plugin, ``spec.plugins.kueue`` in KaiwoConfig."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from kaiwo.api.base import Model


class KueueSettings(Model):
    """How Kueue is used."""

    label_namespaces: Annotated[
        bool,
        Field(
            description="Whether a namespace is labelled kueue-managed=true when the first workload in it "
            "names a queue. Kueue's usual installation ignores namespaces without that label. It is "
            "never taken back."
        ),
    ] = True
