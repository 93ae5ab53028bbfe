"""What the host relies on in transition listeners and in lifecycles."""

from __future__ import annotations

import asyncio
import inspect
import pkgutil
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kaiwo.testing.assertions import require
from kaiwo.testing.effects import watched_effects

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from pydantic import BaseModel

    from kaiwo.plugin.lifecycle import Lifecycle, Transition, TransitionListener

CALL_SECONDS: Final = 30.0
"""How long the host waits for one call."""

_BLOCKING: Final = ("(time.sleep)", "(socket.getaddrinfo)", "(socket.gethostbyname)", "(os.wait")


def assert_listener_contract(
    listener: TransitionListener, transitions: Sequence[Transition], *, settings: Sequence[BaseModel] = ()
) -> None:
    """Check a transition listener by calling it, as the operator does.

    It is an ``async`` function of the transition, and of the settings if it names a model. It ends within
    the operator's limit, raises nothing, and does not hold up the event loop with a blocking call.

    Args:
        listener: the listener.
        transitions: what it is called with, at least one; see :func:`kaiwo.testing.transition`.
        settings: settings of the plugin; the defaults without.

    Raises:
        AssertionError: what does not hold.
    """
    require(transitions, "give at least one transition")
    where = f"transition listener {listener.name}"
    chosen: Sequence[Any] = settings or ([listener.settings()] if listener.settings else [None])
    function = async_function(where, "notify", listener.notify, 2 if listener.settings else 1)
    for transition in transitions:
        for values in chosen:
            given = (transition, values) if listener.settings else (transition,)
            _run(where, partial(function, *given))


def assert_lifecycle_contract(lifecycle: Lifecycle, *, settings: Sequence[BaseModel] = ()) -> None:
    """Check a lifecycle by starting it, changing its settings, and stopping it, as the operator does.

    Its functions are ``async`` functions of the settings. They end within the operator's limit, raise
    nothing, do not hold up the event loop, and leave no task behind after ``stop``.

    Args:
        lifecycle: the lifecycle.
        settings: settings of the plugin, in the order in which they follow each other; the defaults without.

    Raises:
        AssertionError: what does not hold.
    """
    where = f"lifecycle {lifecycle.name}"
    chosen: Sequence[Any] = settings or [lifecycle.settings() if lifecycle.settings else None]
    functions = {
        name: async_function(where, name, target, 1)
        for name in ("start", "settings_changed", "stop")
        if (target := getattr(lifecycle, name)) is not None
    }
    require(functions, f"{where} names no function")

    async def live() -> None:
        before = asyncio.all_tasks()
        for name, values in (
            ("start", chosen[0]),
            *(("settings_changed", each) for each in chosen[1:]),
            ("stop", chosen[-1]),
        ):
            if name in functions:
                await functions[name](values)
        left = sorted(task.get_name() for task in asyncio.all_tasks() - before)
        require(not left, f"{where} leaves tasks behind: {', '.join(left)}")

    _run(where, live)


def async_function(where: str, attribute: str, target: str, arguments: int) -> Callable[..., Awaitable[Any]]:
    """The function that ``module:name`` names.

    Raises:
        AssertionError: it does not exist, is no ``async`` function, or takes another number of arguments.
    """
    try:
        found: Callable[..., Awaitable[Any]] = pkgutil.resolve_name(target)
    except Exception as error:
        raise AssertionError(f"{where}: {attribute} {target} cannot be imported: {error!r}") from error
    require(inspect.iscoroutinefunction(found), f"{where}: {attribute} {target} is not an async function")
    try:
        inspect.signature(found).bind(*range(arguments))
    except TypeError as error:
        expected = "one argument" if arguments == 1 else f"{arguments} arguments"
        raise AssertionError(f"{where}: {attribute} {target} does not take {expected}: {error}") from error
    return found


def _run(where: str, function: Callable[[], Awaitable[Any]]) -> None:
    """Await a call in an event loop of its own, in a thread: a test may run in one already."""

    async def limited() -> None:
        await asyncio.wait_for(function(), CALL_SECONDS)

    def call() -> list[str]:
        with watched_effects() as effects:
            asyncio.run(limited())
        return effects

    with ThreadPoolExecutor(1) as pool:
        try:
            effects = pool.submit(call).result()
        except TimeoutError:
            raise AssertionError(f"{where} did not end within {CALL_SECONDS:g} s") from None
        except AssertionError:
            raise
        except Exception as error:
            raise AssertionError(f"{where} raised {error!r}") from error
    blocking = [effect for effect in effects if any(call in effect for call in _BLOCKING)]
    require(not blocking, f"{where} blocks the event loop: {'; '.join(blocking)}")
