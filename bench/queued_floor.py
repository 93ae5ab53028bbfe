"""The floor of a queued job's CPU: the same watches, as many requests of the same size, and no deciding.

It is built on the engine's client, as the operator is: one watch on each kind that changes while a job passes
through Kueue; per KaiwoJob one POST of a finished Job, four status patches and four Events, each at the
change at which the operator sends it. It keeps no cache, compares nothing, retries nothing and elects no
leader. With ``--watch-only`` it sends nothing, beside an operator that does. A process of its own
(``python -m bench.queued_floor``).
"""

from __future__ import annotations

import argparse
import asyncio
import signal
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import msgspec
from uvloop import new_event_loop

from bench.following import READY
from bench.subject import QUEUE, RUN_TIME, finished_job, first_status
from kaiwo.api.crds import WORKLOADS
from kaiwo.engine import credentials
from kaiwo.engine.client import Client
from kaiwo.engine.resource import EVENT, JOB, POD
from kaiwo.workload.labels import RUN_ID
from kaiwo_kueue.kinds import CLUSTER_QUEUE, LOCAL_QUEUE, WORKLOAD

if TYPE_CHECKING:
    from kaiwo.engine.resource import Object, Resource

KAIWO_JOB = WORKLOADS["KaiwoJob"]
_STATES: dict[str, tuple[str, str]] = {
    "PENDING": ("Queued", "It waits in the queue kaiwo: insufficient unused quota for amd.com/gpu."),
    "STARTING": ("NoContainerYet", "The Job exists; no container runs yet."),
    "RUNNING": ("Running", "1 of 1 pods run."),
    "COMPLETE": ("Complete", "The Job is complete."),
}
"""Reasons and messages, in the length of the operator's own."""


class _Owner(msgspec.Struct):
    name: str


class _Metadata(msgspec.Struct, rename="camel"):
    name: str
    namespace: str = ""
    uid: str = ""
    annotations: dict[str, str] = {}
    owner_references: tuple[_Owner, ...] = ()


class _Condition(msgspec.Struct):
    type: str
    status: str = ""


class _Status(msgspec.Struct):
    conditions: tuple[_Condition, ...] = ()


class _Seen(msgspec.Struct):
    metadata: _Metadata
    status: _Status = msgspec.field(default_factory=_Status)

    def holds(self, condition: str) -> bool:
        """Whether a condition is true."""
        return any(item.type == condition and item.status == "True" for item in self.status.conditions)


_decode = msgspec.json.Decoder(_Seen).decode


class _Floor:
    """What is sent for the KaiwoJobs of one namespace, or of all."""

    def __init__(self, client: Client, namespace: str | None, *, watch_only: bool) -> None:
        self._client = client
        self._namespace = namespace
        self._watch_only = watch_only
        self._sent: set[tuple[str, str, str]] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def follow(self) -> None:
        """Follow all kinds until cancelled."""
        kinds: dict[Resource, str | None] = dict.fromkeys(
            (KAIWO_JOB, JOB, POD, WORKLOAD, CLUSTER_QUEUE, LOCAL_QUEUE)
        )
        kinds[POD] = RUN_ID
        versions = {kind: await self._version(kind) for kind in kinds}
        print(READY, flush=True)
        async with asyncio.TaskGroup() as group:
            for kind, selector in kinds.items():
                group.create_task(self._watch(kind, selector, versions[kind]))

    def _place(self, kind: Resource) -> str | None:
        return self._namespace if kind.namespaced else None

    async def _version(self, kind: Resource) -> str:
        page = await anext(self._client.pages(kind, self._place(kind)))
        return page.resource_version

    async def _watch(self, kind: Resource, selector: str | None, version: str) -> None:
        changes = self._client.watch(
            kind, self._place(kind), resource_version=version, label_selector=selector, stall=600
        )
        async with aclosing(changes):
            async for type_, raw in changes:
                if type_ != "BOOKMARK" and not self._watch_only:
                    self._send_for(kind, type_, raw)

    def _send_for(self, kind: Resource, type_: str, raw: msgspec.Raw) -> None:
        """Send what the operator sends at a change."""
        if kind == KAIWO_JOB and type_ == "ADDED":
            self._once(_decode(raw).metadata, "PENDING")
        elif kind == WORKLOAD and type_ == "MODIFIED":
            seen = _decode(raw)
            if seen.holds("Admitted"):
                self._once(seen.metadata, "STARTING", seen.metadata.owner_references[0].name)
        elif kind == POD and type_ == "MODIFIED":
            seen = _decode(raw)
            if seen.holds("Ready"):
                self._once(seen.metadata, "RUNNING", seen.metadata.name.rpartition("-")[0])
        elif kind == JOB and type_ == "MODIFIED":
            seen = _decode(raw)
            if seen.holds("Complete"):
                self._once(seen.metadata, "COMPLETE")

    def _once(self, metadata: _Metadata, state: str, name: str = "") -> None:
        name = name or metadata.name
        key = (metadata.namespace, name, state)
        if key not in self._sent:
            self._sent.add(key)
            task = asyncio.create_task(self._send(metadata, name, state))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _send(self, metadata: _Metadata, name: str, state: str) -> None:
        namespace, client = metadata.namespace, self._client
        if state == "PENDING":
            await client.create(JOB, _job(metadata), field_manager="bench", field_validation="Strict")
        reason, message = _STATES[state]
        status = first_status() | {"status": state, "reason": reason, "message": message}
        patch = {"status": status}
        await client.merge_patch(
            KAIWO_JOB, namespace, name, patch, subresource="status", field_manager="bench"
        )
        await client.create(EVENT, _event(namespace, name, state))


def _job(owner: _Metadata) -> Object:
    """The Job of a KaiwoJob, in the default queue."""
    job: dict[str, Any] = finished_job(owner.name, owner.namespace, owner.uid)
    job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = QUEUE
    job["spec"]["suspend"] = True
    if RUN_TIME in owner.annotations:
        job["spec"]["template"]["metadata"]["annotations"] = {RUN_TIME: owner.annotations[RUN_TIME]}
    return job


def _event(namespace: str, name: str, state: str) -> Object:
    """An Event as the operator sends it."""
    now = "2026-01-01T00:00:00Z"
    reason, message = _STATES[state]
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{name}.{state.lower()}", "namespace": namespace},
        "involvedObject": {
            "apiVersion": KAIWO_JOB.api_version, "kind": "KaiwoJob", "namespace": namespace, "name": name,
        },
        "type": "Normal",
        "reason": reason,
        "message": message,
        "source": {"component": "bench"},
        "reportingComponent": "bench",
        "reportingInstance": "bench-0",
        "count": 1,
        "firstTimestamp": now,
        "lastTimestamp": now,
    }  # fmt: skip


async def _run(kubeconfig: str, namespace: str | None, *, watch_only: bool) -> None:
    async with Client(credentials.load(kubeconfig), user_agent="bench-floor") as client:
        following = asyncio.ensure_future(_Floor(client, namespace, watch_only=watch_only).follow())
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, following.cancel)
        await asyncio.wait([following])
        if not following.cancelled():
            following.result()


def main() -> None:
    """Entry point of the process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--namespace")
    parser.add_argument("--watch-only", action="store_true")
    given = parser.parse_args()
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(_run(given.kubeconfig, given.namespace, watch_only=given.watch_only))


if __name__ == "__main__":
    main()
