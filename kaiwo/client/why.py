"""Why a workload is where it is: reads what its cluster holds, and lets the rules judge."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.client.record import Record
from kaiwo.client.why_facts import FactReader
from kaiwo.plugin.diagnosis import ChainLink  # noqa: TC001 (a decoder reads the annotations)
from kaiwo.workload.diagnosis.model import Cause  # noqa: TC001
from kaiwo.workload.json_access import lenient_map

if TYPE_CHECKING:
    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Object
    from kaiwo.plugin.registry import Plugins


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
    others: tuple[Cause, ...]
    chain: tuple[ChainLink, ...]
    unread: tuple[str, ...]


async def why(api: Client, plugins: Plugins, workload: Object) -> Verdict:
    """Why a workload is where it is.

    Args:
        api: reads the cluster.
        plugins: loaded plugins; without the workload's backend less is known.
        workload: the live KaiwoJob or KaiwoService.

    Raises:
        EngineError: the API server does not answer. What may not be read is named in `Verdict.unread`.
    """
    from kaiwo.workload.diagnosis.rules import diagnose

    reader = FactReader(api, plugins, workload)
    facts = await reader.read()
    found = diagnose(facts)
    cause, status, metadata = found.verdict, facts.status, lenient_map(workload.get("metadata"))
    return Verdict(
        kind=str(workload.get("kind", "")),
        namespace=str(metadata.get("namespace", "")),
        name=str(metadata.get("name", "")),
        status=str(status.get("status") or ""),
        reason=str(status.get("reason") or ""),
        code=cause.code,
        message=cause.message,
        state=cause.state,
        object=cause.object,
        evidence=cause.evidence,
        command=cause.command,
        rule=cause.rule,
        others=found.others,
        chain=found.chain,
        unread=tuple(reader.unread),
    )
