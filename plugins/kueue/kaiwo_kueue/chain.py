"""The part of Kueue in the chain of a workload, as ``kaiwo why`` finds it."""

from __future__ import annotations

from kaiwo.plugin.diagnosis import ChainPart, QueueExplainer
from kaiwo_kueue import kinds
from kaiwo_kueue.admission import admission
from kaiwo_kueue.explanation import explain, owned_by

CHAIN = ChainPart(
    queue=QueueExplainer(
        explain=explain,
        admission=admission,
        reads=(
            kinds.WORKLOAD,
            kinds.LOCAL_QUEUE,
            kinds.CLUSTER_QUEUE,
            kinds.RESOURCE_FLAVOR,
            kinds.COHORT,
        ),
        owned=(kinds.WORKLOAD,),
        owned_by=owned_by,
    )
)
