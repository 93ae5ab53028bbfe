"""Controllers: one key's trouble stays with that key."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import msgspec
import pytest

from kaiwo.engine.controller import Controller, Watch
from kaiwo.engine.errors import WriteCause
from kaiwo.engine.metrics import Metrics
from kaiwo.engine.resource import CONFIG_MAP
from kaiwo.engine.store import Cache, CacheEvent
from kaiwo.engine.workqueue import Key

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

KEYS = [Key("ns", str(number)) for number in range(5)]


def by_name(event: CacheEvent) -> list[Key]:
    """The usual mapping: an object is its own key."""
    return [Key(event.latest.namespace, event.latest.name)]


def stocked(*names: str) -> Cache:
    """A synced cache of ConfigMaps."""
    cache = Cache()
    store = cache.register(CONFIG_MAP)
    objects = [{"metadata": {"name": n, "namespace": "ns", "resourceVersion": "1"}} for n in names]
    store.replace([store.decode(msgspec.json.encode(o)) for o in objects], "1")
    return cache


@contextlib.asynccontextmanager
async def running(
    controller: Controller, cache: Cache | None = None, metrics: Metrics | None = None
) -> AsyncIterator[asyncio.Event]:
    """Run a controller; ends with an orderly stop."""
    stop = asyncio.Event()
    task = asyncio.create_task(controller.run(cache or Cache(), stop, metrics=metrics, grace=2.0))
    await asyncio.sleep(0)
    try:
        yield stop
    finally:
        stop.set()
        await asyncio.wait_for(task, 10)


def failing_on(
    bad: Key, seen: asyncio.Queue[Key], trouble: Callable[[], Awaitable[None]]
) -> Callable[[Key], Awaitable[float | None]]:
    """A reconciler with trouble at one key, that notes all others."""

    async def reconcile(key: Key) -> float | None:
        if key == bad:
            await trouble()
        await seen.put(key)
        return None

    return reconcile


async def raises() -> None:
    """A defect."""
    raise ZeroDivisionError


async def exits() -> None:
    """A plugin that wants to end the process."""
    raise SystemExit(3)


async def hangs() -> None:
    """A call that never returns."""
    await asyncio.Event().wait()


async def cancels() -> None:
    """Waiting for a task that somebody cancelled."""
    task = asyncio.create_task(asyncio.sleep(10))
    await asyncio.sleep(0)
    task.cancel()
    await task


@pytest.mark.parametrize("trouble", [raises, exits, hangs, cancels])
async def test_trouble_with_one_key_harms_no_other(trouble: Callable[[], Awaitable[None]]) -> None:
    """Raising, exiting, hanging, odd cancellation: other keys go on, the key itself is tried again."""
    seen: asyncio.Queue[Key] = asyncio.Queue()
    errors: list[Key] = []
    controller = Controller(
        "test",
        [],
        failing_on(KEYS[0], seen, trouble),
        workers=1,
        timeout=0.05,
        on_error=lambda key, _: errors.append(key),
    )
    async with running(controller):
        for key in KEYS:
            controller.enqueue(key)
        done = {await asyncio.wait_for(seen.get(), 5) for _ in KEYS[1:]}
        assert done == set(KEYS[1:])
        assert controller.queue.failures(KEYS[0]) >= 1
        assert errors[0] == KEYS[0]


async def test_results_are_counted() -> None:
    """Metrics distinguish success, failure and timeout."""
    metrics = Metrics()
    seen: asyncio.Queue[Key] = asyncio.Queue()
    controller = Controller("test", [], failing_on(KEYS[0], seen, hangs), timeout=0.05)
    async with running(controller, metrics=metrics):
        controller.enqueue(KEYS[0])
        controller.enqueue(KEYS[1])
        await asyncio.wait_for(seen.get(), 5)
        while not controller.queue.failures(KEYS[0]):
            await asyncio.sleep(0.02)
    value = metrics.registry.get_sample_value
    name = "controller_runtime_reconcile"
    assert value(f"{name}_total", {"controller": "test", "result": "success"}) == 1
    assert (value(f"{name}_total", {"controller": "test", "result": "error"}) or 0) >= 1
    assert (value(f"{name}_errors_total", {"controller": "test"}) or 0) >= 1
    assert (value(f"{name}_timeouts_total", {"controller": "test"}) or 0) >= 1
    queue = {"name": "test", "controller": "test"}
    assert (value("workqueue_retries_total", queue) or 0) >= 1
    assert (value("workqueue_work_duration_seconds_count", queue) or 0) >= 2
    assert (value("workqueue_queue_duration_seconds_count", queue) or 0) >= 2


async def test_everything_cached_is_reconciled_at_the_start() -> None:
    """After a restart nothing waits for its next event."""
    seen: asyncio.Queue[Key] = asyncio.Queue()

    async def reconcile(key: Key) -> None:
        await seen.put(key)

    controller = Controller("test", [Watch(CONFIG_MAP, by_name)], reconcile)
    async with running(controller, stocked("a", "b")):
        assert {(await asyncio.wait_for(seen.get(), 5)).name for _ in range(2)} == {"a", "b"}


async def test_a_returned_time_brings_the_key_back() -> None:
    """A reconciler can be called again without any event."""
    times: asyncio.Queue[float] = asyncio.Queue()

    async def reconcile(_: Key) -> float | None:
        await times.put(asyncio.get_running_loop().time())
        return 0.05 if times.qsize() < 2 else None

    controller = Controller("test", [], reconcile)
    async with running(controller):
        controller.enqueue(KEYS[0])
        first, second = [await asyncio.wait_for(times.get(), 5) for _ in range(2)]
        assert second - first >= 0.04


async def test_delayed_changes_are_reconciled_together_and_urgent_ones_at_once() -> None:
    """Ten changes that can wait cost one reconciliation; one that cannot brings it forward."""
    reconciled: asyncio.Queue[float] = asyncio.Queue()
    clock = asyncio.get_running_loop().time

    async def reconcile(_: Key) -> None:
        await reconciled.put(clock())

    def delay(event: CacheEvent) -> float:
        return 0.0 if event.latest.labels.get("urgent") else 0.2

    controller = Controller("test", [], reconcile)
    handle = controller.handler(Watch(CONFIG_MAP, by_name, delay=delay))
    cache = stocked("calm")
    store = cache.store(CONFIG_MAP)
    assert store is not None
    urgent = {"metadata": {"name": "calm", "namespace": "ns", "labels": {"urgent": "yes"}}}
    calm = CacheEvent("ADDED", CONFIG_MAP, None, cache.get(CONFIG_MAP, "ns", "calm"))
    alarm = CacheEvent("ADDED", CONFIG_MAP, None, store.decode(msgspec.json.encode(urgent)))
    async with running(controller):
        began = clock()
        for _ in range(10):
            handle(calm)
        assert await asyncio.wait_for(reconciled.get(), 5) - began >= 0.19
        assert reconciled.empty()
        for event in (calm, alarm):
            handle(event)
        assert await asyncio.wait_for(reconciled.get(), 5) - began < 0.4


@pytest.mark.parametrize("own_writes", [True, False])
async def test_the_answer_to_a_write_concerns_its_own_reconciliation_only_where_wanted(
    *, own_writes: bool
) -> None:
    """A reconciler that plans from its answers is not called for them; another key's write is a change."""
    reconciled: asyncio.Queue[str] = asyncio.Queue()
    cache = stocked("a", "b")
    version = 1

    async def reconcile(key: Key) -> None:
        nonlocal version
        await reconciled.put(key.name)
        if reconciled.qsize() == 1:  # the first one writes both objects
            for name in "ab":
                version += 1
                metadata = {"name": name, "namespace": "ns", "resourceVersion": str(version)}
                cache.assume(CONFIG_MAP, {"metadata": metadata})

    watch = Watch(CONFIG_MAP, by_name, own_writes=own_writes)
    controller = Controller("test", [], reconcile)
    cache.subscribe(CONFIG_MAP, controller.handler(watch))
    async with running(controller):
        controller.enqueue(Key("ns", "a"))
        while reconciled.qsize() < 2 + own_writes or len(controller.queue) or controller.queue.active:
            await asyncio.sleep(0)
    found = [reconciled.get_nowait() for _ in range(reconciled.qsize())]
    assert sorted(found) == (["a", "a", "b"] if own_writes else ["a", "b"])


