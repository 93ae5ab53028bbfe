"""Metrics about quotas and nodes that do not fit each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import Gauge

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from prometheus_client import CollectorRegistry

    from kaiwo_kueue.objects import SyncProblem


class CapacityGauges:
    """Gauges that follow the last reconciliation of the KaiwoQueueConfig."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register the gauges.

        Args:
            registry: of the operator.
        """
        self._outside = Gauge(
            "kaiwo_gpus_outside_queues",
            "GPUs of nodes that no flavor of any queue selects.",
            registry=registry,
        )
        self._quotas = Gauge(
            "kaiwo_quotas_beyond_capacity", "Quotas that the nodes cannot serve.", registry=registry
        )

    def show(self, outside: Mapping[str, int], problems: Sequence[SyncProblem]) -> None:
        """Show the result of a reconciliation.

        Args:
            outside: GPUs that no queue can use, by node.
            problems: all problems; those of severity INFO are about capacity.
        """
        self._outside.set(sum(outside.values()))
        self._quotas.set(sum(problem.severity == "INFO" for problem in problems))
