"""What of a message of Ray is shown: the shapes that Ray 2.9 to 2.60 writes."""

from __future__ import annotations

import time

import pytest

from kaiwo.workload.observe.ray_messages import failure_text

LOG = "Job entrypoint command failed with exit code 1, last available logs (truncated to 20,000 chars):\n"
STACK = 'Traceback (most recent call last):\n  File "/app/train.py", line 40, in <module>\n    main()\n'
REPLICA = (
    "The deployment failed to start 3 times in a row. This may be due to a problem with its constructor or "
    "initial health check failing. See controller logs for details. Error:\n"
    "ray::ServeReplica:chat:LLM.initialize_and_get_metadata() (pid=521, ip=10.244.0.7, actor_id=9fd2)\n"
    '  File "/usr/lib/python3.11/concurrent/futures/_base.py", line 449, in result\n'
    "    return self.__get_result()\n"
    "RuntimeError: Traceback (most recent call last):\n"
    '  File "/app/serve_llm.py", line 12, in __init__\n'
    "    self.engine = build()\n"
    "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 GiB.\n"
)


FAILED = "Job entrypoint command failed with exit code 1"
COLOURED = "\x1b[36m(train pid=312, ip=10.0.0.9)\x1b[0m loss 0.4\n(train pid=312) ValueError: bad\nend\n"
NO_RUNTIME = (
    "runtime_env setup failed: Failed to set up runtime environment.\nCould not create the actor.\n"
    f"{STACK}RuntimeError: Failed to install pip requirements:\nERROR: No matching distribution\n"
)


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        (f"{LOG}{STACK}torch.OutOfMemoryError: HIP\n", f"{FAILED}: torch.OutOfMemoryError: HIP"),
        (f"{LOG}{COLOURED}", f"{FAILED}: ValueError: bad end"),
        (f"{LOG}epoch 1\nepoch 2\ncannot read /data/train\n", f"{FAILED}: cannot read /data/train"),
        (f"{FAILED}. No logs available.", f"{FAILED}. No logs available."),
        (f"{STACK}KeyError: 'model'\n", "KeyError: 'model'"),
        (LOG, LOG.strip()),
        ("two lines\nwithout a cause", "two lines without a cause"),
        (None, ""),
        (7, ""),
    ],
)
def test_of_a_log_or_a_traceback_the_exception_is_shown(message: object, shown: str) -> None:
    """The cause is at the end, where a status would be cut."""
    assert failure_text(message) == shown


def test_what_ray_says_before_the_traceback_is_shown() -> None:
    """Of a runtime environment, and of a replica of Ray Serve with a traceback in its traceback."""
    assert failure_text(NO_RUNTIME) == (
        "runtime_env setup failed: Failed to set up runtime environment: RuntimeError: Failed to install pip "
        "requirements: ERROR: No matching distribution"
    )
    assert failure_text(REPLICA) == (
        "The deployment failed to start 3 times in a row. This may be due to a problem with its constructor "
        "or initial health check failing. See controller logs for details. Error: torch.OutOfMemoryError: "
        "HIP out of memory. Tried to allocate 2.00 GiB."
    )


def test_a_long_cause_is_cut() -> None:
    """A whole file in an exception is no message; the log has it."""
    assert len(failure_text(f"{LOG}ValueError: {'x' * 20_000}")) < 600


@pytest.mark.parametrize("part", ["a.", "(pid=1", "Error", "\x1b[", "ray::", "Error: \n"])
def test_no_message_costs_much(part: str) -> None:
    """20000 characters, as Ray passes on at most, of what looks like the beginning of something."""
    begun = time.perf_counter()
    failure_text(f"{LOG}{part * (20_000 // len(part))}\nend")
    assert time.perf_counter() - begun < 1
