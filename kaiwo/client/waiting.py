"""Waiting until workloads reach a state, from a watch."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kaiwo.api.status_words import TERMINAL
from kaiwo.client import workload_fields
from kaiwo.client.errors import InvalidArgument, WaitTimeout, WorkloadFailed
from kaiwo.client.kinds import BY_KIND
from kaiwo.client.list_watch import ListScope, ListWatch, is_transient
from kaiwo.client.lookup import label

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Object

    OnChange = Callable[[Object], None]
    """Called with a workload whenever its status or reason has changed."""

ERROR_SECONDS = 30.0
"""How long a workload may be in ERROR, which can heal by itself, where no timeout was given."""

DONE = ("COMPLETE", "READY")
"""What is waited for unless something else is named."""

_SHORTEST = 0.05
"""Seconds that a read gets at least, also where the time is nearly over."""

_LONGEST = 60.0
"""Seconds after which everything is read again, whatever the watch reports."""


@dataclass(slots=True)
class _Waited:
    """One workload that is waited for.

    Attributes:
        label: ``job/train``.
        namespace: where it is.
        word: status that was seen last.
        reason: reason that was seen last.
        error_since: when it was first seen in ERROR, without a break since; None otherwise.
        last: the workload as it was read last.
    """

    label: str
    namespace: str
    last: Object
    word: str = ""
    reason: str = ""
    error_since: float | None = None


def _state(obj: Object) -> str:
    return workload_fields.word(obj) or "not yet observed by an operator"


def check_timeout(seconds: object) -> None:
    """Refuse what is no number of seconds before anything is read or changed.

    Raises:
        InvalidArgument: it is not.
    """
    if seconds is None:
        return
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds >= 0:
        raise InvalidArgument(
            f"timeout: expected seconds as a number of 0 or more, got {seconds!r}",
            "of a timedelta: its total_seconds()",
        )


class WaitState:
    """What has become of workloads that are waited for; decides without reading anything.

    Args:
        objects: workloads as the API server returned them.
        until: statuses that end the wait for a workload.
        timeout: seconds from the first `observe`; None waits for ever, but not for one that stays in ERROR.
        on_change: called for each change of status or reason.
    """

    def __init__(
        self,
        objects: Sequence[Object],
        *,
        until: Collection[str] = DONE,
        timeout: float | None = None,
        on_change: OnChange | None = None,
    ) -> None:
        self._until = frozenset(until)
        self._timeout = timeout
        self._on_change = on_change
        self._deadline: float | None = None
        self._all = {
            obj["metadata"]["uid"]: _Waited(label(obj), obj["metadata"]["namespace"], obj) for obj in objects
        }
        self._pending = dict(self._all)
        self._failed: list[tuple[_Waited, str]] = []

    @property
    def done(self) -> bool:
        """Whether nothing is waited for any more."""
        return not self._pending

    @property
    def objects(self) -> list[Object]:
        """All workloads as they were read last."""
        return [waited.last for waited in self._all.values()]

    def observe(self, live: Mapping[str, Object], now: float) -> None:
        """Take in what was read.

        Args:
            live: all workloads that exist, by uid.
            now: seconds of a clock that only grows.

        Raises:
            WaitTimeout: the time is over.
        """
        for uid, waited in list(self._pending.items()):
            outcome = self._outcome(waited, live.get(uid))
            if outcome is None and self._timeout is None:
                outcome = _stuck(waited, now)
            if outcome is not None:
                del self._pending[uid]
                self._failed += [(waited, outcome)] if outcome else []
        self.check_time(now)

    def check_time(self, now: float) -> None:
        """Raise when the time is over.

        Raises:
            WaitTimeout: it is.
        """
        if self._timeout is None:
            return
        self._deadline = now + self._timeout if self._deadline is None else self._deadline
        if self._pending and now >= self._deadline:
            still = list(self._pending.values())
            named = ", ".join(f"{one.label} ({_state(one.last)})" for one in still)
            raise WaitTimeout(
                f"timed out waiting for {named}", f"kaiwo status {still[0].label} -n {still[0].namespace}"
            )

    def seconds_left(self, now: float) -> float:
        """Until something is due although nothing changes."""
        due = [self._deadline] if self._deadline is not None else []
        if self._timeout is None:
            since = (waited.error_since for waited in self._pending.values())
            due += [moment + ERROR_SECONDS for moment in since if moment is not None]
        return max(0.0, min([_LONGEST, *(moment - now for moment in due)]))

    def raise_failures(self) -> None:
        """Raise when a workload ended otherwise.

        Raises:
            WorkloadFailed: one or several did.
        """
        if self._failed:
            first = self._failed[0][0]
            raise WorkloadFailed(
                "; ".join(what for _, what in self._failed),
                f"kaiwo status {first.label} -n {first.namespace} shows why",
            )

    def _outcome(self, waited: _Waited, current: Object | None) -> str | None:
        """None while it goes on, empty when it reached a state that was waited for, else what went wrong."""
        if current is None:
            return f"{waited.label} was deleted"
        waited.last = current
        status = workload_fields.status(current)
        word, reason = str(status.get("status") or ""), workload_fields.reason(current)
        generation = current["metadata"].get("generation", 0)
        if (waited.word, waited.reason) != (word, reason):
            waited.word, waited.reason = word, reason
            if word and self._on_change is not None:
                self._on_change(current)
        # A status of an older spec does not describe this one.
        if status.get("observedGeneration", generation) != generation:
            return None
        if word in self._until:
            return ""
        message = workload_fields.message(current) or reason
        return f"{waited.label} is {word}: {message}" if word in TERMINAL else None


def _stuck(waited: _Waited, now: float) -> str | None:
    """What went wrong with a workload that stays in ERROR; None while it may heal by itself."""
    if waited.word != "ERROR":
        waited.error_since = None
        return None
    waited.error_since = now if waited.error_since is None else waited.error_since
    if now - waited.error_since < ERROR_SECONDS:
        return None
    message = workload_fields.message(waited.last) or waited.reason
    return f"{waited.label} is in ERROR for {ERROR_SECONDS:g} s: {message}"


async def wait(
    api: Client,
    objects: Sequence[Object],
    *,
    until: Collection[str] = DONE,
    timeout: float | None = None,  # noqa: ASYNC109 -- part of the result: it names what is still waited for
    on_change: OnChange | None = None,
) -> list[Object]:
    """Return when all workloads have one of the statuses; a connection that breaks is mended silently.

    Args:
        api: where they are.
        objects: workloads as the API server returned them.
        until: statuses that end the wait for a workload.
        timeout: seconds; None waits for ever, but not for a workload that stays in ERROR.
        on_change: called with a workload whenever its status or reason has changed.

    Returns:
        the workloads as they were read last.

    Raises:
        WorkloadFailed: one ended otherwise, stayed in ERROR, or was deleted.
        WaitTimeout: the time is over.
    """
    state = WaitState(objects, until=until, timeout=timeout, on_change=on_change)
    state.check_time(time.monotonic())
    source = ListWatch(api, _scopes(objects))
    delay = 1.0
    try:
        while True:
            pause = 0.0
            try:
                async with asyncio.timeout(max(_SHORTEST, state.seconds_left(time.monotonic()))):
                    found = await source.read(watch=True)
            except Exception as error:
                if not is_transient(error):
                    raise
                state.check_time(time.monotonic())
                pause, delay = delay, min(2 * delay, 30.0)
            else:
                delay = 1.0
                state.observe({obj["metadata"]["uid"]: obj for obj in found}, time.monotonic())
            if state.done:
                break
            seconds = state.seconds_left(time.monotonic())
            if pause:
                await asyncio.sleep(min(pause, seconds))
            else:
                await source.changed(seconds)
    finally:
        await source.close()
    state.raise_failures()
    return state.objects


def _scopes(objects: Sequence[Object]) -> list[ListScope]:
    """One for each kind and namespace; a workload that is alone there is watched by its name."""
    names: dict[tuple[str, str], list[str]] = {}
    for obj in objects:
        names.setdefault((obj["kind"], obj["metadata"]["namespace"]), []).append(obj["metadata"]["name"])
    return [
        ListScope(BY_KIND[kind], namespace, found[0] if len(found) == 1 else None)
        for (kind, namespace), found in sorted(names.items())
    ]
