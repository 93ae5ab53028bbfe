"""How busy the GPUs of a workload are, from the samples of one scrape."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kaiwo_gpu_preemption.models import MOST_GPUS, MOST_PODS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from kaiwo.plugin.kit.kinds import Object
    from kaiwo.plugin.kit.monitoring import Samples
    from kaiwo_gpu_preemption.models import Aggregation
    from kaiwo_gpu_preemption.pods import GpuPodFacts

_MAX_ID: Final = 256


@dataclass(frozen=True, slots=True)
class WorkloadUtilization:
    """The use of all GPUs of the running pods of a workload.

    Attributes:
        percent: the aggregated figure; None unless every GPU has a usable sample.
        busy: whatever the GPUs without a sample do, the figure is not below the threshold.
        problem: why a figure is missing; a reason of the condition. Empty where none is.
        pods: pods as a status has them, without times.
        left_out: pods beyond those.
    """

    percent: float | None
    busy: bool
    problem: str
    pods: tuple[tuple[str, tuple[tuple[str, float], ...]], ...]
    left_out: int

    def documents(self, at: str) -> list[Object]:
        """Pods as a status has them.

        Args:
            at: when the samples were read.
        """
        return [
            {
                "podName": name,
                "gpuMetrics": [
                    {"gpuId": gpu, "utilization": round(value, 2), "lastUpdate": at} for gpu, value in gpus
                ],
            }
            for name, gpus in self.pods
        ]


def aggregated(values: Sequence[float], aggregation: Aggregation) -> float:
    """One figure of several.

    Args:
        values: at least one.
        aggregation: which figure.
    """
    if aggregation == "Min":
        return min(values)
    return max(values) if aggregation == "Max" else sum(values) / len(values)


def read_utilization(
    pods: Sequence[GpuPodFacts],
    samples: Samples | None,
    *,
    threshold: float,
    aggregation: Aggregation,
    now: datetime,
    settled: float,
) -> WorkloadUtilization | None:
    """The use of the GPUs of a workload, None where no pod of it runs.

    A GPU without a usable sample is never taken for an idle one. Where a pod has more samples than GPUs, the
    highest count.

    Args:
        pods: all its pods with GPUs.
        samples: of one scrape, None where it failed.
        threshold: per cent below which GPUs are idle.
        aggregation: which figure counts.
        now: when they were read.
        settled: seconds after the start of a pod before its samples count.
    """
    running = sorted((pod for pod in pods if pod.running), key=lambda pod: pod.name)
    if not running:
        return None
    values: list[float] = []
    gpus, problem = 0, "" if samples is not None else "MetricsUnreachable"
    shown: list[tuple[str, tuple[tuple[str, float], ...]]] = []
    for pod in running:
        gpus += pod.count
        found = samples.gpus_of_pod(pod.namespace, pod.name) if samples is not None else {}
        new = pod.started is None or (now - pod.started).total_seconds() < settled
        usable = [
            (gpu[:_MAX_ID], one.use)
            for gpu, one in sorted(found.items())
            if one.use is not None and not one.absurd and not new
        ]
        own = sorted((use for _, use in usable), reverse=True)[: pod.count]
        values += own
        if len(own) < pod.count and not problem:
            absurd = any(one.absurd for one in found.values())
            problem = "PodsNew" if new else "MetricsInvalid" if absurd else "MetricsMissing"
        shown.append((pod.name[:317], tuple(usable[:MOST_GPUS])))
    complete = len(values) == gpus
    return WorkloadUtilization(
        aggregated(values, aggregation) if complete else None,
        _is_busy(values, gpus, threshold, aggregation),
        problem,
        tuple(shown[:MOST_PODS]),
        max(0, len(shown) - MOST_PODS),
    )


def _is_busy(values: Sequence[float], gpus: int, threshold: float, aggregation: Aggregation) -> bool:
    """Whether the figure is not below the threshold, whatever the GPUs without a sample do."""
    if not values:
        return False
    if aggregation == "Max":
        return max(values) >= threshold
    if aggregation == "Avg":
        return sum(values) / gpus >= threshold
    return len(values) == gpus and min(values) >= threshold
