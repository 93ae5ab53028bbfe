"""The table of rules, and the diagnosis that they come to. Pure: nothing is read, nothing raises."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeAlias

from kaiwo.workload.diagnosis import operator, pods, preparation, status
from kaiwo.workload.diagnosis.chain import chain
from kaiwo.workload.diagnosis.model import DiagnosedCause, Diagnosis, DiagnosisFacts
from kaiwo.workload.diagnosis.nearest_gpus import nearest_gpus
from kaiwo.workload.diagnosis.next_commands import next_command
from kaiwo.workload.json_access import lenient_map, lenient_text, name_of
from kaiwo.workload.monitoring.advice import with_basis

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Rule: TypeAlias = "Callable[[DiagnosisFacts], Iterator[DiagnosedCause]]"

RULES: Final[tuple[Rule, ...]] = (
    operator.deletion,
    status.ended_well,
    operator.unobserved,
    preparation.volumes,
    status.blocked,
    preparation.download,
    pods.failures,
    pods.mounts,
    pods.problems,
    preparation.queue,
    status.findings,
    status.child,
    status.unapplied,
    operator.stale,
    operator.configuration,
)
"""All rules. The first cause that any of them finds is the verdict, so causes come before their effects."""

_FINAL: Final = (operator.deletion, status.ended_well)
"""Rules after which no other one matters."""

_LAST_THAT_EXPLAINS: Final = status.child
"""The rule after which the status as it is recorded is the verdict, where nothing was found: the rules that
follow add to a verdict."""

UNKNOWN: Final = DiagnosedCause("Unknown", "nothing that could be read says why", "unknown")
"""The verdict where no rule finds a cause."""


def diagnose(facts: DiagnosisFacts) -> Diagnosis:
    """Why a workload is where it is: one verdict, other causes, and the chain of objects.

    Args:
        facts: what could be read; what could not is simply not there.
    """
    found: dict[tuple[str, str], DiagnosedCause] = {}
    for rule in RULES:
        for cause in rule(facts):
            found.setdefault((cause.code, cause.rule), cause)
        if found and rule in _FINAL:
            break
        if rule is _LAST_THAT_EXPLAINS and not found:
            found |= {(cause.code, cause.rule): cause for cause in status.recorded(facts)}
    causes = [_with_command(cause, facts) for cause in found.values()] or [_with_command(UNKNOWN, facts)]
    if advice := with_basis(facts.status, facts.now):
        causes[0] = replace(causes[0], evidence=(*causes[0].evidence, advice))
    trouble = [cause for cause in causes[1:] if cause.state != "ok"]
    return Diagnosis(causes[0], tuple(trouble), chain(facts))


def _with_command(cause: DiagnosedCause, facts: DiagnosisFacts) -> DiagnosedCause:
    allocation = lenient_map(facts.status.get("allocation"))
    queue = lenient_text(lenient_map(facts.workload.get("spec")).get("clusterQueue")) or lenient_text(
        allocation.get("queue")
    )
    command = next_command(
        cause.code,
        kind=lenient_text(facts.workload.get("kind")),
        name=name_of(facts.workload),
        namespace=lenient_text(facts.metadata.get("namespace")),
        queue=queue,
        message=cause.message,
        change=nearest_gpus(lenient_map(facts.workload.get("spec")), cause.message),
        created=facts.child is not None or bool(lenient_text(facts.status.get("childUID"))),
    )
    return replace(cause, command=command)
