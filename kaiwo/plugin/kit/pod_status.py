"""Facts about live pods: whether they run, since when, what is wrong with them, and how containers ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kaiwo.workload.json_access import lenient_map, lenient_text
from kaiwo.workload.observe.crash_loop import looping, works
from kaiwo.workload.observe.pod_failure import failure, pod_name
from kaiwo.workload.observe.pod_status import (
    containers,
    controllers,
    current,
    gated,
    has_ended,
    held_by_queue,
    of_run,
    other_gates,
    owned,
    problem,
    runs,
    since,
    started,
)
from kaiwo.workload.observe.unready_node import on_unready_node, unconfirmed, unready_node

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kaiwo.engine.resource import Object

__all__ = [
    "Termination",
    "containers",
    "controllers",
    "current",
    "failure",
    "gated",
    "has_ended",
    "held_by_queue",
    "looping",
    "of_run",
    "on_unready_node",
    "other_gates",
    "owned",
    "pod_name",
    "problem",
    "runs",
    "since",
    "started",
    "terminations",
    "unconfirmed",
    "unready_node",
    "works",
]


@dataclass(frozen=True, slots=True)
class Termination:
    """How a container ended, now or before its last restart.

    Attributes:
        pod: name of the pod.
        container: name of the container.
        exit_code: its exit code, None if unknown.
        reason: the kubelet's reason (``Error``, ``OOMKilled``), empty without one.
        message: what it wrote to its termination log; where it failed and wrote nothing, the last lines of
            its log, 80 or 2048 bytes at most. In templates that users embed the log is there only where they
            set ``terminationMessagePolicy: FallbackToLogsOnError``, as generated ones do.
    """

    pod: str
    container: str
    exit_code: int | None
    reason: str
    message: str


def terminations(pods: Iterable[Object]) -> Iterator[Termination]:
    """How the containers of pods ended, init containers first; those that never ended are left out.

    For diagnosis rules, with ``terminations([*seen.pods, *reversed(seen.gone)])`` also of pods that no longer
    exist.
    """
    for pod in pods:
        for container in containers(pod, init=True):
            now, last = (
                lenient_map(lenient_map(container.get(name)).get("terminated"))
                for name in ("state", "lastState")
            )
            if ended := now or last:
                code = ended.get("exitCode")
                yield Termination(
                    pod_name(pod),
                    lenient_text(container.get("name")),
                    code if isinstance(code, int) else None,
                    lenient_text(ended.get("reason")),
                    lenient_text(ended.get("message")),
                )
