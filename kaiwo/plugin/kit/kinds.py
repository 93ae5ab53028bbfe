"""Kinds of Kubernetes objects: their type, and those that plugins name most."""

from kaiwo.engine.resource import (
    CONFIG_MAP,
    CUSTOM_RESOURCE_DEFINITION,
    DEPLOYMENT,
    JOB,
    NAMESPACE,
    NODE,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    SECRET,
    SERVICE,
    Object,
    Resource,
)

__all__ = [
    "CONFIG_MAP",
    "CUSTOM_RESOURCE_DEFINITION",
    "DEPLOYMENT",
    "JOB",
    "NAMESPACE",
    "NODE",
    "PERSISTENT_VOLUME_CLAIM",
    "POD",
    "SECRET",
    "SERVICE",
    "Object",
    "Resource",
]
