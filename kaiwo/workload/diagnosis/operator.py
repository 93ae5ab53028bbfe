"""Rules about the operator: whether one runs, has seen the workload, and can use its configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.api.status_words import TERMINAL
from kaiwo.engine.timestamps import parse_time
from kaiwo.workload.diagnosis.model import DiagnosedCause, DiagnosisFacts, span
from kaiwo.workload.json_access import lenient_map, lenient_maps, lenient_text, one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaiwo.engine.resource import Object

OBSERVED_WITHIN = 10.0
"""Seconds within which an operator that runs has observed a workload, even in a storm of others."""

LEASE_SECONDS = 10.0
"""Duration of the operator's Lease where the Lease does not say."""

_SKEW = 5.0
"""Seconds by which the clock of this machine may be ahead of the operator's."""


def deletion(facts: DiagnosisFacts) -> Iterator[DiagnosedCause]:
    """A workload that is being deleted, and what it waits for."""
    since = parse_time(facts.metadata.get("deletionTimestamp"))
    if not facts.metadata.get("deletionTimestamp"):
        return
    listed = facts.metadata.get("finalizers")
    holders = (
        [lenient_text(item) for item in listed if lenient_text(item)] if isinstance(listed, list) else []
    )
    waits = f"; it waits for {', '.join(holders)}" if holders else ""
    evidence = () if since is None else (f"deletion began {_ago(facts, since.timestamp())} ago",)
    yield DiagnosedCause("Terminating", f"the workload is being deleted{waits}", "waits", evidence=evidence)


def unobserved(facts: DiagnosisFacts) -> Iterator[DiagnosedCause]:
    """A workload, or its last change, that no operator has acted on."""
    new = not facts.word
    behind = _behind(facts)
    if not new and not behind:
        return
    created = parse_time(facts.metadata.get("creationTimestamp"))
    waited = OBSERVED_WITHIN if created is None else (facts.now - created).total_seconds()
    what = "the workload" if new else f"the last change (generation {facts.metadata.get('generation')})"
    absent = absence(facts)
    if absent is not None:
        yield DiagnosedCause("OperatorAbsent", f"no operator runs, so nothing acts on {what}: {absent}")
    elif new and waited < OBSERVED_WITHIN:
        yield DiagnosedCause("NotObserved", "the workload was created a moment ago", "waits")
    elif rights := _incomplete_rights(facts):
        yield DiagnosedCause("OperatorForbidden", f"the operator lacks rights: {rights}")
    else:
        held = _holder(facts)
        who = f"; {held} holds its Lease" if held else ""
        state = "failed" if new else "waits"
        yield DiagnosedCause(
            "NotObserved",
            f"{what} is not yet observed by an operator{who}",
            "failed" if state == "failed" else "waits",
            evidence=(f"it was created {span(waited)} ago",) if new and created else (),
        )


def stale(facts: DiagnosisFacts) -> Iterator[DiagnosedCause]:
    """An operator that has gone since it observed the workload: the status may be out of date."""
    if not facts.word or _behind(facts) or facts.lease is None:
        return
    if absent := absence(facts):
        yield DiagnosedCause(
            "OperatorAbsent", f"no operator runs, so the status may be out of date: {absent}"
        )


def configuration(facts: DiagnosisFacts) -> Iterator[DiagnosedCause]:
    """A KaiwoConfig that is not in force as it is written."""
    for condition in lenient_maps(lenient_map(lenient_map(facts.config).get("status")).get("conditions")):
        if condition.get("type") == "Ready" and condition.get("status") == "False":
            reason = lenient_text(condition.get("reason")) or "InvalidValues"
            yield DiagnosedCause(
                "ConfigInvalid",
                f"KaiwoConfig is not in force as written ({reason}): {one_line(condition.get('message'))}",
                object="KaiwoConfig kaiwo",
            )
    if facts.word and (rights := _incomplete_rights(facts)):
        yield DiagnosedCause(
            "OperatorForbidden", f"the operator lacks rights: {rights}", object="KaiwoConfig kaiwo"
        )


def is_outdated(facts: DiagnosisFacts) -> bool:
    """Whether the status may not say what is so now: none is there, it is old, or nobody writes it."""
    if facts.word in TERMINAL:
        return False
    return not facts.word or _behind(facts) or (facts.lease is not None and absence(facts) is not None)


def absence(facts: DiagnosisFacts) -> str | None:
    """Why no operator runs, as far as its Lease shows; None where one runs or nobody can say."""
    if facts.lease is None:
        return "there is no Lease kaiwo-operator" if facts.lease_read else None
    spec = lenient_map(facts.lease.get("spec"))
    if not lenient_text(spec.get("holderIdentity")):
        return "nobody holds the Lease kaiwo-operator"
    renewed = parse_time(spec.get("renewTime"))
    lasts = spec.get("leaseDurationSeconds")
    seconds = float(lasts) if isinstance(lasts, int) and not isinstance(lasts, bool) else LEASE_SECONDS
    if renewed is None or (facts.now - renewed).total_seconds() > seconds + _SKEW:
        since = f" for {_ago(facts, renewed.timestamp())}" if renewed else ""
        return f"{_holder(facts)} has not renewed the Lease kaiwo-operator{since}"
    return None


def _behind(facts: DiagnosisFacts) -> bool:
    observed, generation = facts.status.get("observedGeneration"), facts.metadata.get("generation")
    return isinstance(observed, int) and isinstance(generation, int) and observed < generation


def _holder(facts: DiagnosisFacts) -> str:
    return one_line(lenient_map(lenient_map(facts.lease).get("spec")).get("holderIdentity"))


def _incomplete_rights(facts: DiagnosisFacts) -> str:
    """What is missing for this workload; with several installations each has a condition of its own."""
    conditions = lenient_map(lenient_map(facts.config).get("status")).get("conditions")
    missing = (
        one_line(item.get("message"))
        for item in lenient_maps(conditions)
        if lenient_text(item.get("type")).rpartition("/")[2] == "RightsComplete"
        and item.get("status") == "False"
    )
    own = f"namespace {lenient_text(facts.metadata.get('namespace'))}:"
    return next((text for text in missing if own in text or not text.startswith("namespace ")), "")


def _ago(facts: DiagnosisFacts, timestamp: float) -> str:
    return span(facts.now.timestamp() - timestamp)


def lease_state(lease: Object | None, facts: DiagnosisFacts) -> str:
    """The operator's Lease in a few words, for the chain; empty without one."""
    return "" if lease is None else absence(facts) or f"{_holder(facts)} is the leader"
