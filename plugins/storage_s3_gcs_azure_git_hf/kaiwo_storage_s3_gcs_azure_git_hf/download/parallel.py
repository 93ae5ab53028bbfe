"""Runs actions in threads; the first failure ends the others."""

from __future__ import annotations

from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterable

_T = TypeVar("_T")


def run_parallel(
    actions: Iterable[Callable[[], _T]], workers: int, name: str, stop: threading.Event
) -> list[_T]:
    """Run actions, some at a time.

    Args:
        actions: the actions; those that run for long end when `stop` is set.
        workers: how many run at once.
        name: prefix of the names of the threads.
        stop: set when one fails; those that wait for their turn do not begin.

    Returns:
        What they return, in their order.

    Raises:
        Exception: the first failure.
    """
    with ThreadPoolExecutor(workers, name) as pool:
        pending = [pool.submit(action) for action in actions]
        try:
            wait(pending, return_when=FIRST_EXCEPTION)
            for future in pending:
                if future.done():
                    future.result()
            return [future.result() for future in pending]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            stop.set()
            raise
