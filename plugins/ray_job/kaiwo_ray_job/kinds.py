"""KubeRay's kinds that a KaiwoJob on Ray consists of."""

from __future__ import annotations

from typing import Final

from kaiwo.plugin.kit.kinds import Resource

RAY_JOB: Final = Resource("ray.io", "v1", "RayJob", "rayjobs")
RAY_CLUSTER: Final = Resource("ray.io", "v1", "RayCluster", "rayclusters")
