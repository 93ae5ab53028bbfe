"""Calls asynchronous functions of plugins on the event loop, where none may block, raise or end the operator.

A function that waits as it should is cancelled after `CALL_SECONDS`. Between two of its waits it has the
event loop to itself, so each of these steps runs under the time limit for plugins.
"""

from __future__ import annotations

import asyncio
import logging
import types
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kaiwo.plugin.targets import imported

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Generator

    from kaiwo.host.plugin_timeout import TimeLimit

_log = logging.getLogger(__name__)

CALL_SECONDS: Final = 30.0
"""How long one call may take."""

IMPORT_SECONDS: Final = 10.0
"""How long the import of a function's module may take; the same as for loading a plugin."""


class PluginExited(Exception):
    """A plugin's code called `sys.exit`, which would end the operator."""


class PluginCoroutines:
    """Calls ``module:async_function`` of plugins; a failure is logged."""

    def __init__(self, limit: TimeLimit) -> None:
        """Nothing is called yet.

        Args:
            limit: for each step of a function, between two of its waits.
        """
        self._limit = limit

    async def call(self, plugin: str, what: str, target: str, *arguments: object) -> None:
        """Call a function, and wait for its end.

        Args:
            plugin: whose function it is.
            what: what to call it in the log.
            target: ``module:async_function``.
            arguments: of the function.
        """
        wrap = partial(self._limit.wrap, plugin, what)
        try:
            function = wrap(imported, longest=IMPORT_SECONDS)(target)
            async with asyncio.timeout(CALL_SECONDS):
                await _in_steps(wrap(function)(*arguments), wrap)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            _log.exception("%s failed", what)  # not this task is cancelled but something that it waited for
        except (Exception, SystemExit):  # noqa: BLE001  a plugin's code may raise anything
            _log.exception("%s failed", what)


@types.coroutine
def _in_steps(
    awaitable: Awaitable[Any], wrap: Callable[[Callable[..., Any]], Callable[..., Any]]
) -> Generator[Any, Any, Any]:
    """What ``await`` does, with each step wrapped."""
    steps: Coroutine[Any, Any, Any] | Generator[Any, Any, Any]
    steps = awaitable if isinstance(awaitable, types.CoroutineType) else awaitable.__await__()
    send, throw = wrap(steps.send), wrap(steps.throw)
    step = partial(send, None)
    try:
        while True:
            try:
                waits_for = step()
            except StopIteration as end:
                return end.value
            except SystemExit as error:
                raise PluginExited(f"it called sys.exit({error.code!r})") from None
            try:
                result = yield waits_for
            except BaseException as error:  # noqa: BLE001  a cancellation also belongs to the function
                step = partial(throw, error)
            else:
                step = partial(send, result)
    finally:
        steps.close()
