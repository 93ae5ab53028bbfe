"""GPUs of a workload: split over pods, as ``allocate`` of a backend returns them."""

from kaiwo.workload.gpus.allocation import even, one_pod, recalculated, spread, written
from kaiwo.workload.gpus.resource_keys import is_gpu
from kaiwo.workload.pods.requests import pod_requests

__all__ = ["even", "is_gpu", "one_pod", "pod_requests", "recalculated", "spread", "written"]
