"""Samples of GPUs by pod, from whatever format they were read."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kaiwo.plugin.vendors import Utilization

MOST_SAMPLES: Final = 400_000
"""Samples that are taken from one scrape: ten times those of 5,000 pods with eight GPUs each."""

EXPORTED: Final = "exported_"
"""What Prometheus puts before a label of the exporter where it has a label of this name itself."""

_LARGEST: Final = 1e18  # bytes or any unit above; what is more makes no sense
_FULL: Final = 100.0

Field: TypeAlias = Literal["use", "used", "free", "total"]


class TooManySamplesError(Exception):
    """An answer has more samples than any cluster has GPUs."""


@dataclass(frozen=True, slots=True)
class Meaning:
    """What samples of one metric name mean.

    Attributes:
        utilization: the vendor's declaration.
        field: which figure of a GPU it is.
    """

    utilization: Utilization
    field: Field

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels that are read of a sample."""
        return (*owner_labels(self.utilization), *self.utilization.gpu_labels)


def meanings(utilizations: Iterable[Utilization]) -> dict[str, Meaning]:
    """The metrics that are read, by name. Of two vendors that declare one name, the first one counts."""
    found: dict[str, Meaning] = {}
    for one in utilizations:
        names: tuple[tuple[str, Field], ...] = (
            (one.metric, "use"),
            (one.memory_used, "used"),
            (one.memory_free, "free"),
            (one.memory_total, "total"),
        )
        for name, field in names:
            if name:
                found.setdefault(name, Meaning(one, field))
    return found


@dataclass(slots=True)
class GpuSample:
    """What is known of one GPU.

    Attributes:
        use: per cent, None where no sample is usable.
        used: memory in use, None if unknown.
        free: free memory, likewise.
        total: all its memory, likewise.
        absurd: a sample of its utilization was no percentage, so none of them is used.
    """

    use: float | None = None
    used: float | None = None
    free: float | None = None
    total: float | None = None
    absurd: bool = False

    @property
    def memory(self) -> float | None:
        """Per cent of its memory that is in use, None if unknown."""
        total = self.total
        if total is None and self.used is not None and self.free is not None:
            total = self.used + self.free
        if self.used is None or not total or self.used > total:
            return None
        return self.used / total * _FULL


class Samples:
    """The samples of one scrape.

    Attributes:
        count: samples of the declared metrics that belong to a pod.
        absurd: those of them whose value is no percentage, or no amount of memory.
        stale: samples that are too old, or from the future.
    """

    def __init__(self) -> None:
        self.count = 0
        self.absurd = 0
        self.stale = 0
        self._pods: dict[tuple[str, str], dict[tuple[object, ...], GpuSample]] = {}

    def __len__(self) -> int:
        """Number of pods."""
        return len(self._pods)

    def add(self, meaning: Meaning, labels: Mapping[str, str], value: float) -> None:
        """Take one sample; one that names no pod is of no GPU in use.

        Raises:
            TooManySamplesError: there are more than `MOST_SAMPLES`.
        """
        utilization = meaning.utilization
        namespace, pod = owner_of(utilization, labels)
        if not namespace or not pod:
            return
        gpu: tuple[object, ...] = tuple([labels.get(name, "") for name in utilization.gpu_labels])
        if not any(gpu):
            if meaning.field != "use":
                return
            gpu = (self.count,)  # nothing tells the GPUs apart, so each sample is one
        self.count += 1
        if self.count > MOST_SAMPLES:
            raise TooManySamplesError
        self._put(
            self._pods.setdefault((namespace, pod), {}), (utilization.metric, *gpu), meaning.field, value
        )

    def _put(
        self,
        gpus: dict[tuple[object, ...], GpuSample],
        key: tuple[object, ...],
        field: Field,
        value: float,
    ) -> None:
        gpu = gpus.get(key)
        if gpu is None:
            gpu = gpus[key] = GpuSample()
        if field == "use":
            if not 0 <= value <= _FULL:  # also false for NaN
                self.absurd += 1
                gpu.absurd = True
            elif gpu.use is None or value > gpu.use:
                gpu.use = value  # two scrapers of one exporter: nobody makes a busy GPU idle
        elif math.isfinite(value) and 0 <= value <= _LARGEST:
            setattr(gpu, field, max(value, getattr(gpu, field) or 0.0))
        else:
            self.absurd += 1

    def of_pod(self, namespace: str, pod: str) -> Sequence[GpuSample]:
        """The GPUs of one pod, in no order."""
        return tuple(self._pods.get((namespace, pod), {}).values())

    def gpus_of_pod(self, namespace: str, pod: str) -> Mapping[str, GpuSample]:
        """The GPUs of one pod by the values of the labels that tell them apart."""
        found = self._pods.get((namespace, pod), {})
        return {"/".join(str(part) for part in key[1:] if part != ""): gpu for key, gpu in found.items()}


def owner_labels(utilization: Utilization) -> tuple[str, ...]:
    """The labels that `owner_of` reads."""
    own = (utilization.namespace_label, utilization.pod_label)
    return (*own, *(EXPORTED + name for name in own))


def owner_of(utilization: Utilization, labels: Mapping[str, str]) -> tuple[str, str]:
    """Namespace and name of the pod that holds a sample's GPU, empty where a sample does not say.

    Where the scraped target is a pod itself, Prometheus has a label ``pod`` of its own, and the exporter's
    becomes ``exported_pod``.
    """
    pod = labels.get(EXPORTED + utilization.pod_label)
    if pod:
        return labels.get(EXPORTED + utilization.namespace_label, ""), pod
    return labels.get(utilization.namespace_label, ""), labels.get(utilization.pod_label, "")
