"""The kinds the operator itself reads and writes."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from kaiwo.api import kaiwoconfig, workload
from kaiwo.engine.resource import Resource

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaiwo.api.field import WorkloadKind

KAIWO_JOB = Resource(workload.GROUP, "v1alpha1", "KaiwoJob", "kaiwojobs")
KAIWO_SERVICE = Resource(workload.GROUP, "v1alpha1", "KaiwoService", "kaiwoservices")
KAIWO_CONFIG = Resource(kaiwoconfig.GROUP, "v1alpha1", "KaiwoConfig", "kaiwoconfigs", namespaced=False)

WORKLOADS: Final[Mapping[WorkloadKind, Resource]] = MappingProxyType(
    {"KaiwoJob": KAIWO_JOB, "KaiwoService": KAIWO_SERVICE}
)
