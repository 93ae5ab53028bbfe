"""Asynchronous functions of plugins neither keep the event loop nor end the operator."""

from __future__ import annotations

import asyncio
import logging
import sys
import time
import types
from typing import TYPE_CHECKING

import pytest

from kaiwo.host import plugin_coroutines
from kaiwo.host.plugin_coroutines import PluginCoroutines
from kaiwo.host.plugin_timeout import TimeLimit

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LIMIT = 0.2


async def block() -> None:
    """Keep the event loop after a first wait."""
    await asyncio.sleep(0)
    time.sleep(60)  # noqa: ASYNC251  it is what must not be done


async def block_twice() -> None:
    """Keep it again after the first interruption."""
    while True:
        try:
            time.sleep(60)  # noqa: ASYNC251  it is what must not be done
        except Exception:  # noqa: BLE001  as careless code does
            logging.getLogger(__name__).debug("once more")


async def block_when_cancelled() -> None:
    """Keep it in what should only clean up."""
    try:
        await asyncio.Event().wait()
    finally:
        time.sleep(60)  # noqa: ASYNC251  it is what must not be done


async def leave() -> None:
    """End the process."""
    await asyncio.sleep(0)
    sys.exit(3)


async def cancel() -> None:
    """Wait for something that is cancelled."""
    waiting = asyncio.get_running_loop().create_future()
    waiting.cancel()
    await waiting


async def fail() -> None:
    """Raise."""
    raise RuntimeError("no endpoint")


def no_coroutine() -> int:
    """Return what nobody can wait for."""
    return 42


async def forever() -> None:
    """Wait as it should, but for what never comes."""
    await asyncio.Event().wait()


@pytest.fixture(autouse=True)
def module(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """A plugin's module with these functions."""
    made = types.ModuleType("waiting_plugin")
    given = (block, block_twice, block_when_cancelled, leave, cancel, fail, no_coroutine, forever)
    for function in given:
        setattr(made, function.__name__, function)
    monkeypatch.setitem(sys.modules, "waiting_plugin", made)
    return made


@pytest.fixture
def coroutines() -> Iterator[PluginCoroutines]:
    """Calls with a short limit."""
    with TimeLimit(LIMIT) as limit:
        yield PluginCoroutines(limit)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("block", f"hook of plugin a did not return within {LIMIT:.2g} s"),
        ("block_twice", f"hook of plugin a did not return within {LIMIT:.2g} s"),
        ("block_when_cancelled", f"hook of plugin a did not return within {LIMIT:.2g} s"),
        ("leave", "it called sys.exit(3)"),
        ("cancel", "CancelledError"),
        ("fail", "no endpoint"),
        ("no_coroutine", "'int' object"),
        ("absent", "absent"),
        ("forever", "TimeoutError"),
    ],
)
async def test_a_function_that_blocks_raises_or_exits_is_logged_and_harms_nobody(
    coroutines: PluginCoroutines,
    function: str,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The call returns long before it would by itself, and the log says what failed and why."""
    monkeypatch.setattr(plugin_coroutines, "CALL_SECONDS", 0.5)
    async with asyncio.timeout(20):
        await coroutines.call("a", "hook of plugin a", f"waiting_plugin:{function}")
    [record] = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert record.getMessage() == "hook of plugin a failed"
    assert words in str(caplog.text)


async def test_a_module_that_hangs_at_its_import_does_not_keep_the_event_loop(
    coroutines: PluginCoroutines,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The import has a limit of its own."""
    monkeypatch.setattr(plugin_coroutines, "IMPORT_SECONDS", 0.3)
    (tmp_path / "hanging_plugin.py").write_text("import time\ntime.sleep(60)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    async with asyncio.timeout(20):
        await coroutines.call("a", "hook of plugin a", "hanging_plugin:run")
    assert "hook of plugin a did not return within 0.3 s" in caplog.text


async def test_what_a_function_waits_for_reaches_it(
    coroutines: PluginCoroutines, module: types.ModuleType
) -> None:
    """Arguments, results, exceptions and long waits are as with a plain await."""
    heard: list[object] = []

    async def listens(first: int, second: str) -> None:
        heard.append((first, second))
        heard.append(await asyncio.to_thread(lambda: "from a thread"))
        try:
            async with asyncio.timeout(2 * LIMIT):
                await asyncio.Event().wait()
        except TimeoutError:
            heard.append("timed out")
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(asyncio.sleep(0.01))
        heard.append("done")

    module.listens = listens
    await coroutines.call("a", "hook of plugin a", "waiting_plugin:listens", 1, "two")
    assert heard == [(1, "two"), "from a thread", "timed out", "done"]


async def test_a_call_ends_when_its_task_is_cancelled(coroutines: PluginCoroutines) -> None:
    """The operator stops while a plugin waits."""
    task = asyncio.create_task(coroutines.call("a", "hook of plugin a", "waiting_plugin:forever"))
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
