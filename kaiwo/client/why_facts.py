"""Reads the facts of a diagnosis: few requests, those of one step at the same time."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kaiwo.api.installation import DEFAULT_NAMESPACE, OPERATOR
from kaiwo.client.kinds import KAIWO_CONFIG
from kaiwo.client.pods import adopted_pods
from kaiwo.engine.errors import ApiError, Forbidden, NotFound
from kaiwo.engine.resource import (
    CONFIG_MAP,
    EVENT,
    JOB,
    LEASE,
    NAMESPACE,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    SECRET,
    STORAGE_CLASS,
    Resource,
)
from kaiwo.plugin.queues import QueueFacts
from kaiwo.workload.diagnosis import questions
from kaiwo.workload.diagnosis.model import DiagnosisFacts, log_key
from kaiwo.workload.diagnosis.pods import downloads
from kaiwo.workload.json_access import lenient_map, lenient_text
from kaiwo.workload.labels import RUN_ID
from kaiwo.workload.storage.classes import storage_class

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kaiwo.client.chain_parts import ChainParts
    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Object

LOG_LINES = 5
"""Lines that are quoted of the log of a container that failed."""

_TERMINAL = ("COMPLETE", "FAILED", "TERMINATED")
_REFERENCES = {"Secret": SECRET, "ConfigMap": CONFIG_MAP}


class FactReader:
    """Reads what explains one workload.

    Attributes:
        queue_objects: what the queue system explains from, by kind.
        unread: what may not be read, one sentence each, in the order of reading.
    """

    def __init__(self, api: Client, parts: ChainParts, workload: Object) -> None:
        """Nothing is sent yet.

        Args:
            api: reads the cluster.
            parts: what installed plugins say of their part of the chain.
            workload: the live KaiwoJob or KaiwoService.
        """
        self._api = api
        self._queue = parts.queue
        self._children = parts.children_of(workload)
        self._workload = workload
        metadata = lenient_map(workload.get("metadata"))
        self._namespace = lenient_text(metadata.get("namespace"))
        self._uid = lenient_text(metadata.get("uid"))
        self._name = lenient_text(metadata.get("name"))
        self.queue_objects: dict[Resource, tuple[Object, ...]] = {}
        self.unread: list[str] = []

    async def read(self) -> DiagnosisFacts:
        """Everything, in two steps: the objects, then what those in trouble are asked."""
        status = lenient_map(self._workload.get("status"))
        ended = status.get("status") in _TERMINAL
        kinds = self._kinds()
        lists, self.queue_objects, config, (lease, lease_read) = await asyncio.gather(
            asyncio.gather(*(self._made(kind) for kind in (*kinds, POD))),
            self._queue_objects([lenient_text(status.get("childUID"))]),
            self._config(ended=ended),
            self._lease(ended=ended),
        )
        made = {kind: found or [] for kind, found in zip((*kinds, POD), lists, strict=True)}
        pods = made.pop(POD)
        child = self._child(made)
        facts = DiagnosisFacts(
            workload=self._workload,
            now=datetime.now(UTC),
            child=child,
            objects=tuple(obj for found in made.values() for obj in found if obj is not child),
            pods=tuple(pods),
            config=config,
            lease=lease,
            lease_read=lease_read,
        )
        return await self._with_details(facts)

    def _kinds(self) -> list[Resource]:
        return list(dict.fromkeys([*self._children, PERSISTENT_VOLUME_CLAIM, JOB]))

    def _child(self, made: Mapping[Resource, list[Object]]) -> Object | None:
        wanted = lenient_text(lenient_map(self._workload.get("status")).get("childUID"))
        for kind in self._children:
            for obj in made.get(kind, ()):
                metadata = lenient_map(obj.get("metadata"))
                if metadata.get("uid") == wanted or (not wanted and metadata.get("name") == self._name):
                    return obj
        return None

    async def _with_details(self, facts: DiagnosisFacts) -> DiagnosisFacts:
        """The second step: events, logs, classes, references, and what the queue has of single pods."""
        subjects = questions.event_subjects(facts)
        wanted = questions.log_questions(facts)
        references = questions.wanted_references(facts)
        events, logs, missing, classes, more = await asyncio.gather(
            asyncio.gather(*(self._events(subject) for subject in subjects)),
            asyncio.gather(*(self._log(question) for question in wanted)),
            asyncio.gather(*(self._is_missing(kind, name) for kind, name in references)),
            self._list(STORAGE_CLASS, everywhere=True) if questions.needs_classes(facts) else _nothing(),
            self._of_pods(facts),
        )
        self.queue_objects |= more
        found = {}
        for question, lines in zip(wanted, logs, strict=True):
            found[log_key(question.pod, question.container)] = tuple(lines)
        return replace(
            facts,
            events=tuple(event for group in events for event in group),
            logs=found,
            missing=tuple(ref for ref, absent in zip(references, missing, strict=True) if absent),
            storage_classes=None
            if classes is None
            else {one.name: one for one in (storage_class(item) for item in classes)},
        )

    async def _events(self, subject: Object) -> list[Object]:
        uid = lenient_text(lenient_map(subject.get("metadata")).get("uid"))
        return await self._list(EVENT, fields=f"involvedObject.uid={uid},type=Warning") or []

    async def _log(self, question: questions.LogQuestion) -> Sequence[str]:
        try:
            return await self._api.last_log_lines(
                self._namespace,
                question.pod,
                container=question.container,
                tail=LOG_LINES,
                previous=question.previous,
            )
        except Forbidden as error:
            self._note(f"logs: {error}")
        except ApiError:
            pass  # a container without a log, or a kubelet that does not answer
        return []

    async def _is_missing(self, kind: str, name: str) -> bool:
        try:
            await self._api.get(_REFERENCES[kind], self._namespace, name)
        except NotFound:
            return True
        except ApiError:
            pass  # most users may not read Secrets, and need not
        return False

    async def _config(self, *, ended: bool) -> Object | None:
        if ended:
            return None
        try:
            return await self._api.get(KAIWO_CONFIG, None, "kaiwo")
        except NotFound:
            return None
        except Forbidden as error:
            self._note(f"KaiwoConfig: {error}")
            return None

    async def _lease(self, *, ended: bool) -> tuple[Object | None, bool]:
        """The operator's Lease that was renewed last, and whether it could be read."""
        if ended:
            return None, False
        try:
            every = self._api.list(LEASE, field_selector=f"metadata.name={OPERATOR}")
            leases = [lease async for lease in every]
        except Forbidden:
            try:
                leases = [await self._api.get(LEASE, DEFAULT_NAMESPACE, OPERATOR)]
            except NotFound:
                leases = []
            except Forbidden as error:
                self._note(f"the operator's Lease: {error}")
                return None, False
        newest = max(
            leases, key=lambda one: lenient_text(lenient_map(one.get("spec")).get("renewTime")), default=None
        )
        return newest, True

    async def _queue_objects(self, uids: list[str]) -> dict[Resource, tuple[Object, ...]]:
        """What the queue system explains from; a kind that may not be read is not there at all."""
        queue = self._queue
        if queue is None:
            return {}
        found: dict[Resource, tuple[Object, ...]] = {}

        async def read(kind: Resource) -> None:
            objects: list[Object] | None
            if kind in queue.owned:
                objects = await self._list(kind, label=queue.owned_by(uids)) if any(uids) else []
            elif kind == NAMESPACE:
                objects = await self._list(kind, fields=f"metadata.name={self._namespace}", everywhere=True)
            else:
                objects = await self._list(kind, everywhere=not kind.namespaced)
            if objects is not None:
                found[kind] = tuple(objects)

        await asyncio.gather(*(read(kind) for kind in queue.reads))
        return found

    async def _of_pods(self, facts: DiagnosisFacts) -> dict[Resource, tuple[Object, ...]]:
        """What the queue system has of the pods, where it queues them one by one.

        Without a child, what it has of the download Job.
        """
        if self._queue is None:
            return {}
        known = self.queue_objects
        lacking = [kind for kind in self._queue.owned if kind in known and not known[kind]]
        if facts.child is None:
            subjects = [obj for obj in facts.objects if downloads(obj) and obj.get("kind") == JOB.kind]
        else:
            subjects = [facts.child, *(pod for pod in facts.pods if not downloads(pod))]
        found = [lenient_text(lenient_map(obj.get("metadata")).get("uid")) for obj in subjects]
        uids = [uid for uid in found if uid]
        if not lacking or not uids:
            return {}
        selector = self._queue.owned_by(uids)
        lists = await asyncio.gather(*(self._list(kind, label=selector) for kind in lacking))
        return {kind: tuple(found or ()) for kind, found in zip(lacking, lists, strict=True)}

    async def _made(self, kind: Resource) -> list[Object] | None:
        """The workload's objects of a kind, and of an adopted one the object itself and its pods."""
        adopted = adopted_pods(self._workload)
        if adopted and kind in self._children:
            return await self._list(kind, fields=f"metadata.name={self._name}")
        own = f"{RUN_ID}={self._uid}"
        return await self._list(kind, label=adopted if adopted and kind == POD else own)

    async def _list(
        self, kind: Resource, *, label: str | None = None, fields: str | None = None, everywhere: bool = False
    ) -> list[Object] | None:
        """Objects of a kind; none of one that the cluster does not serve, None where they may not be read."""
        namespace = None if everywhere or not kind.namespaced else self._namespace
        try:
            found = self._api.list(kind, namespace, label_selector=label, field_selector=fields)
            return [obj async for obj in found]
        except NotFound:
            return []
        except Forbidden as error:
            self._note(f"{kind}: {error}")
            return None

    def _note(self, sentence: str) -> None:
        if sentence not in self.unread:
            self.unread.append(sentence)


async def _nothing() -> None:
    return None


def queue_facts(facts: DiagnosisFacts, objects: Mapping[Resource, tuple[Object, ...]]) -> QueueFacts:
    """What a queue system explains from."""
    pods = tuple(pod for pod in facts.pods if not downloads(pod))
    return QueueFacts(objects=objects, default_queue="", pods=pods, now=facts.now)
