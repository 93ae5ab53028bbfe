"""The process settings of the plugin, from environment variables."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from kaiwo.plugin.kit.values import InvalidDuration, parse_duration, parse_switch
from kaiwo_gpu_preemption.policy import VARIABLE

if TYPE_CHECKING:
    from collections.abc import Mapping

_log = logging.getLogger(__name__)

_INTERVAL: Final = 15.0
DEFAULTS: Final = {
    "DEFAULT_THRESHOLD": "threshold",
    "DEFAULT_GRACE_PERIOD": "grace-period",
    "DEFAULT_POLICY": "policy",
    "DEFAULT_AGGREGATION": "aggregation",
    "DEFAULT_TTL": "ttl",
}
"""Variables with defaults, after their prefix, and the annotation that each is a default of."""


@dataclass(frozen=True, slots=True)
class ProcessSettings:
    """The process settings.

    Attributes:
        enabled: whether workloads are tracked at all. Where nothing says so, they are if an endpoint is
            named: an operator that loads every installed plugin does nothing for this one.
        endpoint: where the use of GPUs is read; empty for the endpoint of resource monitoring.
        interval: seconds between two scrapes.
        defaults: by annotation; only those that are set.
    """

    enabled: bool = False
    endpoint: str = ""
    interval: float = _INTERVAL
    defaults: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> ProcessSettings:
        """The settings of an environment. What cannot be used is logged, and the default holds.

        Values of defaults are read for each workload: with one that cannot be used nothing is ended.
        """
        words = {
            name.removeprefix(VARIABLE): value.strip()
            for name, value in environment.items()
            if name.startswith(VARIABLE) and value.strip()
        }
        endpoint = words.get("METRICS_ENDPOINT", "")
        if endpoint and not endpoint.startswith(("http://", "https://")):
            _refuse("METRICS_ENDPOINT", "an http:// or https:// URL")
            endpoint = ""
        interval = _INTERVAL
        if text := words.get("POLLING_INTERVAL"):
            try:
                interval = parse_duration(text).total_seconds()
            except InvalidDuration:
                interval = 0.0
            if interval < 1:
                _refuse("POLLING_INTERVAL", "a duration from 1s, such as 15s")
                interval = _INTERVAL
        enabled = bool(endpoint)
        if text := words.get("ENABLED"):
            try:
                enabled = parse_switch(text)
            except ValueError:
                _refuse("ENABLED", "true or false")
        defaults = {annotation: words[name] for name, annotation in DEFAULTS.items() if name in words}
        return cls(enabled, endpoint, interval, defaults)


def _refuse(name: str, expected: str) -> None:
    _log.error("%s%s: expected %s; the default holds", VARIABLE, name, expected)
