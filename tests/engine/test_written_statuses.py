"""A status that somebody else replaces is written again, but not without an end; any other at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.engine.errors import ChangedBack
from kaiwo.engine.repeated_writes import MANY
from kaiwo.engine.resource import SERVICE
from kaiwo.engine.store import Cache
from kaiwo.engine.writer import Writer

if TYPE_CHECKING:
    from kaiwo.engine.cached_object import CachedObject
    from kaiwo.engine.resource import Object

ROOT = Path(__file__).parents[2]
HOUR = 3600.0


class Server:
    """Holds one object, takes patches of its status, and shows each change to all watchers at once."""

    def __init__(self) -> None:
        self.caches: list[Cache] = []
        self.status: Object = {}
        self.version = 0
        self.uid = "u"
        self.writes = 0

    def writer(self, clock: Any) -> Writer:
        """A process that watches."""
        cache = Cache()
        store = cache.register(SERVICE)
        store.replace([store.decode(self.body())], str(self.version))
        self.caches.append(cache)
        writer = Writer(self, cache, field_manager="kaiwo", applied_annotation="applied")  # type: ignore[arg-type]
        writer._statuses._replaced._clock = clock
        return writer

    def body(self) -> bytes:
        """The object."""
        metadata = {"name": "s", "namespace": "n", "uid": self.uid, "resourceVersion": str(self.version)}
        return json.dumps({"metadata": metadata, "status": self.status}).encode()

    def show(self, type_: Any = "MODIFIED") -> None:
        """Let everybody see the object."""
        self.version += 1
        for cache in self.caches:
            store = cache.store(SERVICE)
            assert store is not None
            store.observe(type_, store.decode(self.body()))

    def replace(self, **status: Any) -> None:
        """Change the status as somebody else."""
        self.status = status
        self.show()

    async def patch_status(self, _: CachedObject, patch: Object, **__: Any) -> bytes:
        """Merge."""
        merged = {**self.status, **patch}
        self.status = {key: value for key, value in merged.items() if value is not None}
        self.writes += 1
        self.show()
        return self.body()


class Process:
    """One installation, and what it would say."""

    def __init__(self, server: Server, clock: Any) -> None:
        self.writer = server.writer(clock)
        self.cache = server.caches[-1]
        self.writes = 0

    async def say(self, own: tuple[str, ...] = (), **status: Any) -> bool:
        """Write a status; whether it was written."""
        entry = self.cache.get(SERVICE, "n", "s")
        assert entry is not None
        written = (await self.writer.patch_status(entry, status, own_conditions=own)).changed
        self.writes += written
        return written


@pytest.fixture
def server() -> Server:
    """An API server with one object."""
    return Server()


class Time:
    """Seconds that pass when told."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        """Seconds."""
        return self.now


async def test_two_writers_with_different_answers_end_in_few_writes(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    """Whether their answers stay the same or have another value each time, and in one write or in two."""
    clock = Time()
    one, other = Process(server, clock), Process(server, clock)
    due = {one: 0.0, other: 0.0}
    while clock.now < 6 * HOUR:
        for process, name in ((one, "one"), (other, "other")):
            if due[process] > clock.now or server.status.get("message") == name:
                continue
            try:
                await process.say(message=name, at=f"{name} {clock.now}")
                await process.say(message=name, at=f"{name} {clock.now} again", second=name)
            except ChangedBack as error:
                due[process] = clock.now + error.retry_after
        assert one.writes < 1000
        waiting = [at for at in due.values() if at > clock.now]
        clock.now = min(waiting, default=clock.now + 0.01)
    # Ten at once, ten until the pauses are ten minutes, and then one in ten minutes; each in two steps.
    assert one.writes <= 2 * (MANY + 11 + 6 * 6)
    assert other.writes <= 2 * (MANY + 11 + 6 * 6)
    words = "somebody replaces the status of Service n/s after each write; from now on it is written ever"
    assert caplog.text.count(words) == 2


async def test_what_nobody_has_replaced_is_written_at_once(server: Server) -> None:
    """However often it goes back and forth, whatever else is in the status, and through several callers."""
    process = Process(server, lambda: 0.0)
    for number in range(100):
        assert await process.say(phase="AB"[number % 2], count=number)
        assert await process.say(note="CD"[number % 2])
        server.replace(**server.status, **{"theirs": number} if number == 0 else {})
    assert process.writes == 200


async def test_conditions_of_others_and_times_replace_nothing(server: Server) -> None:
    """What another process adds beside it is no reason to wait; what it does to ours is."""
    process = Process(server, lambda: 0.0)

    def condition(type_: str, reason: str, at: str = "2026-01-01T00:00:00Z") -> Object:
        return {"type": type_, "status": "True", "reason": reason, "lastTransitionTime": at}

    for number in range(2 * MANY):
        assert await process.say(("Ours",), conditions=[condition("Ours", str(number))])
        [ours] = [one for one in server.status["conditions"] if one["type"] == "Ours"]
        server.replace(conditions=[condition("Theirs", str(number)), ours | {"lastTransitionTime": "later"}])
    for number in range(MANY):
        server.replace(conditions=[condition("Ours", "theirs")])
        assert await process.say(("Ours",), conditions=[condition("Ours", str(number))])
    server.replace(conditions=[condition("Ours", "theirs")])
    with pytest.raises(ChangedBack) as error:
        await process.say(("Ours",), conditions=[condition("Ours", "again")])
    assert 0 < error.value.retry_after <= 1


async def test_writers_that_agree_are_not_held_up(server: Server) -> None:
    """Installations that share a KaiwoConfig: the first one to see a change writes, the others find it so."""
    one, other = Process(server, lambda: 0.0), Process(server, lambda: 0.0)
    for number in range(10 * MANY):
        first, second = (one, other) if number % 2 else (other, one)
        assert await first.say(generation=number)
        assert not await second.say(generation=number)


async def test_after_twenty_quiet_minutes_it_begins_anew(server: Server) -> None:
    """Somebody who edits a status by hand now and then is answered at once."""
    clock = Time()
    process = Process(server, clock)
    for _ in range(5 * MANY):
        assert await process.say(phase="ours")
        server.replace(phase="theirs")
        clock.now += 2 * 600 + 1


async def test_what_is_gone_is_forgotten(server: Server) -> None:
    """One number is kept for each object in the cache, and none for its predecessors of the same name."""
    process = Process(server, lambda: 0.0)
    for number in range(100):
        server.uid = f"u{number}"
        server.status = {}
        server.show("ADDED")
        for _ in range(MANY // 2):
            assert await process.say(phase="ours")
            server.replace(phase="theirs")
        server.show("DELETED")
    statuses = process.writer._statuses
    assert not statuses._replaced._last
    assert not statuses._kinds[SERVICE].last


async def test_an_object_that_went_during_its_write_is_not_kept(server: Server) -> None:
    """Its end came first: nothing would ever take the number away."""
    process = Process(server, lambda: 0.0)
    await process.say(phase="a")
    show = server.show
    server.show = lambda _="": show("DELETED")  # type: ignore[assignment,method-assign]
    assert await process.say(phase="b")
    assert process.cache.get(SERVICE, "n", "s") is None
    assert not process.writer._statuses._kinds[SERVICE].last


def test_there_is_one_way_to_write_a_status() -> None:
    """Of the host and of all plugins: whatever is written otherwise has no bound."""
    sources = [*(ROOT / "kaiwo").rglob("*.py"), *ROOT.glob("plugins/*/kaiwo_*/**/*.py")]
    assert len(sources) > 300
    calls = [
        (path.name, line.strip())
        for path in sources
        for line in path.read_text(encoding="utf-8").splitlines()
        if ".patch_status(" in line or 'subresource="status"' in line
    ]
    assert len(calls) > 8
    assert [call for call in calls if "writer.patch_status(" not in call[1] and call[0] != "writer.py"] == []
