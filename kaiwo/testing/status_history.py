"""Records every status of a workload, from its creation on.

A test that reads only the last status misses those before it. A `StatusHistory` keeps them all, and checks
that no other status was written between two expected ones and that there was one event per transition.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, Self

import msgspec

from kaiwo.api.crds import WORKLOADS
from kaiwo.engine import errors
from kaiwo.engine.resource import EVENT
from kaiwo.testing.assertions import require

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kaiwo.api.plugin_fields import WorkloadKind
    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Object

_log = logging.getLogger(__name__)

Times = Literal["none", "started", "awaited", "restarted", "kept", "ended", "unstarted"]
"""What the times of a status must be: no times; a start and no end; the same, where the start may be written
after the word and is waited for; a start after the last one seen; the start last seen; a start, an end and
the seconds between; an end without a start."""

FINE = {"Schedulable": "True/Schedulable", "SpecApplied": "True/Applied"}
"""Conditions of a workload that runs without a queue."""

_EVENT_REASONS = {
    "PENDING": "WorkloadPending",
    "STARTING": "WorkloadStarting",
    "RUNNING": "WorkloadRunning",
    "READY": "WorkloadReady",
    "COMPLETE": "WorkloadComplete",
    "FAILED": "WorkloadFailed",
    "ERROR": "WorkloadError",
}
_EVENT_TIMEOUT = 45.0
_EVENT_PAUSE = 0.5


class StatusHistory:
    """The statuses of one workload.

    Attributes:
        history: every status written so far, oldest first.
    """

    def __init__(self, client: Client, namespace: str, kind: WorkloadKind, name: str) -> None:
        """Name the workload; `begin` creates it.

        Args:
            client: speaks to the API server.
            namespace: of the workload.
            kind: of the workload.
            name: of the workload.
        """
        self.history: list[Object] = []
        self._client = client
        self._namespace = namespace
        self._resource = WORKLOADS[kind]
        self._name = name
        self._at = 0
        self._word = ""
        self._start = ""
        self._child = ""
        self._uid = ""
        self._news = asyncio.Event()
        self._follower: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Nothing yet; the workload is created by `begin`."""
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Stop to follow."""
        if self._follower is not None:
            self._follower.cancel()
            await asyncio.gather(self._follower, return_exceptions=True)
        _log.info("statuses of %s:\n%s", self._name, self.lines())

    async def begin(self, spec: Object, annotations: Mapping[str, str] | None = None) -> Object:
        """Create the workload and follow it from then on."""
        created = await self._client.create(
            self._resource,
            {
                "apiVersion": self._resource.api_version,
                "kind": self._resource.kind,
                "metadata": {
                    "name": self._name,
                    "namespace": self._namespace,
                    "annotations": dict(annotations or {}),
                },
                "spec": spec,
            },
        )
        self._uid = created["metadata"]["uid"]
        self._follower = asyncio.create_task(self._follow(created["metadata"]["resourceVersion"]))
        return created

    async def _follow(self, version: str) -> None:
        while True:
            changes = self._client.watch(self._resource, self._namespace, resource_version=version)
            async with contextlib.aclosing(changes):
                with contextlib.suppress(errors.ConnectionBroken):
                    async for kind, raw in changes:
                        seen = msgspec.json.decode(raw)
                        version = seen["metadata"]["resourceVersion"]
                        if kind not in {"ADDED", "MODIFIED"} or seen["metadata"].get("uid") != self._uid:
                            continue
                        status = seen.get("status") or {}
                        if status and (not self.history or status != self.history[-1]):
                            self.history.append(status)
                            self._news.set()

    async def sees(
        self,
        word: str,
        *reasons: str,
        message: str = "",
        times: Times,
        via: Sequence[str] = (),
        conditions: Mapping[str, str] | None = None,
        new_child: bool = False,
        timeout: float = 120.0,
    ) -> Object:
        """Wait for the next status with a word and one of some reasons, and check all of it.

        Args:
            word: ``status.status``.
            reasons: of which ``status.reason`` is one.
            message: regular expression to be found in ``status.message``.
            times: see `Times`.
            via: other words that may have been written since the status seen last.
            conditions: all of them, ``{"Admitted": "False/Pending"}``, where ``{reason}`` stands for the
                status' own reason; `FINE` by default.
            new_child: the object that runs the workload is another one than before.
            timeout: seconds.

        Returns:
            The status.

        Raises:
            AssertionError: it was not written in time, another one came before it, or it differs.
        """
        try:
            async with asyncio.timeout(timeout):
                found = await self._next(word, reasons, message, started=times == "awaited")
        except TimeoutError:
            raise AssertionError(
                f"{self._name} never had status {word}/{'|'.join(reasons)} {message!r}:\n{self.lines()}"
            ) from None
        written = {str(status["status"]) for status in self.history[self._at : found]}
        extra = written - {self._word, word, *via}
        require(not extra, f"{self._name} had status {extra} before {word}:\n{self.lines()}")
        status = self.history[found]
        self._at, self._word = found + 1, word
        where = f"{word}/{status.get('reason')} of {self._name}: {status}\n{self.lines()}"
        shown = {item["type"]: f"{item['status']}/{item['reason']}" for item in status.get("conditions", ())}
        wanted = (FINE if conditions is None else conditions).items()
        reason = str(status.get("reason", ""))
        require(shown == {kind: text.replace("{reason}", reason) for kind, text in wanted}, where)
        self._check_times(status, times, where)
        child = str(status.get("childUID") or "")
        if child:
            require(
                not self._child or (child != self._child) == new_child, f"childUID was {self._child}: {where}"
            )
            self._child = child
        return status

    async def _next(self, word: str, reasons: Sequence[str], message: str, *, started: bool) -> int:
        start = self._at
        while True:
            self._news.clear()
            for index in range(start, len(self.history)):
                status = self.history[index]
                if (
                    status.get("status") == word
                    and (not reasons or status.get("reason") in reasons)
                    and re.search(message, str(status.get("message", "")))
                    and ("startTime" in status or not started)
                ):
                    return index
            start = len(self.history)
            await self._news.wait()

    def _check_times(self, status: Object, times: Times, where: str) -> None:
        start: str = status.get("startTime", "")
        end: str = status.get("completionTime", "")
        require(bool(start) == (times not in ("none", "unstarted")), f"startTime: {where}")
        require(bool(end) == (times in ("ended", "unstarted")), f"completionTime: {where}")
        if times == "kept":
            require(start == self._start, f"startTime was {self._start}: {where}")
        if times == "restarted":
            require(start > self._start, f"startTime was {self._start}: {where}")
        if times == "ended":
            lasted = datetime.fromisoformat(end) - datetime.fromisoformat(start)
            require(abs(status["duration"] - lasted.total_seconds()) <= 1, f"duration: {where}")
        self._start = start or self._start

    def check_absent(self, *words: str) -> None:
        """Check that the workload never had some statuses.

        Raises:
            AssertionError: it had one of them.
        """
        written = {status["status"] for status in self.history} & set(words)
        require(not written, f"{self._name} had status {written}:\n{self.lines()}")

    async def check_events(self, *warnings: str) -> None:
        """Check the events: one per transition, and these warnings.

        Raises:
            AssertionError: there are others, or some are missing.
        """
        expected: dict[str, int] = dict.fromkeys(warnings, 1)
        word = ""
        for status in self.history:
            if status["status"] != word:
                word = status["status"]
                expected[_EVENT_REASONS[word]] = expected.get(_EVENT_REASONS[word], 0) + 1
        found: dict[str, int] = {}
        for _ in range(int(_EVENT_TIMEOUT / _EVENT_PAUSE)):
            found = await self._events(warnings)
            if found == expected:
                return
            await asyncio.sleep(_EVENT_PAUSE)
        raise AssertionError(f"events {found}, not {expected}:\n{self.lines()}")

    async def _events(self, warnings: Sequence[str]) -> dict[str, int]:
        """How often each reason was recorded; warnings that may be repeated count once."""
        found: dict[str, int] = {}
        selector = f"involvedObject.uid={self._uid}"
        async for event in self._client.list(EVENT, self._namespace, field_selector=selector):
            reason = event["reason"]
            word = {name: key for key, name in _EVENT_REASONS.items()}.get(reason)
            bad = word in (None, "FAILED", "ERROR")
            require(event["type"] == ("Warning" if bad else "Normal"), str(event))
            found[reason] = 1 if reason in warnings else found.get(reason, 0) + event["count"]
        return found

    def lines(self) -> str:
        """All statuses, one line each."""
        return "\n".join(
            " ".join(
                str(status.get(name, "-"))
                for name in ("status", "reason", "startTime", "completionTime", "message")
            )
            for status in self.history
        )

    async def patch(self, body: Object) -> Any:
        """Merge-patch the workload."""
        return await self._client.merge_patch(self._resource, self._namespace, self._name, body)
