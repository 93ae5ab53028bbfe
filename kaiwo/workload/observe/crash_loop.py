"""Containers that end again and again: reported as one state, whatever a container does at the moment.

Between two crashes a container runs, and without a readiness probe it is even ready. A status that followed
it would be written twice for each restart, and would call a broken service ready.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from kaiwo.engine.timestamps import parse_time
from kaiwo.workload.json_access import lenient_map, lenient_maps

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from kaiwo.engine.resource import Object
    from kaiwo.plugin.observation import Finding

CRASH_LOOP = "CrashLoopBackOff"
"""The kubelet's reason while a container waits for its next restart."""

SHORTEST_RECOVERY = 10.0
LONGEST_RECOVERY = 600.0
"""Seconds that a container runs before it counts as recovered: twice as long as it did the last time, within
these. After ten minutes the kubelet, too, counts from the beginning."""

_EPOCH = 86400.0
"""Seconds of Unix time: a container that could not even start has its beginning as start."""


def looping(pod: Object, now: datetime, recorded: Finding | None) -> list[tuple[Object, float]]:
    """The containers of a pod that are in a crash loop, each with the seconds until it counts as recovered.

    Infinite while it does not run. A crash loop begins when the kubelet says so, or when a container that
    was restarted before has failed again: in its back-off a kubelet shows it as waiting or as terminated. It
    lasts through the runs in between, which the recorded status tells from other runs.

    Args:
        pod: the pod.
        now: the time of this reconciliation.
        recorded: reason and message of the workload's status.
    """
    status, spec = lenient_map(pod.get("status")), lenient_map(pod.get("spec"))
    known = recorded is not None and (recorded.reason == CRASH_LOOP or f": {CRASH_LOOP}" in recorded.message)
    restarted = status.get("phase") in ("Pending", "Running") and spec.get("restartPolicy") != "Never"
    found = []
    for name, ends in (
        ("initContainerStatuses", True),
        ("containerStatuses", spec.get("restartPolicy", "Always") != "Always"),
    ):
        for container in lenient_maps(status.get(name)):
            broken = _in_back_off(container) or (restarted and _failed_again(container))
            left = math.inf if broken else _recovers_in(container, now, known=known, ends=ends)
            if left > 0:
                found.append((container, left))
    return found


def works(pod: Object, now: datetime, recorded: Finding | None) -> bool:
    """Whether a container of the pod runs now and is not in a crash loop, init containers not counted."""
    broken = [container for container, _ in looping(pod, now, recorded)]
    return any(
        isinstance(lenient_map(container.get("state")).get("running"), dict) and container not in broken
        for container in lenient_maps(lenient_map(pod.get("status")).get("containerStatuses"))
    )


def next_check(pods: Iterable[Object], now: datetime, recorded: Finding | None) -> float | None:
    """Seconds until the first of the containers counts as recovered; None where an event comes before."""
    left = (seconds for pod in pods for _, seconds in looping(pod, now, recorded))
    return min((seconds for seconds in left if seconds < math.inf), default=None)


def restarts(container: Object) -> str:
    """How often a container was restarted, in words that change ever more rarely; empty for never."""
    count = container.get("restartCount")
    if not isinstance(count, int) or count < 1:
        return ""
    if count == 1:
        return "1 restart"
    power = 10 ** (len(str(count)) - 1)
    return f"at least {next(step * power for step in (5, 2, 1) if step * power <= count)} restarts"


def _in_back_off(container: Object) -> bool:
    waiting = lenient_map(lenient_map(container.get("state")).get("waiting"))
    return waiting.get("reason") == CRASH_LOOP


def _failed_again(container: Object) -> bool:
    ended = lenient_map(lenient_map(container.get("state")).get("terminated"))
    return bool(container.get("restartCount")) and bool(ended.get("exitCode"))


def _recovers_in(container: Object, now: datetime, *, known: bool, ends: bool) -> float:
    """Seconds until a container that runs again counts as recovered; 0 without a crash loop.

    Args:
        container: the container's status.
        now: the time of this reconciliation.
        known: whether the workload's status has a crash loop.
        ends: whether the container ends for good when it succeeds.
    """
    state, last = lenient_map(container.get("state")), lenient_map(container.get("lastState"))
    ended = lenient_map(state.get("terminated")) or lenient_map(last.get("terminated"))
    if not known or not container.get("restartCount") or not ended:
        return 0.0
    if state.get("terminated") and ends and ended.get("exitCode") == 0:
        return 0.0
    since = parse_time(lenient_map(state.get("running")).get("startedAt"))
    if since is None:
        return math.inf
    needed = min(LONGEST_RECOVERY, max(SHORTEST_RECOVERY, 2 * _lasted(ended)))
    return max(0.0, needed - (now - since).total_seconds())


def _lasted(ended: Object) -> float:
    begun, end = parse_time(ended.get("startedAt")), parse_time(ended.get("finishedAt"))
    if begun is None or end is None or begun.timestamp() < _EPOCH:
        return 0.0
    return (end - begun).total_seconds()
