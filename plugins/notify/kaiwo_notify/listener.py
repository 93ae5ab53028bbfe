"""Queues messages for each sink, and sends them beside everything else."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, deque
from typing import TYPE_CHECKING, Final

from kaiwo_notify.rules import RateLimit, is_reported

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaiwo.plugin.lifecycle import Transition
    from kaiwo_notify.settings import NotifySettings, Sink

_log = logging.getLogger(__name__)

CAPACITY: Final = 200
"""Messages that wait for one sink; of more, the oldest one of the namespace with the most is left out."""

TRIES: Final = 6
FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 60.0
GRACE: Final = 3.0
"""Seconds in which messages are still sent when the operator ends."""


class Outbox:
    """The messages for one sink, and the task that sends them in order."""

    def __init__(
        self, name: str, *, clock: Callable[[], float] = time.monotonic, pause: float = FIRST_PAUSE
    ) -> None:
        """Prepare; the task begins with the first message.

        Args:
            name: of the sink.
            clock: monotonic seconds.
            pause: seconds before the second try.
        """
        self._name = name
        self._clock = clock
        self._pause = pause
        self._limit = RateLimit()
        self._waiting: deque[tuple[Transition, NotifySettings]] = deque()
        self._task: asyncio.Task[None] | None = None

    def add(self, transition: Transition, settings: NotifySettings, sink: Sink) -> None:
        """Queue a message; returns at once.

        Args:
            transition: what is reported.
            settings: of the plugin at that moment.
            sink: the sink in these settings.
        """
        alone = len(set(sink.rules.namespaces)) == 1
        if not self._limit.take(self._clock(), sink.per_hour, transition.namespace, alone=alone):
            if self._limit.left_out == 1:
                _log.warning(
                    "sink %s: too many messages within an hour (%d for all; namespace %s gets no more than "
                    "are left for others); the next one counts those left out",
                    self._name,
                    sink.per_hour,
                    transition.namespace,
                )
            return
        self._waiting.append((transition, settings))
        if len(self._waiting) > CAPACITY:
            self._leave_out()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._send_all(), name=f"notify {self._name}")

    def _leave_out(self) -> None:
        """Remove the oldest message of the namespace with the most."""
        counts = Counter(transition.namespace for transition, _ in self._waiting)
        ((most, _),) = counts.most_common(1)
        at = next(at for at, (transition, _) in enumerate(self._waiting) if transition.namespace == most)
        del self._waiting[at]
        self._limit.left_out += 1

    async def close(self, grace: float = 0.0) -> None:
        """Stop; what still waits is dropped.

        Args:
            grace: seconds in which messages may still be sent.
        """
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=grace)
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _send_all(self) -> None:
        while self._waiting:
            transition, settings = self._waiting.popleft()
            sink = next((sink for sink in settings.sinks if sink.name == self._name), None)
            if sink is not None:
                await self._send(sink, settings, transition)

    async def _send(self, sink: Sink, settings: NotifySettings, transition: Transition) -> None:
        """Send one message; after the last try it is left out."""
        from kaiwo_notify.delivery import DeliveryError, deliver

        left_out, self._limit.left_out = self._limit.left_out, 0
        pause = self._pause
        where = {
            "fields": {"kind": transition.kind, "namespace": transition.namespace, "name": transition.name}
        }
        for number in range(1, TRIES + 1):
            try:
                await deliver(sink, settings, transition, left_out)
            except DeliveryError as error:
                if error.again and number < TRIES:
                    _log.debug(
                        "sink %s: %s; again in %.1f s", sink.name, error, max(pause, error.pause), extra=where
                    )
                    await asyncio.sleep(max(pause, error.pause))
                    pause = min(2 * pause, LONGEST_PAUSE)
                    continue
                _log.warning(
                    "sink %s: a message was not taken after %d tries: %s",
                    sink.name,
                    number,
                    error,
                    extra=where,
                )
            except Exception as error:  # noqa: BLE001  an odd message must not end all others
                # The text of an error that nobody foresaw may have a secret.
                _log.error(
                    "sink %s: a message was not sent: %s", sink.name, type(error).__name__, extra=where
                )
            else:
                return
            self._limit.left_out += left_out + 1
            return


_outboxes: dict[str, Outbox] = {}


async def notify(transition: Transition, settings: NotifySettings | None) -> None:
    """Queue the messages about a transition.

    Args:
        transition: a status change that was written.
        settings: of the plugin; None counts as no sinks.
    """
    sinks = settings.sinks if settings is not None else ()
    for name in _outboxes.keys() - {sink.name for sink in sinks}:
        await _outboxes.pop(name).close()
    for sink in sinks:
        if settings is not None and is_reported(sink.rules, transition):
            outbox = _outboxes.setdefault(sink.name, Outbox(sink.name))
            outbox.add(transition, settings, sink)


async def stop(settings: NotifySettings | None) -> None:
    """End the tasks that send.

    Args:
        settings: of the plugin, which are not needed.
    """
    del settings
    closing = [outbox.close(GRACE) for outbox in _outboxes.values()]
    _outboxes.clear()
    await asyncio.gather(*closing)
