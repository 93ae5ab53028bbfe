"""The objects between a KaiwoJob and its pods, as ``kaiwo why`` finds them."""

from __future__ import annotations

from kaiwo.plugin.diagnosis import ChainPart
from kaiwo.plugin.kit.kinds import JOB

CHAIN = ChainPart(children={"batch_job": (JOB,)})
