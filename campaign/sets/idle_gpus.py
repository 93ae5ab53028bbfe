"""Set K, for the rule of the plugin gpu_preemption: pods of anybody whose GPUs are idle, on a control plane.

Two pods leave their GPUs idle, and are to be ended for it. Then the faults of the metrics endpoint come for
longer than the grace period, as in `campaign.sets.monitoring`, with the same statements.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from functools import partial
from typing import TYPE_CHECKING, Final

from campaign import oracles
from campaign.arena import PLUGINS
from campaign.case import Case
from campaign.metrics_feed import Feed, Sample
from campaign.sets.monitoring import CONTROL, FAULTS, VICTIM
from campaign.violation import ViolationError
from kaiwo.engine.errors import NotFound
from kaiwo.engine.resource import NODE, POD
from kaiwo.testing.exporter import Exporter
from kaiwo.testing.monitored import GPUS, MonitoredCluster
from kaiwo.testing.operator import until
from kaiwo_gpu_preemption.kinds import GPU_WORKLOAD
from kaiwo_gpu_preemption.policy import PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterator

    from campaign.arena import Arena
    from campaign.sets.monitoring import Fault
    from kaiwo.engine.resource import Object

OTHERS: Final = frozenset({"half-of-pods", "replaced-pod"})
"""Faults of a cluster in one process; here pods are real ones."""

_GRACE: Final = 12
_FAULTY: Final = 2.0 * _GRACE
"""Seconds for which the endpoint is faulty: what is idle is ended after the grace period."""

_TICK: Final = 0.5
_LIMIT: Final = 60.0


def cases() -> Iterator[Case]:
    """A case for each fault that an endpoint with Prometheus text can have."""
    for name, fault in FAULTS.items():
        if "text" in fault.forms and name not in OTHERS:
            yield Case("K", f"{name}-pods", partial(_run, fault), own=True)


async def _run(fault: Fault, arena: Arena) -> None:
    async with Exporter() as exporter:
        samples = [Sample(f"{name}-0", gpu) for name in (VICTIM, CONTROL) for gpu in range(GPUS)]
        feed = Feed(exporter, "text", MonitoredCluster(exporter.url), samples, namespace=arena.namespace)
        feed.attach()
        node = await anext(arena.client.list(NODE))
        for name in (VICTIM, CONTROL):
            await arena.client.create(POD, _pod(arena.namespace, f"{name}-0", node["metadata"]["name"]))
        environment = {"METRICS_ENDPOINT": exporter.url, "POLLING_INTERVAL": "1s"}
        operator = await arena.start_operator(
            plugins=f"{PLUGINS},gpu_preemption",
            env={f"GPU_PREEMPTION_{name}": value for name, value in environment.items()},
        )
        began = time.monotonic()
        for name in (VICTIM, CONTROL):
            await _becomes_idle(arena, f"{name}-0")
        asked, faulty = len(exporter.requests), time.monotonic()
        while time.monotonic() < faulty + _FAULTY:
            feed.cluster.seconds = time.monotonic() - began
            fault.begin(feed)
            await asyncio.sleep(_TICK)
            if not await _is_there(arena, f"{VICTIM}-0"):
                raise ViolationError("O9", "ended on data that say nothing")
        if len(exporter.requests) == asked:
            raise ViolationError("fault", "the endpoint was not asked while it was faulty")
        if fault.partial == await _is_there(arena, f"{CONTROL}-0"):
            words = "was not ended, so nothing was tested" if fault.partial else "was ended without data"
            raise ViolationError("fault" if fault.partial else "O9", f"the other pod {words}")
        feed.samples, feed.more = samples, ""
        feed.attach()
        for name in (VICTIM, CONTROL):
            await _ends(arena, f"{name}-0")
        oracles.no_traceback(operator)


async def _becomes_idle(arena: Arena, pod: str) -> None:
    """Wait until the record of a pod says that its GPUs are idle."""
    uid = (await arena.client.get(POD, arena.namespace, pod))["metadata"]["uid"]

    def idle(record: Object | None) -> bool:
        return ((record or {}).get("status") or {}).get("phase") == "Idle"

    name = f"pod-{pod}-{uid[:8]}"
    try:
        await until(arena.client, GPU_WORKLOAD, arena.namespace, name, idle, timeout=_LIMIT)
    except AssertionError as error:
        raise ViolationError("fault", f"not idle before: {error}") from None


async def _ends(arena: Arena, pod: str) -> None:
    """Wait until a pod is ended, which it has to be on usable data."""
    for _ in range(int(_LIMIT / _TICK)):
        if not await _is_there(arena, pod):
            return
        await asyncio.sleep(_TICK)
    raise ViolationError("fault", f"{pod} was never ended, so nothing was tested")


async def _is_there(arena: Arena, pod: str) -> bool:
    with contextlib.suppress(NotFound):
        live = await arena.client.get(POD, arena.namespace, pod)
        return "deletionTimestamp" not in live["metadata"]
    return False


def _pod(namespace: str, name: str, node: str) -> Object:
    container = {"name": "c", "image": "x", "resources": {"limits": {"amd.com/gpu": str(GPUS)}}}
    wishes = {"enabled": "true", "policy": "Always", "grace-period": f"{_GRACE}s"}
    annotations = {f"{PREFIX}{wish}": value for wish, value in wishes.items()}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "annotations": {"kaiwo-sandbox/forever": "true", **annotations},
        },
        # Bound here, so that no case waits for GPUs of another one.
        "spec": {"containers": [container], "nodeName": node},
    }
