"""Retries of transient failures, with growing pauses."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, TypeVar

from kaiwo_storage_s3_gcs_azure_git_hf.download import errors

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from kaiwo.plugin.kit.downloads import DownloadLimits

_T = TypeVar("_T")

_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 20.0


def retry(
    action: Callable[[], _T],
    limits: DownloadLimits,
    stop: threading.Event,
    retry_after: Callable[[], float] = float,
) -> _T:
    """Run an action until it succeeds, fails for good, or the time for retries is over.

    Args:
        action: the action.
        limits: how long it is retried.
        stop: set when nothing is to be retried any more.
        retry_after: seconds that a busy server asks to wait.

    Returns:
        What the action returns.

    Raises:
        Exception: the last failure of the action.
    """
    began, pause = time.monotonic(), _FIRST_PAUSE
    while True:
        try:
            return action()
        except Exception as error:
            if stop.is_set() or not errors.is_transient(error):
                raise
            requested = retry_after() if errors.is_throttled(error) else errors.requested_wait(error)
            if time.monotonic() - began + max(pause, requested) > limits.retry_seconds:
                raise
            jittered = pause * random.uniform(0.75, 1.25)  # noqa: S311 - spreads retries, no secret
            stop.wait(max(requested, jittered))
            pause = min(pause * 2, _LONGEST_PAUSE)
