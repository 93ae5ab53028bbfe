"""The objects between a KaiwoJob and its pods, as ``kaiwo why`` finds them."""

from __future__ import annotations

from kaiwo.engine.resource import JOB
from kaiwo.plugin.diagnosis import ChainPart

CHAIN = ChainPart(children={"batch_job": (JOB,)})
