"""Why a workload is where it is: reads what its cluster holds, and lets the rules judge."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from kaiwo.client.chain_parts import has_rules, installed_parts
from kaiwo.client.record import Record
from kaiwo.client.why_facts import FactReader, queue_facts
from kaiwo.client.why_queue import waits, with_places
from kaiwo.plugin.diagnosis import ChainLink
from kaiwo.workload.diagnosis import operator
from kaiwo.workload.diagnosis.model import DiagnosedCause
from kaiwo.workload.diagnosis.rules import diagnose
from kaiwo.workload.json_access import lenient_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Object, Resource
    from kaiwo.plugin.diagnosis import QueueExplainer
    from kaiwo.plugin.registry import Plugins
    from kaiwo.workload.diagnosis.model import DiagnosisFacts


class Verdict(Record, frozen=True):
    """The answer of ``kaiwo why``.

    Attributes:
        kind: ``KaiwoJob`` or ``KaiwoService``.
        namespace: namespace of the workload.
        name: its name.
        status: its status word as the operator wrote it, empty where none has.
        reason: its reason, likewise.
        code: stable CamelCase code of the root cause; the reason of the status where that names the same.
        message: the root cause in one sentence.
        state: ``ok`` (nothing is wrong), ``waits`` (it goes on by itself), ``failed`` (somebody has to act),
            or ``unknown``.
        object: kind and name of the object that shows it, empty for the workload itself.
        evidence: facts that support it, one sentence each: events, restarts, last lines of logs.
        command: the command to run next.
        rule: name of the plugin's diagnosis rule that found it, empty for Kaiwo's own.
        others: further causes, the more severe first; each with the fields ``code`` to ``rule`` above.
        chain: every object from the workload to its pods: ``kind``, ``name``, ``state``, ``message``.
        unread: what may not be read and would have been looked at, one sentence each with the missing right.
    """

    kind: str
    namespace: str
    name: str
    status: str
    reason: str
    code: str
    message: str
    state: str
    object: str
    evidence: tuple[str, ...]
    command: str
    rule: str
    others: tuple[DiagnosedCause, ...]
    chain: tuple[ChainLink, ...]
    unread: tuple[str, ...]


async def why(api: Client, plugins: Callable[[], Plugins], workload: Object) -> Verdict:
    """Why a workload is where it is.

    The status has what the backend makes of the child, so plugins are not loaded for that; only for the place
    in a queue, where the status is missing or old, or where a plugin has diagnosis rules.

    Args:
        api: reads the cluster.
        plugins: loads the plugins; called only if they are needed.
        workload: the live KaiwoJob or KaiwoService.

    Raises:
        EngineError: the API server does not answer. What may not be read is named in `Verdict.unread`.
    """
    parts = installed_parts()
    reader = FactReader(api, parts, workload)
    facts = with_queue(await reader.read(), parts.queue, reader.queue_objects)
    queued, doubtful = waits(facts), has_rules() or operator.is_outdated(facts)
    if queued or doubtful:
        loaded = plugins()
        if queued:
            facts = await with_places(api, loaded, facts)
        if doubtful:
            from kaiwo.client.why_outcomes import with_outcomes

            facts = with_outcomes(facts, loaded, parts.queue, reader.queue_objects)
    return judge(facts, reader.unread)


def judge(facts: DiagnosisFacts, unread: Sequence[str] = ()) -> Verdict:
    """The verdict that follows from facts.

    Args:
        facts: what was read.
        unread: what may not be read.
    """
    found = diagnose(facts)
    cause = found.verdict
    return Verdict(
        kind=lenient_text(facts.workload.get("kind")),
        namespace=lenient_text(facts.metadata.get("namespace")),
        name=lenient_text(facts.metadata.get("name")),
        status=lenient_text(facts.status.get("status")),
        reason=lenient_text(facts.status.get("reason")),
        code=cause.code,
        message=cause.message,
        state=cause.state,
        object=cause.object,
        evidence=cause.evidence,
        command=cause.command,
        rule=cause.rule,
        others=found.others,
        chain=found.chain,
        unread=tuple(unread),
    )


def with_queue(
    facts: DiagnosisFacts,
    queue: QueueExplainer | None,
    objects: Mapping[Resource, tuple[Object, ...]],
) -> DiagnosisFacts:
    """The facts with what the queue system says; without it where its code fails."""
    if queue is None or facts.child is None:
        return facts
    with suppress(Exception):  # a plugin's code; an explanation that fails explains nothing
        return replace(facts, queue=queue.explain(facts.child, queue_facts(facts, objects)))
    return facts
