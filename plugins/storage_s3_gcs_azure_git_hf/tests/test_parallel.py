"""Actions in threads: results in their order, and an end with the first failure."""

from __future__ import annotations

import threading
from functools import partial

import pytest

from kaiwo_storage_s3_gcs_azure_git_hf.download.parallel import run_parallel


def test_results_have_the_order_of_their_actions() -> None:
    """Whichever ends first."""
    second = threading.Event()

    def first() -> int:
        assert second.wait(20)
        return 1

    def other() -> int:
        second.set()
        return 2

    assert run_parallel([first, other], 2, "test", threading.Event()) == [1, 2]


def test_the_first_failure_ends_the_others() -> None:
    """One that runs for long is told to end, and those behind it never begin: a large file may take hours."""
    stop, begun = threading.Event(), list[int]()

    def long(number: int) -> None:
        begun.append(number)
        assert stop.wait(20)

    def fail() -> None:
        raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"):
        run_parallel([partial(long, 0), fail, *(partial(long, number) for number in (1, 2))], 2, "test", stop)
    assert stop.is_set()
    assert 2 not in begun
