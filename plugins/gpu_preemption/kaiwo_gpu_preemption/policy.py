"""What holds for one workload, by annotations, KaiwoConfig, environment and defaults, in this order."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from kaiwo.plugin.kit.values import InvalidDuration, parse_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kaiwo_gpu_preemption.models import Aggregation, Policy

PREFIX: Final = "kaiwo.silogen.ai/gpu-preemption."
VARIABLE: Final = "GPU_PREEMPTION_"
"""How the plugin's environment variables begin."""

ENABLED: Final = "enabled"
_FULL: Final = 100.0


@dataclass(frozen=True, slots=True)
class TrackingPolicy:
    """What holds for one workload.

    Attributes:
        threshold: per cent of use below which its GPUs are idle.
        grace_period: how long they may be idle.
        policy: when they are taken back.
        aggregation: which figure of all GPUs counts.
        ttl: how long its GpuWorkload is kept after it; zero for ever.
        problems: annotations whose values cannot be read; while there are any, nothing is ended.
    """

    threshold: float = 5.0
    grace_period: timedelta = timedelta(minutes=10)
    policy: Policy = "OnPressure"
    aggregation: Aggregation = "Max"
    ttl: timedelta = timedelta(hours=24)
    problems: tuple[str, ...] = ()


def _threshold(text: str) -> float:
    value = float(text)
    if not math.isfinite(value) or not 0 <= value <= _FULL:
        raise ValueError(text)
    return value


def _duration(text: str) -> timedelta:
    if text.strip() == "0":
        return timedelta()
    found = parse_duration(text)
    if found < timedelta():
        raise ValueError(text)
    return found


def _one_of(*words: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in words:
            raise ValueError(text)
        return text

    return read


_PER_CENT: Final = "a number from 0 to 100"
_TIME: Final = "a duration such as 10m"

VALUES: Final[Mapping[str, tuple[str, Callable[[str], Any], str]]] = {
    "threshold": ("threshold", _threshold, _PER_CENT),
    "grace-period": ("grace_period", _duration, _TIME),
    "policy": ("policy", _one_of("OnPressure", "Always", "Report"), "OnPressure, Always or Report"),
    "aggregation": ("aggregation", _one_of("Min", "Max", "Avg"), "Min, Max or Avg"),
    "ttl": ("ttl", _duration, _TIME),
}
"""Each annotation: the attribute of :class:`TrackingPolicy`, how it is read, what is expected."""


@dataclass(frozen=True, slots=True)
class Defaults:
    """What holds where no annotation says anything else.

    Attributes:
        config: values of KaiwoConfig, by annotation; only those that are set.
        environment: values of the process environment, likewise.
    """

    config: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)


def own_annotations(annotations: Mapping[str, Any]) -> dict[str, str]:
    """The annotations that are the plugin's, without their prefix."""
    return {
        name.removeprefix(PREFIX): value
        for name, value in annotations.items()
        if name.startswith(PREFIX) and isinstance(value, str)
    }


def tracking_policy(
    owner: Mapping[str, str], namespace: Mapping[str, str], defaults: Defaults
) -> TrackingPolicy | None:
    """What holds for a workload; None where it is not tracked.

    It is tracked where the root owner or else its namespace says so: ``enabled: "true"``, or any other
    annotation without ``enabled``. A value that cannot be read is named, and the next one in the order holds.

    Args:
        owner: annotations of the root owner, see `own_annotations`.
        namespace: those of its namespace.
        defaults: of KaiwoConfig and the process.
    """
    if not _enabled(owner, namespace):
        return None
    problems: list[str] = []
    found = TrackingPolicy()
    for name, (attribute, read, expected) in VALUES.items():
        words = name.split("-")
        default = "TTL" if name == "ttl" else "".join(map(str.capitalize, words))
        for where, values in (
            (f"{PREFIX}{name}", owner),
            (f"the namespace's {PREFIX}{name}", namespace),
            (f"gpuPreemption.default{default} of KaiwoConfig", defaults.config),
            (f"{VARIABLE}DEFAULT_{'_'.join(words).upper()} of the operator", defaults.environment),
        ):
            if name not in values:
                continue
            try:
                found = replace(found, **{attribute: read(values[name])})
            except (ValueError, InvalidDuration, OverflowError):
                problems.append(f"{where} is {values[name][:40]!r}, expected {expected}")
                continue
            break
    for where, values in (("", owner), ("the namespace's ", namespace)):
        problems += [
            f"{where}{PREFIX}{name[:40]} is unknown, expected one of {', '.join((ENABLED, *VALUES))}"
            for name in sorted(values)
            if name != ENABLED and name not in VALUES
        ]
        enabled = values.get(ENABLED, "true")
        if enabled not in ("true", "false"):
            problems.append(f"{where}{PREFIX}{ENABLED} is {enabled[:40]!r}, expected true or false")
    return replace(found, problems=tuple(problems))


def _enabled(owner: Mapping[str, str], namespace: Mapping[str, str]) -> bool:
    for values in (owner, namespace):
        if ENABLED in values:
            return values[ENABLED] != "false"
        if values:
            return True
    return False


def duration_text(value: timedelta) -> str:
    """A duration as an object has it: ``10m``. A part of a second counts as one: 0 means for ever."""
    seconds = math.ceil(value.total_seconds())
    if seconds and not seconds % 3600:
        return f"{seconds // 3600}h"
    if seconds and not seconds % 60:
        return f"{seconds // 60}m"
    return f"{seconds}s"
