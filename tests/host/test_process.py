"""The kopf shell: signals end the work in order, and kopf asks nothing of anybody."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import time

import pytest

PROGRAM = """
    import asyncio, getpass, socket, sys
    from kaiwo.host import process

    def no_network(*args, **kwargs):
        raise AssertionError("kopf opened a connection")

    socket.socket.connect = no_network

    def no_user():
        raise KeyError("getpwuid(): uid not found: 65532")

    if "nobody" in sys.argv:
        getpass.getuser = no_user

    async def work(stop):
        child = None
        async def helper():
            await asyncio.sleep(60)
        print("started", flush=True)
        if "fail" in sys.argv:
            raise RuntimeError("the engine failed")
        if "end" in sys.argv:
            return
        while "kopf._core.reactor.running" not in sys.modules:
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.5)
        child = asyncio.create_task(helper())
        print("running", flush=True)
        await stop.wait()
        await asyncio.sleep(1)
        assert not child.cancelled() and not child.done()
        child.cancel()
        print("ended in order", flush=True)

    asyncio.run(process.run(work))
"""


def start(*args: str) -> subprocess.Popen[str]:
    """The shell around a little work."""
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(PROGRAM), *args]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_the_work_finish(number: signal.Signals) -> None:
    """Tasks that the work started are not cancelled under it; exit code 0, without kopf's own delays."""
    with start() as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)] == ["started\n", "running\n"]
        began = time.monotonic()
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (0, "ended in order\n", "")
    assert time.monotonic() - began < 5


def test_a_user_without_a_name_can_run_it() -> None:
    """The operator's pods run as user 65532, which is in no list of users of the image."""
    with start("nobody") as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)] == ["started\n", "running\n"]
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (0, "ended in order\n", "")


def test_work_that_ends_by_itself_ends_the_process() -> None:
    """Nothing waits for a signal that never comes."""
    with start("end") as process:
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (0, "started\n", "")


def test_work_that_fails_fails_the_process() -> None:
    """The orchestrator sees an exit code, and the log the error."""
    with start("fail") as process:
        _, err = process.communicate(timeout=30)
    assert process.returncode == 1
    assert "the engine failed" in err


@pytest.mark.parametrize(
    ("soft", "hard", "expected"), [(256, 512, 512), (256, 10_000, 8192), (9_000, 10_000, 9_000)]
)
def test_the_limit_of_open_files_is_raised(soft: int, hard: int, expected: int) -> None:
    """Watches of 64 namespaces are a thousand connections, and containers often start with 1,024 files."""
    program = f"""
        import resource
        resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))
        from kaiwo.host import process
        process.raise_open_file_limit()
        print(*resource.getrlimit(resource.RLIMIT_NOFILE))
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    result = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert result.stdout.split() == [str(expected), str(hard)]
