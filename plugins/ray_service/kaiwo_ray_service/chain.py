"""The objects between a KaiwoService on Ray and its pods, as ``kaiwo why`` finds them."""

from __future__ import annotations

from kaiwo.plugin.diagnosis import ChainPart
from kaiwo_ray_service.kinds import APP_WRAPPER, BARE, RAY_CLUSTER, RAY_SERVICE, WRAPPED

CHAIN = ChainPart(
    children={WRAPPED: (APP_WRAPPER, RAY_SERVICE, RAY_CLUSTER), BARE: (RAY_SERVICE, RAY_CLUSTER)}
)
