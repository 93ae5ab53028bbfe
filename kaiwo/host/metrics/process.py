"""Prometheus metrics about the operator's process: memory, CPU, files, and which build it is."""

from __future__ import annotations

import platform
from importlib.metadata import version
from typing import TYPE_CHECKING

from prometheus_client import ProcessCollector

from kaiwo.host.metrics.definitions import BUILD_INFO

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry


def describe_process(registry: CollectorRegistry) -> None:
    """Register the metrics ``process_*`` and ``kaiwo_build_info``."""
    ProcessCollector(registry=registry)
    BUILD_INFO.gauge(registry).labels(version("kaiwo"), platform.python_version()).set(1)
