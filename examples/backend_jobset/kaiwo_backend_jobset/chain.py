"""The objects between a KaiwoJob with ``jobSet`` and its pods, as ``kaiwo why`` finds them."""

from __future__ import annotations

from kaiwo.plugin.diagnosis import ChainPart
from kaiwo.plugin.kit.kinds import JOB
from kaiwo_backend_jobset.plugin import JOB_SET

CHAIN = ChainPart(children={"jobset": (JOB_SET, JOB)})
