"""Settings of the plugin, ``spec.plugins.node_pools`` in KaiwoConfig."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from kaiwo.plugin.kit.fields import Model
from kaiwo_node_pools.topology import TopologyRule


class NodePoolsSettings(Model):
    """How nodes are labelled."""

    topology_rules: Annotated[
        tuple[TopologyRule, ...],
        Field(
            strict=False,
            max_length=16,
            description="Rules that read a node's block and rack from its name or from another label. The "
            "values are written as labels kaiwo/topology-block and kaiwo/topology-rack; for each level the "
            "first rule that gives a value counts.",
        ),
    ] = ()
