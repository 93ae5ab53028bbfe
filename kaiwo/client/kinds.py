"""The workload kinds as the command line calls them."""

from __future__ import annotations

from kaiwo.engine.resource import Resource

GROUP = "kaiwo.silogen.ai"
VERSION = "v1alpha1"

KAIWO_JOB = Resource(GROUP, VERSION, "KaiwoJob", "kaiwojobs")
KAIWO_SERVICE = Resource(GROUP, VERSION, "KaiwoService", "kaiwoservices")
KAIWO_CONFIG = Resource(f"config.{GROUP}", VERSION, "KaiwoConfig", "kaiwoconfigs", namespaced=False)

WORKLOADS = (KAIWO_JOB, KAIWO_SERVICE)
BY_KIND = {resource.kind: resource for resource in WORKLOADS}


def _names(resource: Resource, *short: str) -> dict[str, Resource]:
    kind = resource.kind.lower()
    full = (f"{kind}.{resource.group}", f"{resource.plural}.{resource.group}")
    return dict.fromkeys((*short, kind, resource.plural, *full), resource)


KIND_NAMES = _names(KAIWO_JOB, "job", "jobs", "kj") | _names(KAIWO_SERVICE, "service", "services", "ks")
"""What people write for a kind: also kubectl's short and full names."""

SHORT = {"KaiwoJob": "job", "KaiwoService": "service"}
