"""Where pods may run: the schedulers' rules for taints, tolerations and required node affinity."""

from __future__ import annotations

from kaiwo.workload.pods.scheduling import expression_matches, required_node_terms, tolerated

__all__ = ["expression_matches", "required_node_terms", "tolerated"]
