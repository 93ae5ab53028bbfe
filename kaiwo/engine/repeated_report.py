"""Bounds how often a status is written that somebody else replaces each time."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from kaiwo.engine.backoff import Backoff

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from kaiwo.engine.resource import Object

_log = logging.getLogger(__name__)

RETRY = (2.0, 600.0)
"""First and longest pause in seconds before the same report is written again."""


class RepeatedReport:
    """Tells when a status may be written.

    Two processes that share an object and see different things would replace each other's report as fast as
    the API server answers. The same report is therefore repeated after pauses that grow.
    """

    def __init__(self, what: str, clock: Callable[[], float] = time.monotonic) -> None:
        """Prepare.

        Args:
            what: the object, for the log.
            clock: monotonic seconds.
        """
        self._what = what
        self._clock = clock
        self._retry = Backoff(*RETRY)
        self._last: object = None
        self._due = 0.0

    def wait(self, uid: str, status: Object, own_conditions: Collection[str]) -> float:
        """Seconds to wait before a status is written, 0 to write it now.

        Args:
            uid: of the object.
            status: as it is to be written.
            own_conditions: types of the conditions that this process writes.
        """
        return max(self._due - self._clock(), 0.0) if self._is_last(uid, status, own_conditions) else 0.0

    def written(self, uid: str, status: Object, own_conditions: Collection[str]) -> None:
        """Take note that a status was written; arguments as of `wait`."""
        if self._is_last(uid, status, own_conditions):
            _log.warning(
                "the status of %s was replaced and is written again: if several installations share it, give "
                "all of them the same version and plugins",
                self._what,
            )
        else:
            self._last = _content(uid, status, own_conditions)
            self._retry.reset()
        self._due = self._clock() + self._retry.next()

    def _is_last(self, uid: str, status: Object, own_conditions: Collection[str]) -> bool:
        return self._last == _content(uid, status, own_conditions)


def _content(uid: str, status: Object, own_conditions: Collection[str]) -> object:
    """What this process says: without the conditions of others, and without times."""
    own = [
        {key: value for key, value in condition.items() if key != "lastTransitionTime"}
        for condition in status.get("conditions") or ()
        if condition.get("type") in own_conditions
    ]
    return uid, {**status, "conditions": own}
