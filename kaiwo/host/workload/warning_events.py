"""What a child's own controller complains of, read only where nothing else tells why the child stands still.

A Job whose pods a quota refuses says so in an event and nowhere else. Watching all events of a cluster for
that would cost more than all other watches together; one request per workload in trouble costs nothing.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kaiwo.engine.errors import EngineError
from kaiwo.engine.resource import EVENT
from kaiwo.plugin.observation import Finding
from kaiwo.workload.json_access import lenient_map

if TYPE_CHECKING:
    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Object

_log = logging.getLogger(__name__)


async def newest(client: Client, child: Object, maker: tuple[str, str] | None = None) -> Finding | None:
    """Reason and message of the newest Warning event about an object; None when none can be read.

    Args:
        client: who asks.
        child: a live namespaced object.
        maker: kind and name of another object in its namespace, events about which count as well.
    """
    metadata = lenient_map(child.get("metadata"))
    about = [f"involvedObject.uid={metadata.get('uid')}"]
    if maker is not None:
        about.append(f"involvedObject.kind={maker[0]},involvedObject.name={maker[1]}")
    try:
        events = [
            event
            for selector in about
            async for event in client.list(
                EVENT, metadata.get("namespace"), field_selector=f"{selector},type=Warning"
            )
        ]
    except EngineError as error:
        _log.warning("events about %s %s: %s", child.get("kind"), metadata.get("name"), error)
        return None
    if not events:
        return None
    last = max(events, key=_when)
    text = " ".join(str(last.get("message") or "").split())
    return Finding(str(last.get("reason") or "Warning"), text)


def _when(event: Object) -> str:
    """RFC 3339 in UTC sorts as text; of an event of the newer form only ``eventTime`` is set."""
    series = lenient_map(event.get("series"))
    times = (series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    created = lenient_map(event.get("metadata")).get("creationTimestamp")
    return str(next((time for time in times if time), created or ""))
