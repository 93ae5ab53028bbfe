"""The kind between a Deployment and its pods."""

from __future__ import annotations

from typing import Final

from kaiwo.plugin.kit.kinds import Resource

REPLICA_SET: Final = Resource("apps", "v1", "ReplicaSet", "replicasets")
