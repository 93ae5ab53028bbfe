"""The kinds of workloads."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from kaiwo.api.crds import KAIWO_CONFIG, KAIWO_JOB, KAIWO_SERVICE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaiwo.api.field import WorkloadKind
    from kaiwo.engine.resource import Resource

__all__ = ["KAIWO_CONFIG", "KAIWO_JOB", "KAIWO_SERVICE", "WORKLOADS"]

WORKLOADS: Final[Mapping[WorkloadKind, Resource]] = MappingProxyType(
    {"KaiwoJob": KAIWO_JOB, "KaiwoService": KAIWO_SERVICE}
)
