"""Waiting until jobs ended and services are ready."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kaiwo.cli import kit
from kaiwo.cli.failures import FAILED, TIMED_OUT, Failure
from kaiwo.cli.kinds import BY_KIND, SHORT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kaiwo.cli.kit import Cluster
    from kaiwo.engine.resource import Object

INTERVAL = 1.0
"""Seconds between two looks; one list per kind and namespace, however many workloads are waited for."""

_GOOD = ("COMPLETE", "READY")
_BAD = ("FAILED", "TERMINATED")


def wait_for(cluster: Cluster, objects: Sequence[Object], timeout: float | None) -> None:
    """Return when all are COMPLETE or READY; tell each change on the way.

    Args:
        cluster: where they are.
        objects: workloads as the API server returned them.
        timeout: seconds, None for ever.

    Raises:
        Failure: one failed, vanished, or the time is over (exit code 4).
    """
    open_ = {obj["metadata"]["uid"]: obj for obj in objects}
    deadline = None if timeout is None else time.monotonic() + timeout
    told: dict[str, tuple[str, str]] = {}
    failed: list[str] = []
    while open_:
        live = _live(cluster, list(open_.values()))
        for uid, obj in list(open_.items()):
            current = live.get(uid)
            outcome = _look(current, _label(obj), uid, told)
            if outcome is not None:
                del open_[uid]
                failed += [outcome] if outcome else []
        if open_ and deadline is not None and time.monotonic() >= deadline:
            raise _late(open_, told)
        if open_:
            time.sleep(
                INTERVAL if deadline is None else max(0.05, min(INTERVAL, deadline - time.monotonic()))
            )
    if failed:
        raise Failure("; ".join(failed), "kaiwo status NAME shows why", code=FAILED)


def _late(open_: Mapping[str, Object], told: Mapping[str, tuple[str, str]]) -> Failure:
    labels = {_label(obj): told[uid][0] or "no operator has looked at it" for uid, obj in open_.items()}
    still = ", ".join(f"{label} ({word})" for label, word in labels.items())
    namespace = next(iter(open_.values()))["metadata"]["namespace"]
    look = f"kaiwo status {next(iter(labels))} -n {namespace}"
    return Failure(f"timed out; still open: {still}", look, code=TIMED_OUT)


def _look(current: Object | None, label: str, uid: str, told: dict[str, tuple[str, str]]) -> str | None:
    """None while it goes on, empty when it ended well, else what went wrong."""
    if current is None:
        return f"{label} was deleted meanwhile"
    status = current.get("status") or {}
    word, reason = str(status.get("status") or ""), str(status.get("reason") or "")
    generation = current["metadata"].get("generation", 0)
    if told.get(uid) != (word, reason):
        told[uid] = (word, reason)
        message = str(status.get("message") or "")
        if word:
            kit.say(f"{label} {word}" + (f": {message or reason}" if message or reason else ""))
    # A status about an older spec says nothing about this one.
    if status.get("observedGeneration", generation) != generation:
        return None
    if word in _GOOD:
        return ""
    return f"{label} is {word}: {status.get('message') or reason}" if word in _BAD else None


def _live(cluster: Cluster, objects: Sequence[Object]) -> dict[str, Object]:
    places = {(obj["kind"], obj["metadata"]["namespace"]) for obj in objects}
    found: dict[str, Object] = {}
    for kind, namespace in sorted(places):
        names = [
            o["metadata"]["name"]
            for o in objects
            if (o["kind"], o["metadata"]["namespace"]) == (kind, namespace)
        ]
        only = f"metadata.name={names[0]}" if len(names) == 1 else None
        for obj in cluster.list(BY_KIND[kind], namespace, field_selector=only):
            found[obj["metadata"]["uid"]] = obj
    return found


def _label(obj: Object) -> str:
    return f"{SHORT[obj['kind']]}/{obj['metadata']['name']}"
