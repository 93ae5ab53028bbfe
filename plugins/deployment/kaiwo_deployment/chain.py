"""The objects between a KaiwoService and its pods, as ``kaiwo why`` finds them."""

from __future__ import annotations

from kaiwo.plugin.diagnosis import ChainPart
from kaiwo.plugin.kit.kinds import DEPLOYMENT
from kaiwo_deployment.kinds import REPLICA_SET

CHAIN = ChainPart(children={"deployment": (DEPLOYMENT, REPLICA_SET)})
