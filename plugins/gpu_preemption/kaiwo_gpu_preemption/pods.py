"""Pods with GPUs: what is read of each one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from kaiwo.plugin.kit.allocation import pod_requests
from kaiwo.plugin.kit.cache import Projection
from kaiwo.plugin.kit.json_access import lenient_map, lenient_maps, lenient_text
from kaiwo.plugin.kit.monitoring import is_gpu
from kaiwo.plugin.kit.values import parse_time

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from kaiwo.plugin.kit.cache import CachedObject
    from kaiwo.plugin.kit.kinds import Object

POD_PROJECTION: Final = Projection(
    keep=(
        ("spec", "nodeName"),
        ("spec", "nodeSelector"),
        ("spec", "affinity", "nodeAffinity"),
        ("spec", "tolerations"),
        ("spec", "schedulingGates"),
        ("spec", "containers", "*", "resources"),
        ("spec", "initContainers", "*", "resources"),
        ("spec", "initContainers", "*", "restartPolicy"),
        ("status", "phase"),
        ("status", "conditions"),
        ("status", "containerStatuses", "*", "state"),
    )
)
"""What is kept of a pod."""

QUEUE_GATE: Final = "kueue.x-k8s.io/admission"
_OVER: Final = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class GpuPodFacts:
    """A pod with GPUs.

    Attributes:
        namespace: its namespace.
        name: its name.
        uid: its uid.
        gpus: GPUs that it requests, by resource key.
        node: its node, empty while it has none.
        over: it has ended, so that it holds nothing.
        running: it runs, and is not being deleted.
        started: when the last of its containers started; None while one has not.
        lacks: the resource key that it waits for, empty where it waits for something else or nothing.
        since: since when.
        gated: a queue holds it.
        place: ``nodeSelector``, ``affinity`` and ``tolerations`` of a pod without a node.
    """

    namespace: str
    name: str
    uid: str
    gpus: Mapping[str, int]
    node: str
    over: bool
    running: bool
    started: datetime | None = None
    lacks: str = ""
    since: datetime | None = None
    gated: bool = False
    place: Object | None = None

    @property
    def count(self) -> int:
        """All its GPUs."""
        return sum(self.gpus.values())


@dataclass(frozen=True, slots=True)
class WaitingPods:
    """Pods that ask alike for GPUs and have none.

    Attributes:
        key: the resource key.
        count: how many pods.
        gpus: GPUs of each.
        since: since when they wait.
        place: where they may run, see `place_of`.
        cause: ``quota`` where a queue holds them, ``nodes`` where they find no node.
    """

    key: str
    count: int
    gpus: int
    since: datetime
    place: Object
    cause: Literal["quota", "nodes"]


def place_of(spec: Mapping[str, Any]) -> Object:
    """What a pod's spec says of the nodes that it may run on."""
    return {name: spec[name] for name in ("nodeSelector", "affinity", "tolerations") if name in spec}


def requested_gpus(spec: Mapping[str, Any], patterns: Sequence[str]) -> dict[str, int]:
    """GPUs that a pod requests, by resource key, as the scheduler counts them."""
    if not _names_gpus(spec, patterns):
        return {}  # most pods, whose other amounts need not be read
    amounts = pod_requests(dict(spec))
    return {key: one.units for key, one in amounts.items() if is_gpu(key, patterns) and one.units > 0}


def _names_gpus(spec: Mapping[str, Any], patterns: Sequence[str]) -> bool:
    return any(
        is_gpu(key, patterns)
        for part in ("containers", "initContainers")
        for container in lenient_maps(spec.get(part))
        for amounts in lenient_map(container.get("resources")).values()
        for key in lenient_map(amounts)
    )


def read_pod(entry: CachedObject, patterns: Sequence[str]) -> GpuPodFacts | None:
    """What is read of a pod in the cache, None where it requests no GPUs."""
    return pod_facts(entry.readable(), patterns)


def pod_facts(pod: Object, patterns: Sequence[str]) -> GpuPodFacts | None:
    """What is read of a pod, None where it requests no GPUs."""
    metadata = lenient_map(pod.get("metadata"))
    spec, status = lenient_map(pod.get("spec")), lenient_map(pod.get("status"))
    gpus = requested_gpus(spec, patterns)
    if not gpus:
        return None
    phase, node = status.get("phase"), lenient_text(spec.get("nodeName"))
    over = phase in _OVER
    gated = any(gate.get("name") == QUEUE_GATE for gate in lenient_maps(spec.get("schedulingGates")))
    lacks, since = ("", None) if node or over else _lacks(spec, status, gpus)
    return GpuPodFacts(
        lenient_text(metadata.get("namespace")),
        lenient_text(metadata.get("name")),
        lenient_text(metadata.get("uid")),
        gpus,
        node,
        over=over,
        running=phase == "Running" and not metadata.get("deletionTimestamp"),
        started=_started(status),
        lacks=lacks,
        since=since,
        gated=gated,
        place=place_of(spec) if lacks else None,
    )


def _started(status: Mapping[str, Any]) -> datetime | None:
    moments = [
        parse_time(lenient_map(lenient_map(one.get("state")).get("running")).get("startedAt"))
        for one in lenient_maps(status.get("containerStatuses"))
    ]
    return max((moment for moment in moments if moment is not None), default=None)


def _lacks(
    spec: Mapping[str, Any], status: Mapping[str, Any], gpus: Mapping[str, int]
) -> tuple[str, datetime | None]:
    """The key of GPUs that a pod without a node waits for, and since when."""
    gates = {lenient_text(gate.get("name")) for gate in lenient_maps(spec.get("schedulingGates"))}
    for condition in lenient_maps(status.get("conditions")):
        if condition.get("type") != "PodScheduled" or condition.get("status") != "False":
            continue
        since = parse_time(condition.get("lastTransitionTime"))
        if gates:
            return (max(gpus, key=lambda key: gpus[key]) if QUEUE_GATE in gates else ""), since
        message = lenient_text(condition.get("message"))
        for key in sorted(gpus):
            if _names(message, key):
                return key, since
    return "", None


def _names(message: str, key: str) -> bool:
    """Whether a scheduler's message says that a key is insufficient; one key may begin like another."""
    return re.search(rf"Insufficient {re.escape(key)}(?![\w/-]|\.\w)", message) is not None
