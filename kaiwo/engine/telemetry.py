"""Metrics, health and logs of the engine."""

from __future__ import annotations

from typing import Literal, TextIO

import prometheus_client


class Metrics:
    """The engine's Prometheus metrics in one registry."""

    registry: prometheus_client.CollectorRegistry


class Health:
    """What /healthz and /readyz say."""

    def ready(self) -> tuple[bool, dict[str, str]]:
        """Whether all caches are synced, and per kind what is missing."""
        ...


def setup_logging(format_: Literal["json", "text"] = "text", level: str = "INFO", stream: TextIO | None = None) -> None:
    """One line per record on the stream (default stderr)."""
