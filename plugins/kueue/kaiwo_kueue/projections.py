"""What is kept in memory of objects that come by the thousand."""

from __future__ import annotations

from kaiwo.engine.cached_object import Projection

WORKLOAD_PROJECTION = Projection(
    keep=(
        ("spec", "queueName"),
        ("spec", "podSets", "*", "template", "spec", "containers", "*", "resources"),
        ("spec", "podSets", "*", "template", "spec", "initContainers", "*", "resources"),
        ("status", "conditions"),
        ("status", "admissionChecks"),
        ("status", "admission", "clusterQueue"),
    )
)
"""Of a Workload: where it stands, and what it asks for."""

NAMESPACE_PROJECTION = Projection(keep=(("metadata",),))
