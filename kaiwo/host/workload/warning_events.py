"""Reads the newest Warning event about an object, where nothing else names the cause of a problem.

That a quota rejects the pods of a Job shows in an event and nowhere else. Watching all events of a cluster
would cost more than all other watches together; one request per workload with a problem costs little.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kaiwo.engine.errors import EngineError
from kaiwo.engine.resource import EVENT
from kaiwo.plugin.observation import Finding
from kaiwo.workload.json_access import lenient_map, one_line

if TYPE_CHECKING:
    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Object

_log = logging.getLogger(__name__)

_UNSCHEDULED = "FailedScheduling"
"""The reason of the scheduler's Events about a pod that it finds no node for."""


async def newest(client: Client, obj: Object, owner: tuple[str, str] | None = None) -> Finding | None:
    """Reason and message of the newest Warning event about an object; None when none can be read.

    Args:
        client: sends the request.
        obj: a live namespaced object.
        owner: kind and name of the owner of its pods in its namespace, events about which count as well.
    """
    metadata = lenient_map(obj.get("metadata"))
    about = [f"involvedObject.uid={metadata.get('uid')}"]
    if owner is not None:
        about.append(f"involvedObject.kind={owner[0]},involvedObject.name={owner[1]}")
    # What kept the scheduler from choosing a node is over, for example a volume that was not bound yet.
    over = {_UNSCHEDULED} if lenient_map(obj.get("spec")).get("nodeName") else set()
    last: Object | None = None
    try:
        for selector in about:
            # Whoever may create Events may create any number about anything: one at a time is kept.
            async for event in client.list(
                EVENT, metadata.get("namespace"), field_selector=f"{selector},type=Warning"
            ):
                if event.get("reason") not in over and (last is None or _when(event) > _when(last)):
                    last = event
    except EngineError as error:
        _log.warning("events about %s %s: %s", obj.get("kind"), metadata.get("name"), error)
        return None
    if last is None:
        return None
    text = one_line(last.get("message"))
    return Finding(str(last.get("reason") or "Warning"), text)


def _when(event: Object) -> str:
    """RFC 3339 in UTC sorts as text; of an event of the newer form only ``eventTime`` is set."""
    series = lenient_map(event.get("series"))
    times = (series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    created = lenient_map(event.get("metadata")).get("creationTimestamp")
    return str(next((time for time in times if time), created or ""))
