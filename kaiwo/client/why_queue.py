"""Who is ahead of a workload in its queue and who holds what it needs, as evidence for its verdict."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kaiwo.client.errors import ClientError
from kaiwo.engine.errors import ApiError
from kaiwo.plugin.observation import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaiwo.client.queue_records import QueueMember, QueueWait
    from kaiwo.engine.client import Client
    from kaiwo.plugin.registry import Plugins
    from kaiwo.workload.diagnosis.model import DiagnosisFacts

_MOST = 3
"""Workloads of each sort that are named."""


def waits(facts: DiagnosisFacts) -> bool:
    """Whether the workload waits in its queue, so that others matter to it."""
    links = facts.queue.links if facts.queue is not None and facts.queue.finding is not None else ()
    return any(link.state == "waits" for link in links)


async def with_places(api: Client, plugins: Plugins, facts: DiagnosisFacts) -> DiagnosisFacts:
    """The facts with the workload's place in its queue, and with those who hold the quota.

    Args:
        api: reads the cluster.
        plugins: loaded plugins, of which the queue system interprets what is read.
        facts: of a workload that waits.
    """
    from kaiwo.client.queue import waits_of

    if facts.queue is None or facts.queue.finding is None:
        return facts
    try:
        places = await waits_of(api, plugins, facts.workload)
    except (ClientError, ApiError):
        return facts  # whoever may not read the queues keeps what is known of the workload itself
    if not places:
        return facts
    finding = facts.queue.finding
    first = places[0]
    if finding.reason == "Queued" and first.position is not None:
        finding = Finding(finding.reason, _place(first))
    evidence = dict.fromkeys((*_lines(first), *facts.queue.evidence))
    queue = replace(facts.queue, finding=finding, evidence=tuple(evidence))
    return replace(facts, queue=queue)


def _place(wait: QueueWait) -> str:
    """The message about a workload that the queue system has not considered yet."""
    behind = f", behind {_named(wait.ahead[-1].workload)}" if wait.ahead else ""
    return f"waits at place {wait.position} of queue {wait.queue}{behind}"


def _lines(wait: QueueWait) -> Iterator[str]:
    if wait.position is not None:
        yield f"place {wait.position} in queue {wait.queue}"
    for other in wait.ahead[-_MOST:]:
        yield f"{_named(other.workload)} is ahead: {other.reason}"
    for need in wait.needs:
        yield (
            f"it requests {need.requested} {need.resource} of flavor {need.flavor}, of which {need.free} "
            "are free now"
        )
        for holder in need.held_by[:_MOST]:
            amounts = [held.amount for held in holder.holds if held.resource == need.resource]
            yield f"{_named(holder.workload)} holds {amounts[0] if amounts else 'some'} {need.resource}"
    for other in wait.went_first[:_MOST]:
        yield f"{_named(other.workload)} was queued later and runs: {other.reason}"
    if wait.estimate:
        latest = " at the latest" if wait.estimate_is_latest else ""
        yield f"it starts at {wait.estimate}{latest}: {wait.estimate_basis}"
    elif wait.estimate_basis:
        yield wait.estimate_basis


def _named(member: QueueMember) -> str:
    user = f" of {member.user}" if member.user else ""
    return f"{member.kind} {member.namespace}/{member.name}{user}"
