"""A child that may not start: its queue holds it, or somebody suspended it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.plugin.observation import Outcome
from kaiwo.workload.observe import pod_status

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaiwo.engine.resource import Object
    from kaiwo.plugin.observation import Observation


def waiting(seen: Observation, what: str, pods: Iterable[Object], *, suspended: bool) -> Outcome | None:
    """The state of a child that waits, None when it does not.

    Args:
        seen: what is known of the child.
        what: kind and name of the child, for messages.
        pods: pods of the current run.
        suspended: whether the child is suspended as its spec or its controller says.
    """
    admission = seen.admission
    if seen.queued and admission is not None and admission.state in ("pending", "evicted"):
        if suspended or not any(pod_status.runs(pod) for pod in pods):
            return Outcome("PENDING", admission.reason, admission.message)
        return None
    if not suspended:
        return None
    if seen.queued and admission is None:
        return Outcome("PENDING", "Queued", f"{what} waits for its queue")
    if seen.queued and admission is not None and admission.state == "admitted":
        return None  # the moment before it is started, told in the words of the moment after
    if seen.queued and admission is not None:
        return Outcome("PENDING", admission.reason, admission.message)
    return Outcome("PENDING", "Suspended", f"{what} is suspended; set its spec.suspend to false to start it")
