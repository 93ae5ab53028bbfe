"""The kinds the backend works with, and the names of its two forms."""

from __future__ import annotations

from kaiwo.plugin.kit.kinds import Resource

APP_WRAPPER = Resource("workload.codeflare.dev", "v1beta2", "AppWrapper", "appwrappers")
RAY_SERVICE = Resource("ray.io", "v1", "RayService", "rayservices")
RAY_CLUSTER = Resource("ray.io", "v1", "RayCluster", "rayclusters")

WRAPPED = "ray_service"
BARE = "ray_service_unwrapped"
"""Names of the two forms; a service stays in the one it was made in."""
