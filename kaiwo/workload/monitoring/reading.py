"""What one scrape says about the GPUs of a workload."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from kaiwo.engine.quantity import quantity
from kaiwo.engine.timestamps import parse_time
from kaiwo.workload.gpus.resource_keys import is_gpu
from kaiwo.workload.json_access import lenient_map, lenient_maps
from kaiwo.workload.pods.requests import lasting_containers

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from datetime import datetime

    from kaiwo.engine.resource import Object
    from kaiwo.workload.monitoring.samples import Samples

_SETTLED: Final = 60.0

Problem: TypeAlias = Literal["", "MetricsUnreachable", "MetricsMissing", "MetricsInvalid", "PodsNew"]
"""Why a reading does not say how busy the GPUs are; a reason of the condition."""


def settling_time(interval: float) -> float:
    """Seconds after the start of a pod's containers before its samples count.

    Until the exporter knows of it, they may be those of an earlier pod of the same name.

    Args:
        interval: seconds between two scrapes.
    """
    return min(_SETTLED, 2 * interval)


@dataclass(frozen=True, slots=True)
class GpuPod:
    """A running pod that holds GPUs.

    Attributes:
        namespace: of the pod.
        name: of the pod.
        gpus: GPUs that it holds.
        started: when the last of its containers started.
    """

    namespace: str
    name: str
    gpus: int
    started: datetime


@dataclass(frozen=True, slots=True)
class Reading:
    """The GPUs of all running pods of a workload in one scrape.

    Attributes:
        gpus: GPUs that the pods hold.
        known: those of them with a usable sample.
        total: sum of the utilization of these, per cent.
        busy: how many of them were used.
        memory: mean of their memory in use, per cent; None if unknown.
        problem: why fewer are known than there are, empty if all are.
    """

    gpus: int
    known: int = 0
    total: float = 0.0
    busy: int = 0
    memory: float | None = None
    problem: Problem = ""

    @property
    def mean(self) -> float | None:
        """Mean utilization, per cent; None unless all GPUs are known."""
        return self.total / self.gpus if self.known == self.gpus else None

    def is_low(self, threshold: float) -> bool | None:
        """Whether the mean is below a threshold; None where the GPUs that are not known would decide."""
        if self.total / self.gpus >= threshold:
            return False  # whatever the others do
        return True if self.known == self.gpus else None


def gpu_pod(pod: Object, keys: Collection[str]) -> GpuPod | None:
    """A pod that runs and holds GPUs, None for any other.

    Args:
        pod: a live pod.
        keys: resource keys of GPUs; they may end in ``*``.
    """
    metadata, status = lenient_map(pod.get("metadata")), lenient_map(pod.get("status"))
    if status.get("phase") != "Running" or metadata.get("deletionTimestamp"):
        return None
    # Other init containers have ended, and nothing measures their GPUs any more.
    gpus = sum(_gpus(container, keys) for container in lasting_containers(lenient_map(pod.get("spec"))))
    started = [
        moment
        for container in lenient_maps(status.get("containerStatuses"))
        if (
            moment := parse_time(
                lenient_map(lenient_map(container.get("state")).get("running")).get("startedAt")
            )
        )
    ]
    if not gpus or not started:
        return None
    return GpuPod(str(metadata.get("namespace", "")), str(metadata.get("name", "")), gpus, max(started))


def _gpus(container: Any, keys: Collection[str]) -> int:
    limits = lenient_map(lenient_map(lenient_map(container).get("resources")).get("limits"))
    found = [quantity(value) for key, value in limits.items() if is_gpu(key, keys)]
    return sum(one.units for one in found if one is not None and one.units > 0)


def read_gpus(
    pods: Iterable[GpuPod], samples: Samples, threshold: float, now: datetime, settled: float
) -> Reading | None:
    """What samples say about the GPUs of a workload, None where no pod holds any.

    Where a pod has more samples than GPUs, the highest count: a sample too many makes no GPU idle.

    Args:
        pods: its running pods with GPUs.
        samples: of one scrape.
        threshold: per cent from which a GPU counts as used.
        now: when they were read.
        settled: see `settling_time`.
    """
    gpus = known = busy = 0
    total, memory_shares, problem = 0.0, [], ""
    for pod in pods:
        gpus += pod.gpus
        if (now - pod.started).total_seconds() < settled:
            problem = problem or "PodsNew"
            continue
        found = samples.of_pod(pod.namespace, pod.name)
        uses = sorted((gpu.use for gpu in found if gpu.use is not None and not gpu.absurd), reverse=True)
        uses = uses[: pod.gpus]
        known += len(uses)
        total += sum(uses)
        busy += sum(1 for use in uses if use > 0 and use >= threshold)
        memory_shares += [gpu.memory for gpu in found if gpu.memory is not None]
        if len(uses) < pod.gpus:
            problem = "MetricsInvalid" if any(gpu.absurd for gpu in found) else (problem or "MetricsMissing")
    if not gpus:
        return None
    memory = sum(memory_shares) / len(memory_shares) if memory_shares else None
    return Reading(gpus, known, total, busy, memory, problem)  # type: ignore[arg-type]  # one of the words above
