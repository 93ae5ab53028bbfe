"""What is read of GPUs: the samples of each scrape, and the pods that they belong to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from kaiwo.workload.gpus.resource_keys import is_gpu
from kaiwo.workload.monitoring.history import longest_gap
from kaiwo.workload.monitoring.reading import settling_time
from kaiwo.workload.monitoring.samples import GpuSample, Samples
from kaiwo.workload.monitoring.scrape import Scrape

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["GpuSample", "GpuSamples", "Samples", "Scrape", "is_gpu", "longest_gap", "settling_time"]


class GpuSamples(Protocol):
    """The samples of all GPUs that have a pod, ``ControllerHost.gpu_samples``. No endpoint is read twice."""

    def follow(self, listener: Callable[[Scrape], None], url: str = "", interval: float = 30.0) -> float:
        """Call a listener with each scrape of an endpoint, while this process leads.

        Args:
            listener: called on the event loop; it returns quickly.
            url: Prometheus text or a Prometheus server; empty for the endpoint of resource monitoring.
            interval: seconds between two scrapes, where nobody reads the endpoint yet.

        Returns:
            Seconds between two scrapes; 0 where there is no endpoint, so that none takes place.
        """
        ...
