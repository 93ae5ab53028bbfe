"""The chain: every object from a workload to its pods, with its state."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from kaiwo.api.status_words import TERMINAL
from kaiwo.plugin.diagnosis import ChainLink
from kaiwo.workload.diagnosis import operator, pods, preparation, status
from kaiwo.workload.json_access import holding, lenient_map, lenient_text, name_of, one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaiwo.engine.resource import Object
    from kaiwo.plugin.diagnosis import LinkState
    from kaiwo.workload.diagnosis.model import DiagnosisFacts

MOST_PODS = 5
"""Pods that are listed by name; those with problems come first."""

_SHOWN_BEFORE = ("PersistentVolumeClaim",)
_NOT_SHOWN = ("ConfigMap", "ReplicaSet", "Service")
_PHASES = ("jobDeploymentStatus", "jobStatus", "phase", "state", "serviceStatus")
_BAD = ("Failed", "FailureTarget", "ReplicaFailure")
_BAD_PHASES = ("failed", "FAILED", "Failed", "ValidationFailed", "unhealthy", "Lost")
_COUNTS = ("active", "ready", "readyReplicas", "failed")


def chain(facts: DiagnosisFacts) -> tuple[ChainLink, ...]:
    """All links, in the order in which one follows from the other."""
    return tuple(_links(facts))


def _links(facts: DiagnosisFacts) -> Iterator[ChainLink]:
    yield from _operator(facts)
    yield _workload(facts)
    for claim in preparation.claims(facts):
        state, message = preparation.claim_message(claim, facts)
        yield ChainLink("PersistentVolumeClaim", name_of(claim), _state(state), message)
    own = (*_SHOWN_BEFORE, *_NOT_SHOWN)
    for obj in facts.objects:
        if obj.get("kind") == "Job" and facts.download is not None:
            yield _download(obj, facts)
    if facts.child is not None:
        yield _object(facts.child)
    if facts.queue is not None:
        # Of one that has ended, the queue is of no interest any more.
        yield from facts.queue.links[:1] if facts.word in TERMINAL else facts.queue.links
    for obj in facts.objects:
        if obj.get("kind") not in own and not (obj.get("kind") == "Job" and facts.download is not None):
            yield _object(obj)
    yield from _pods(facts)


def _operator(facts: DiagnosisFacts) -> Iterator[ChainLink]:
    if facts.lease is not None:
        state: LinkState = "failed" if operator.absence(facts) else "ok"
        yield ChainLink("Lease", name_of(facts.lease), state, operator.lease_state(facts.lease, facts))
    for cause in operator.configuration(facts):
        yield ChainLink("KaiwoConfig", "kaiwo", "failed", cause.message)
        return


def _workload(facts: DiagnosisFacts) -> ChainLink:
    reason = lenient_text(facts.status.get("reason"))
    word = facts.word or "not yet observed"
    message = f"{word} ({reason})" if reason and reason.upper() != word else word
    kind = lenient_text(facts.workload.get("kind")) or "workload"
    return ChainLink(kind, name_of(facts.workload), status.state_of(facts.word, reason), message)


def _download(job: Object, facts: DiagnosisFacts) -> ChainLink:
    outcome = facts.download
    if outcome is None:
        return _object(job)
    state: LinkState = (
        "ok" if outcome.status == "COMPLETE" else "failed" if outcome.status == "FAILED" else "waits"
    )
    return ChainLink("Job", name_of(job), state, one_line(outcome.message))


def _object(obj: Object) -> ChainLink:
    """The link of an object of any kind: by its phase, else its true conditions, else its counts of pods."""
    found = lenient_map(obj.get("status"))
    true = holding(found.get("conditions"))
    phase = next((lenient_text(found.get(key)) for key in _PHASES if lenient_text(found.get(key))), "")
    words = [phase] if phase else list(true)
    words = words or [f"{found[key]} {key}" for key in _COUNTS if isinstance(found.get(key), int)]
    bad = phase in _BAD_PHASES or any(kind in _BAD for kind in true)
    suspended = bool(lenient_map(obj.get("spec")).get("suspend"))
    state: LinkState = "failed" if bad else "waits" if suspended or not words else "ok"
    said = [one_line(true[kind].get("message")) for kind in _BAD if kind in true]
    message = ", ".join(words) or ("suspended" if suspended else "no status yet")
    if suspended and words:
        message = f"suspended, {message}"
    if said and said[0]:
        message = f"{message}: {said[0]}"
    return ChainLink(lenient_text(obj.get("kind")) or "object", name_of(obj), state, message)


def _pods(facts: DiagnosisFacts) -> Iterator[ChainLink]:
    states = [(pod, *pods.state_of(pod, facts)) for pod in facts.pods]
    order = {"failed": 0, "waits": 1, "ok": 2}
    states.sort(key=lambda item: order.get(item[1], 3))
    for pod, state, message in states[:MOST_PODS]:
        yield ChainLink("Pod", name_of(pod), _state(state), message)
    rest = states[MOST_PODS:]
    if rest:
        counts = {state: sum(1 for item in rest if item[1] == state) for state in order}
        words = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
        worst = next((state for state in order if counts[state]), "ok")
        yield ChainLink("Pod", f"and {len(rest)} more", _state(worst), words)


def _state(word: str) -> LinkState:
    return cast("LinkState", word)
