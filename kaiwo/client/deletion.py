"""Deleting workloads and everything that was created for them."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from kaiwo.client.errors import WaitTimeout
from kaiwo.client.kinds import BY_KIND
from kaiwo.client.lookup import label

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Object

_INTERVAL = 1.0  # seconds between two checks of what still exists


async def delete(api: Client, obj: Object) -> bool:
    """Delete exactly the workload that was read; True when it may take a while until it is gone."""
    from kaiwo.engine.errors import Conflict, NotFound

    metadata = obj["metadata"]
    try:
        answer = await api.delete(
            BY_KIND[obj["kind"]],
            metadata["namespace"],
            metadata["name"],
            uid=metadata["uid"],
            propagation="Background",
        )
    except (NotFound, Conflict):
        # Deleted meanwhile, perhaps replaced by another workload of that name, which stays.
        return False
    return bool(answer.get("kind") == obj["kind"])


async def wait_until_gone(
    api: Client,
    objects: Sequence[Object],
    timeout: float,  # noqa: ASYNC109 -- part of the result: it names what is still there
) -> None:
    """Return when none of the workloads exists any more.

    Args:
        api: where they are.
        objects: workloads that are being deleted.
        timeout: seconds.

    Raises:
        WaitTimeout: the time is over.
    """
    deadline = time.monotonic() + timeout
    left = list(objects)
    while left := [obj for obj, there in zip(left, await _exist(api, left), strict=True) if there]:
        if time.monotonic() >= deadline:
            names = ", ".join(label(obj) for obj in left)
            finalizers = sorted({f for obj in left for f in obj["metadata"].get("finalizers") or ()})
            why = f" (finalizers: {', '.join(finalizers)})" if finalizers else ""
            raise WaitTimeout(
                f"timed out after {timeout:g} s; still being deleted: {names}{why}",
                f"kaiwo list -n {left[0]['metadata']['namespace']}",
            )
        await asyncio.sleep(_INTERVAL)


async def _exist(api: Client, objects: Sequence[Object]) -> list[bool]:
    return await asyncio.gather(*(_exists(api, obj) for obj in objects))


async def _exists(api: Client, obj: Object) -> bool:
    from kaiwo.engine.errors import NotFound

    metadata = obj["metadata"]
    try:
        live = await api.get(BY_KIND[obj["kind"]], metadata["namespace"], metadata["name"])
    except NotFound:
        return False
    return bool(live["metadata"]["uid"] == metadata["uid"])