async def test_a_stop_lets_begun_work_end_and_begins_no_more() -> None:
    """A write that has been begun is not cut in the middle by an orderly stop."""
    begun, ended = asyncio.Event(), asyncio.Event()

    async def reconcile(_: Key) -> None:
        begun.set()
        await asyncio.sleep(0.1)
        ended.set()

    controller = Controller("test", [], reconcile, workers=1)
    async with running(controller) as stop:
        for key in KEYS:
            controller.enqueue(key)
        await begun.wait()
        stop.set()
    assert ended.is_set()
    assert len(controller.queue) == 0


async def test_a_failing_key_function_stops_neither_watch_nor_controller() -> None:
    """An object that a plugin's mapping cannot take is passed over."""
    seen: asyncio.Queue[Key] = asyncio.Queue()

    def keys(event: CacheEvent) -> list[Key]:
        if event.latest.name == "odd":
            raise KeyError(event.latest.name)
        return by_name(event)

    async def reconcile(key: Key) -> None:
        await seen.put(key)

    controller = Controller("test", [Watch(CONFIG_MAP, keys)], reconcile)
    async with running(controller, stocked("odd", "good")):
        assert (await asyncio.wait_for(seen.get(), 5)).name == "good"


async def test_long_work_without_pauses_lets_others_have_their_turn() -> None:
    """Ten thousand keys that never wait do not keep the lease from being renewed."""
    turns = 0
    left = 10_000
    finished = asyncio.Event()

    async def reconcile(_: Key) -> None:
        nonlocal left
        left -= 1
        sum(range(1500))
        if not left:
            finished.set()

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    controller = Controller("test", [], reconcile, workers=4)
    async with running(controller):
        task = asyncio.create_task(other())
        for number in range(left):
            controller.enqueue(Key("ns", str(number)))
        await asyncio.wait_for(finished.wait(), 30)
        task.cancel()
    assert turns > 3


