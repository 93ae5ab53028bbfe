"""The fault proxy: a test of a fault fails when the fault never took place."""

from __future__ import annotations

import contextlib

import aiohttp
import pytest

from kaiwo.engine.credentials import Connection
from kaiwo.testing.fault_proxy import FaultProxy

NOBODY = Connection("http://127.0.0.1:9")


async def request(proxy: FaultProxy, method: str = "GET") -> None:
    """One request through the proxy; nobody answers behind it."""
    async with aiohttp.ClientSession() as session:
        with contextlib.suppress(aiohttp.ClientConnectionError):
            await session.request(method, f"{proxy.url}/api/v1/configmaps")


@pytest.mark.parametrize(("times", "came"), [(1, 0), (3, 2), (None, 0)])
async def test_a_fault_that_never_took_place_fails_the_test(times: int | None, came: int) -> None:
    """The message has the fault, and how often it was to strike."""

    async def test() -> None:
        async with FaultProxy(NOBODY) as proxy:
            proxy.answer(500, method="GET", path="/configmaps$", times=times)
            for _ in range(came):
                await request(proxy)
            proxy.clear()

    with pytest.raises(AssertionError) as caught:
        await test()
    wanted = times or "at least 1"
    assert str(caught.value) == (
        f"faults that did not take place: answer GET /configmaps$: struck {came} of {wanted}"
    )


@pytest.mark.parametrize("times", [1, 2, None])
async def test_a_fault_that_took_place_is_fine(times: int | None) -> None:
    """As often as defined, or at least once where no number was."""
    async with FaultProxy(NOBODY) as proxy:
        fault = proxy.answer(500, method="GET", times=times)
        for _ in range(times or 3):
            await request(proxy)
        await fault.wait()
        assert fault.struck == (times or 3)


async def test_a_fault_that_is_waited_for_in_vain_is_named() -> None:
    """The wait ends with what was awaited."""
    fault = FaultProxy(NOBODY).hang(method="PATCH")
    with pytest.raises(AssertionError, match=r"^hang PATCH: struck 0 of 1 within 0\.1 s$"):
        await fault.wait(0.1)


async def test_a_crash_that_never_came_fails_the_test() -> None:
    """Fewer writes than were to pass are no crash."""

    async def test() -> None:
        async with FaultProxy(NOBODY) as proxy:
            proxy.crash_after(2, path="/configmaps")
            await request(proxy, "POST")

    words = "faults that did not take place: crash after 2 writes /configmaps: 1 came"
    with pytest.raises(AssertionError, match=f"^{words}$"):
        await test()


async def test_the_failure_of_the_test_itself_is_not_hidden() -> None:
    """What the block raised comes out, not the faults that were still to come."""

    async def test() -> None:
        async with FaultProxy(NOBODY) as proxy:
            proxy.reset()
            raise KeyError("own")

    with pytest.raises(KeyError, match="own"):
        await test()


async def test_watches_that_do_not_exist_cannot_be_cut() -> None:
    """Otherwise a test of cut watches would pass before the first watch is open."""
    async with FaultProxy(NOBODY) as proxy:
        with pytest.raises(AssertionError, match=r"no watch was opened within 0\.1 s"):
            await proxy.cut_watches(0.1)
