"""Settings of the plugin, ``spec.plugins.kueue`` in KaiwoConfig."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from kaiwo.api.base_model import Model
from kaiwo_kueue.topology import TopologyRule


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

    topology_rules: Annotated[
        tuple[TopologyRule, ...],
        Field(
            strict=False,
            max_length=16,
            description="Rules that tell a node's block and rack from its name or from another label. What "
            "they give is written as labels kaiwo/topology-block and kaiwo/topology-rack; of each level the "
            "first rule counts that gives a value.",
        ),
    ] = ()

    integrations: Annotated[
        tuple[str, ...] | None,
        Field(
            strict=False,
            max_length=64,
            description="Kinds that this cluster's Kueue queues by itself, as its own configuration lists "
            "them (integrations.frameworks, for example ray.io/rayservice; Kueue 0.17 and later). What is "
            "not named here is wrapped where that is possible.",
        ),
    ] = None