async def test_what_is_new_goes_before_what_was_there_at_the_start() -> None:
    """After a restart with many objects, the first requested keys and each change come before the rest."""
    names = [str(number) for number in range(100)]
    cache, seen, complete = stocked(*names), [], asyncio.Event()

    async def reconcile(key: Key) -> None:
        seen.append(key.name)
        if len(seen) == 102:
            complete.set()
        if len(seen) == 3:
            controller.enqueue(Key("ns", "new"))
        await asyncio.sleep(0)

    watch = Watch(CONFIG_MAP, by_name)
    controller = Controller(
        "test", [watch], reconcile, workers=1, initial=lambda: [Key("ns", "first"), Key("ns", "99")]
    )
    async with running(controller, cache):
        await asyncio.wait_for(complete.wait(), 10)
    assert seen[:2] == ["first", "99"]
    assert seen.index("new") == 3
    assert sorted(seen) == sorted(["first", "new", *names])


async def test_all_workers_are_busy_during_the_first_sync() -> None:
    """Reconciliations whose own writes come back as events do not leave the other workers idle."""
    names = [str(number) for number in range(400)]
    active, most, seen, complete = 0, 0, set(), asyncio.Event()

    async def reconcile(key: Key) -> None:
        nonlocal active, most
        active += 1
        most = max(most, active)
        if key not in seen:
            seen.add(key)
            controller.enqueue(key)  # the event of what this reconciliation has written
        await asyncio.sleep(0.001)
        active -= 1
        if len(seen) == len(names):
            complete.set()
        else:
            concurrency.append(active + 1)

    concurrency: list[int] = []
    controller = Controller("test", [Watch(CONFIG_MAP, by_name)], reconcile, workers=16)
    async with running(controller, stocked(*names)):
        await asyncio.wait_for(complete.wait(), 10)
    assert most == 16
    assert sum(concurrency) / len(concurrency) > 8


async def test_keys_that_are_held_are_those_of_their_last_reconciliation() -> None:
    """Somebody who makes and deletes objects that cannot be written leaves nothing behind."""
    cause, there, seen = WriteCause("ServerError", "apply", "deployments", "ns"), {KEYS[0]}, []

    async def reconcile(key: Key) -> None:
        seen.append(key)
        if key in there:
            controller.hold(key, cause)

    controller = Controller("test", [], reconcile, workers=1)

    async def settled(count: int) -> None:
        async with asyncio.timeout(10):
            while len(seen) < count:
                await asyncio.sleep(0)
        await asyncio.sleep(0)

    async with running(controller):
        controller.enqueue(KEYS[0])
        await settled(1)
        for number in range(100):
            key = Key("ns", f"junk{number}")
            there.add(key)
            controller.enqueue(key)
            await settled(2 * number + 2)
            there.remove(key)
            controller.enqueue(key)
            await settled(2 * number + 3)
        assert controller._held == {cause: {KEYS[0]: None}}
        controller.release([cause])
        await settled(202)
        assert seen[-1] == KEYS[0]
        there.clear()
        controller.enqueue(KEYS[0])
        await settled(203)
        assert controller._held == {}
