"""Waiting until jobs ended and services are ready."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kaiwo.cli import kit
from kaiwo.cli.failures import FAILED, TIMED_OUT, Failure
from kaiwo.cli.output import workload_fields
from kaiwo.cli.workload_kinds import BY_KIND, SHORT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kaiwo.cli.kit import Cluster
    from kaiwo.engine.resource import Object

INTERVAL = 1.0
"""Seconds between two reads; one list per kind and namespace, however many workloads are waited for."""

ERROR_SECONDS = 30.0
"""How long a workload may be in ERROR, which can heal by itself, where no time-out was given."""

_GOOD = ("COMPLETE", "READY")
_BAD = ("FAILED", "TERMINATED")


@dataclass(slots=True)
class _Waited:
    """One workload that is waited for.

    Attributes:
        label: ``job/train``.
        word: status that was reported last.
        reason: reason that was reported last.
        error_since: when it was first seen in ERROR, without a break since; None otherwise.
    """

    label: str
    word: str = ""
    reason: str = ""
    error_since: float | None = None


def wait_for(
    cluster: Cluster,
    objects: Sequence[Object],
    timeout: float | None,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Return when all are COMPLETE or READY; report each change on the way.

    Args:
        cluster: where they are.
        objects: workloads as the API server returned them.
        timeout: seconds; None waits for ever, but not for a workload that stays in ERROR.
        clock: seconds that only grow.
        sleep: pauses between two reads.

    Raises:
        Failure: one failed, stayed in ERROR, was deleted, or the time is over (exit code 4).
    """
    pending = {obj["metadata"]["uid"]: obj for obj in objects}
    waited = {uid: _Waited(_label(obj)) for uid, obj in pending.items()}
    deadline = None if timeout is None else clock() + timeout
    failed: list[str] = []
    while pending:
        live = _live(cluster, list(pending.values()))
        for uid in list(pending):
            outcome = _outcome(waited[uid], live.get(uid))
            if outcome is None and timeout is None:
                outcome = _stuck(waited[uid], live[uid], clock())
            if outcome is not None:
                del pending[uid]
                failed += [outcome] if outcome else []
        if pending and deadline is not None and clock() >= deadline:
            raise _late(pending, waited)
        if pending:
            sleep(INTERVAL if deadline is None else max(0.05, min(INTERVAL, deadline - clock())))
    if failed:
        raise Failure("; ".join(failed), "kaiwo status NAME shows why", code=FAILED)


def _late(pending: Mapping[str, Object], waited: Mapping[str, _Waited]) -> Failure:
    still = [waited[uid] for uid in pending]
    namespace = next(iter(pending.values()))["metadata"]["namespace"]
    named = ", ".join(f"{one.label} ({one.word or 'not yet observed by an operator'})" for one in still)
    next_step = f"kaiwo status {still[0].label} -n {namespace}"
    return Failure(f"timed out waiting for {named}", next_step, code=TIMED_OUT)


def _outcome(waited: _Waited, current: Object | None) -> str | None:
    """None while it runs, empty when it succeeded, else what went wrong."""
    if current is None:
        return f"{waited.label} was deleted"
    status = workload_fields.status(current)
    word, reason = str(status.get("status") or ""), workload_fields.reason(current)
    message = workload_fields.message(current) or reason
    generation = current["metadata"].get("generation", 0)
    if (waited.word, waited.reason) != (word, reason):
        waited.word, waited.reason = word, reason
        if word:
            kit.say(f"{waited.label} {word}" + (f": {message}" if message else ""))
    # A status of an older spec does not describe this one.
    if status.get("observedGeneration", generation) != generation:
        return None
    if word in _GOOD:
        return ""
    return f"{waited.label} is {word}: {message}" if word in _BAD else None


def _stuck(waited: _Waited, current: Object, now: float) -> str | None:
    """What went wrong with a workload that stays in ERROR; None while it may heal by itself."""
    if waited.word != "ERROR":
        waited.error_since = None
        return None
    waited.error_since = now if waited.error_since is None else waited.error_since
    if now - waited.error_since < ERROR_SECONDS:
        return None
    message = workload_fields.message(current) or waited.reason
    return f"{waited.label} is in ERROR for {ERROR_SECONDS:g} s: {message}"


def _live(cluster: Cluster, objects: Sequence[Object]) -> dict[str, Object]:
    places = {(obj["kind"], obj["metadata"]["namespace"]) for obj in objects}
    found: dict[str, Object] = {}
    for kind, namespace in sorted(places):
        names = [
            obj["metadata"]["name"]
            for obj in objects
            if (obj["kind"], obj["metadata"]["namespace"]) == (kind, namespace)
        ]
        only = f"metadata.name={names[0]}" if len(names) == 1 else None
        for obj in cluster.list(BY_KIND[kind], namespace, field_selector=only):
            found[obj["metadata"]["uid"]] = obj
    return found


def _label(obj: Object) -> str:
    return f"{SHORT[obj['kind']]}/{obj['metadata']['name']}"
