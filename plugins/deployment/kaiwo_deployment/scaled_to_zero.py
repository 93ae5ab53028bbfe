"""Who scaled a Deployment to zero: its workload, an autoscaler, or somebody by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.plugin.kit.names import MANAGER
from kaiwo.plugin.observation import Outcome

if TYPE_CHECKING:
    from kaiwo.plugin.observation import Observation

REPLICAS = ("spec", "replicas")
"""The field whose owner decides how many pods there are."""

_AUTOSCALERS = {
    "kube-controller-manager": "a HorizontalPodAutoscaler",
    "keda": "KEDA, for a ScaledObject",
    "keda-operator": "KEDA, for a ScaledObject",
}
"""Field managers that are autoscalers, and what makes them scale."""


def scaled_to_zero(seen: Observation, name: str) -> Outcome:
    """The outcome of a Deployment whose ``spec.replicas`` is 0.

    Args:
        seen: what is known of it.
        name: its name.
    """
    owner = seen.owners.get(REPLICAS, MANAGER)
    if owner == MANAGER:
        how = f"Deployment {name} is scaled to zero; set spec.replicas to start it"
    elif who := _AUTOSCALERS.get(owner):
        how = (
            f"Deployment {name} was scaled to zero by {who} (field manager {owner}), which decides when it "
            f"starts again; spec.replicas, {seen.workload.spec.replicas}, is not used"
        )
    else:
        how = (
            f"Deployment {name} was scaled to zero by {owner}; spec.replicas, {seen.workload.spec.replicas}, "
            "is not used: where no autoscaler starts it again, scale the Deployment itself"
        )
    return Outcome("PENDING", "ScaledToZero", how)
