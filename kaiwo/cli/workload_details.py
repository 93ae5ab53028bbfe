"""Reading what was created for one workload: objects, pods, events."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kaiwo.client.pods import adopted_pods
from kaiwo.engine.resource import EVENT, POD
from kaiwo.workload.diagnosis.evidence import event_order
from kaiwo.workload.labels import RUN_ID

if TYPE_CHECKING:
    from kaiwo.cli.kit import Cluster
    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Object, Resource

_MAX_EVENT_SUBJECTS = 20
"""Objects whose events are read; a workload of more pods shows those of the first ones."""


@dataclass(frozen=True, slots=True)
class WorkloadDetails:
    """What was created for a workload.

    Attributes:
        objects: everything but pods.
        pods: its pods.
        events: about all of them and the workload, oldest first.
        missing: kinds that could not be read, with the reason.
    """

    objects: list[Object] = field(default_factory=list)
    pods: list[Object] = field(default_factory=list)
    events: list[Object] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


def read_details(cluster: Cluster, workload: Object, kinds: list[Resource]) -> WorkloadDetails:
    """Everything that was created for a workload; what may not be read is named in `missing`."""
    return cluster.run(lambda client: gather_details(client, workload, kinds))


async def gather_details(client: Client, workload: Object, kinds: list[Resource]) -> WorkloadDetails:
    """The same for code that runs in an event loop."""
    namespace, uid = workload["metadata"]["namespace"], workload["metadata"]["uid"]
    selector = f"{RUN_ID}={uid}"
    found = WorkloadDetails()
    lists = await asyncio.gather(
        *(_list(client, kind, namespace, found, label=selector) for kind in kinds),
        _list(client, POD, namespace, found, label=adopted_pods(workload) or selector),
    )
    for kind, objects in zip((*kinds, POD), lists, strict=True):
        (found.pods if kind == POD else found.objects).extend(objects)
    subjects = [workload, *found.objects, *found.pods][:_MAX_EVENT_SUBJECTS]
    events = await asyncio.gather(
        *(
            _list(client, EVENT, namespace, found, fields=f"involvedObject.uid={subject['metadata']['uid']}")
            for subject in subjects
        )
    )
    found.events.extend(event for group in events for event in group)
    found.events.sort(key=event_order)
    return found


async def _list(
    client: Client,
    kind: Resource,
    namespace: str,
    found: WorkloadDetails,
    *,
    label: str | None = None,
    fields: str | None = None,
) -> list[Object]:
    from kaiwo.engine.errors import Forbidden, NotFound

    try:
        objects = client.list(kind, namespace, label_selector=label, field_selector=fields)
        return [obj async for obj in objects]
    except NotFound:
        return []
    except Forbidden as error:
        text = f"{kind} are not shown: {error}"
        if text not in found.missing:
            found.missing.append(text)
        return []
