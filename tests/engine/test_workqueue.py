"""The work queue: what controllers may rely on."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from kaiwo.engine.backoff import pause
from kaiwo.engine.workqueue import LOW, MOMENT, NORMAL, Key, WorkQueue

A, B = Key("ns", "a"), Key("ns", "b")


async def test_a_key_added_many_times_comes_once() -> None:
    """Ten events about one object cost one reconciliation."""
    queue = WorkQueue()
    for _ in range(10):
        queue.add(A)
    assert len(queue) == 1
    assert await queue.get() == A
    queue.done(A)
    assert len(queue) == 0


async def test_a_key_is_never_worked_on_twice_at_once() -> None:
    """A key that is added while it is worked on comes again only after it is done."""
    queue = WorkQueue()
    queue.add(A)
    await queue.get()
    queue.add(A)
    queue.add(B)
    assert await queue.get() == B
    assert queue.active == 2
    queue.done(A)
    assert await queue.get() == A


async def test_the_length_counts_keys_that_a_worker_could_take() -> None:
    """A key that is added again while it is worked on is no work for another worker."""
    queue = WorkQueue()
    queue.add(A)
    await queue.get()
    queue.add(A)
    assert len(queue) == 0
    queue.done(A)
    assert len(queue) == 1


async def test_keys_of_a_higher_priority_come_first() -> None:
    """What changes does not wait for the thousand objects that were there at the start."""
    queue = WorkQueue()
    old = [Key("ns", f"old-{number}") for number in range(1000)]
    for key in old:
        queue.add(key, LOW)
    first = await queue.get()
    queue.add(A)
    assert [first, await queue.get(), await queue.get()] == [old[0], A, old[1]]


async def test_a_waiting_key_is_raised_to_the_higher_priority() -> None:
    """An object that changes during the first sync is not reconciled last, and only once."""
    queue = WorkQueue()
    for key in (B, A):
        queue.add(key, LOW)
    queue.add(A)
    queue.add(A, LOW)
    assert len(queue) == 2
    assert [await queue.get(), await queue.get()] == [A, B]
    queue.done(A)
    assert len(queue) == 0


async def test_a_key_that_fails_keeps_its_priority() -> None:
    """Objects that cannot be reconciled at the start do not hold up those that change."""
    queue = WorkQueue(first_pause=0.01)
    queue.add(A, LOW)
    await queue.get()
    queue.retry(A)
    queue.done(A)
    await asyncio.sleep(0.05)
    assert len(queue) == 1
    queue.add(B)
    assert [await queue.get(), await queue.get()] == [B, A]


async def test_a_delayed_key_comes_at_the_earliest_time_with_the_highest_priority() -> None:
    """Neither a later time nor a lower priority takes anything back."""
    queue = WorkQueue()
    queue.add_after(A, 0.02, LOW)
    queue.add_after(A, 30, NORMAL)
    queue.add(B, LOW)
    await asyncio.sleep(0.05)
    assert [await queue.get(), await queue.get()] == [A, B]
    assert queue.delayed == 0


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["add", "get", "done"]),
            st.integers(0, 3),
            st.integers(0, 4),
            st.sampled_from([LOW, NORMAL]),
        )
    )
)
def test_no_order_of_calls_loses_or_doubles_a_key(steps: list[tuple[str, int, int, int]]) -> None:
    """Whatever happens in whatever order: every added key is handed out afterwards, never twice at once."""

    async def play() -> None:
        queue = WorkQueue()
        owed: set[Key] = set()
        active: list[Key] = []
        for step, lane, name, priority in steps:
            key = Key(f"ns{lane}", str(name))
            if step == "add":
                queue.add(key, priority)
                owed.add(key)
            elif step == "get" and owed - set(active):
                got = await queue.get()
                assert got is not None
                assert got not in active
                active.append(got)
                owed.discard(got)
            elif step == "done" and active:
                queue.done(active.pop(0))
        while active:
            queue.done(active.pop())
        while owed:
            got = await queue.get()
            assert got in owed
            owed.remove(got)
            queue.done(got)
        assert len(queue) == 0

    asyncio.run(play())


async def test_namespaces_take_turns() -> None:
    """One key of a quiet namespace does not wait behind a thousand of a busy one."""
    queue = WorkQueue()
    for number in range(1000):
        queue.add(Key("busy", str(number)))
    queue.add(Key("quiet", "only"))
    first = [await queue.get() for _ in range(2)]
    assert Key("quiet", "only") in first


async def test_of_several_delays_the_earliest_counts() -> None:
    """A later wish does not postpone an earlier one, and the key comes once."""
    queue = WorkQueue()
    loop = asyncio.get_running_loop()
    began = loop.time()
    queue.add_after(A, 30)
    queue.add_after(A, 0.05)
    queue.add_after(A, 20)
    assert await queue.get() == A
    assert 0.04 <= loop.time() - began < 5
    assert queue.delayed == 0


async def test_a_delay_that_was_dropped_brings_no_key_and_holds_up_no_other() -> None:
    """What was to be done later has been done already."""
    queue = WorkQueue()
    queue.add_after(A, 0.01)
    queue.add_after(B, 0.03)
    queue.drop_delayed(A)
    assert queue.delayed == 1
    assert await asyncio.wait_for(queue.get(), 5) == B
    queue.add_after(A, 0.01)
    assert await asyncio.wait_for(queue.get(), 5) == A


async def test_delays_that_are_set_again_and_again_take_no_memory() -> None:
    """A workload with a duration of days is reconciled thousands of times before that is over."""
    queue = WorkQueue()
    keys = [Key("a", str(number)) for number in range(2000)]
    for round_ in range(100):
        for key in keys:
            queue.drop_delayed(key)
            queue.add_after(key, 86_400.0 + round_)
    assert queue.delayed == len(keys)
    assert len(queue._timeline) <= 3 * len(keys)
    for key in keys[1:]:
        queue.drop_delayed(key)
    for number in range(10_000):
        queue.add_after(Key("b", "soon"), 86_000.0 - number)
    assert len(queue._timeline) <= 2 * queue.delayed + 1025
    queue.add_after(Key("c", "now"), 0.01)
    assert await asyncio.wait_for(queue.get(), 5) == Key("c", "now")
    assert queue.delayed == 2


async def test_delayed_keys_come_in_the_order_of_their_time() -> None:
    """The timeline is kept also when the next one to come is not the last one added."""
    queue = WorkQueue()
    queue.add_after(A, 0.1)
    queue.add_after(B, 0.02)
    assert [await queue.get(), await queue.get()] == [B, A]


async def test_an_event_does_not_wait_for_a_keys_back_off() -> None:
    """A key in back-off is reconciled at once when something changes."""
    queue = WorkQueue(first_pause=60)
    queue.retry(A)
    queue.add(A)
    assert await asyncio.wait_for(queue.get(), 1) == A


async def test_back_off_grows_per_key_until_forgotten() -> None:
    """Each failure about doubles the pause of that key alone; success starts over."""
    queue = WorkQueue(first_pause=1, longest_pause=1000)
    pauses = [queue.retry(A) for _ in range(5)]
    assert pauses[4] > pauses[0] * 4
    assert queue.retry(B) <= 1
    queue.forget(A)
    assert queue.failures(A) == 0
    assert queue.retry(A) <= 1


@given(st.integers(1, 10**6), st.floats(0.001, 10), st.floats(10, 1000))
def test_pauses_stay_within_bounds(failures: int, first: float, cap: float) -> None:
    """However many failures: a pause is positive and not above the cap."""
    assert 0 < pause(first, cap, failures) <= cap


async def test_shutting_down_frees_those_who_wait() -> None:
    """Workers end, later adds are ignored, no timer is left."""
    queue = WorkQueue()
    getters = [asyncio.create_task(queue.get()) for _ in range(3)]
    await asyncio.sleep(0)
    queue.add_after(A, 0.01)
    queue.shut_down()
    assert await asyncio.gather(*getters) == [None, None, None]
    queue.add(A)
    assert await queue.get() is None
    assert len(queue) == queue.delayed == 0


async def test_a_cancelled_getter_passes_its_turn_on() -> None:
    """A key that comes while a waiting worker is cancelled goes to another one."""
    queue = WorkQueue()
    first = asyncio.create_task(queue.get())
    second = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add(A)
    first.cancel()
    assert await asyncio.wait_for(second, 1) == A
    await asyncio.gather(first, return_exceptions=True)


async def test_one_namespace_cannot_occupy_all_workers() -> None:
    """Keys of a namespace wait while it has its share, and another namespace's key is taken at once."""
    queue = WorkQueue(per_namespace=2)
    for number in range(5):
        queue.add(Key("busy", str(number)))
    assert [await queue.get(), await queue.get()] == [Key("busy", "0"), Key("busy", "1")]
    getter = asyncio.create_task(queue.get())
    await asyncio.sleep(0.01)
    assert not getter.done()
    assert len(queue) == 3
    queue.add(Key("other", "x"), LOW)
    assert await getter == Key("other", "x")
    getter = asyncio.create_task(queue.get())
    await asyncio.sleep(0.01)
    assert not getter.done()
    queue.add(Key("busy", "0"))
    queue.done(Key("busy", "0"))
    assert await getter == Key("busy", "2")
    queue.done(Key("busy", "1"))
    assert [await queue.get()] == [Key("busy", "3")]


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(0, 5), st.sampled_from([NORMAL, LOW])), max_size=40
    ),
    st.integers(1, 3),
)
def test_every_key_is_worked_on_whatever_the_share_of_a_namespace(
    added: list[tuple[str, int, int]], share: int
) -> None:
    """No key is lost or worked on twice, and no namespace has more than its share at once."""

    async def run() -> None:
        queue = WorkQueue(per_namespace=share)
        seen: list[Key] = []
        busy: dict[str, int] = {}

        async def worker() -> None:
            while (key := await queue.get()) is not None:
                busy[key.namespace] = busy.get(key.namespace, 0) + 1
                assert busy[key.namespace] <= share
                await asyncio.sleep(0)
                seen.append(key)
                busy[key.namespace] -= 1
                queue.done(key)

        workers = [asyncio.create_task(worker()) for _ in range(5)]
        keys = {Key(namespace, str(number)) for namespace, number, _ in added}
        for namespace, number, priority in added:
            queue.add(Key(namespace, str(number)), priority)
        async with asyncio.timeout(5):
            while len(seen) < len(keys) or queue.active:
                await asyncio.sleep(0)
        assert sorted(seen) == sorted(keys)
        queue.shut_down()
        await asyncio.gather(*workers)

    asyncio.run(run())


async def test_keys_with_longer_delays_come_together() -> None:
    """Two keys that are due at almost the same time resume the process once; none comes too early."""
    queue = WorkQueue()
    loop = asyncio.get_running_loop()
    while (loop.time() + 0.3) % MOMENT > MOMENT / 2:
        await asyncio.sleep(0.01)
    began = loop.time()
    queue.add_after(A, 0.3)
    queue.add_after(B, 0.31)
    assert await queue.get() == A
    assert len(queue) == 1
    assert loop.time() - began >= 0.3


async def test_a_key_that_keeps_failing_is_tried_at_most_once_a_minute() -> None:
    """After the first minutes an object that cannot be written costs the API server next to nothing."""
    queue = WorkQueue()
    pauses = [queue.retry(A) for _ in range(40)]
    assert all(60 <= seconds <= 120 for seconds in pauses[12:])
    assert sum(pauses[:10]) < 60
    queue.forget(A)
    queue.drop_delayed(A)
