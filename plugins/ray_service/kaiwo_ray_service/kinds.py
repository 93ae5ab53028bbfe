"""The kinds the backend works with."""

from __future__ import annotations

from kaiwo.engine.resource import Resource

APP_WRAPPER = Resource("workload.codeflare.dev", "v1beta2", "AppWrapper", "appwrappers")
RAY_SERVICE = Resource("ray.io", "v1", "RayService", "rayservices")
