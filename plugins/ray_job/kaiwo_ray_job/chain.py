"""The objects between a KaiwoJob on Ray and its pods, as ``kaiwo why`` finds them."""

from __future__ import annotations

from kaiwo.plugin.diagnosis import ChainPart
from kaiwo_ray_job.kinds import RAY_CLUSTER, RAY_JOB

CHAIN = ChainPart(children={"ray_job": (RAY_JOB, RAY_CLUSTER)})
