"""Namespaces that several processes share: each has one shard, and no namespace has two writers."""

from __future__ import annotations

import asyncio
import copy
from typing import TYPE_CHECKING, Any, cast

from hypothesis import given, settings
from hypothesis import strategies as st

from kaiwo.engine.cached_object import Projection
from kaiwo.engine.resource import LEASE, NAMESPACE
from kaiwo.engine.shard import MAIN, OtherLeases, Shard, shard_of
from kaiwo.engine.store import Cache
from kaiwo.engine.workqueue import Key, WorkQueue

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Iterable

    from kaiwo.engine.reader import Reader
    from kaiwo.engine.resource import Object, Resource

LABEL = "example.com/shard"
SEEN = "example.com/seen"
ADMINISTRATOR = 3


class Server:
    """An API server with Namespaces and Leases; watch events come when a test delivers them."""

    def __init__(self) -> None:
        self.version = 100
        self.namespaces: dict[str, Object] = {}
        self.log: list[Object] = []
        self.leases: dict[str, Object] = {}

    def label(self, name: str, shard: str | None) -> None:
        """Create or label a Namespace."""
        self.version += 1
        labels = {} if shard is None else {LABEL: shard}
        metadata = {"name": name, "uid": name, "resourceVersion": str(self.version), "labels": labels}
        self.namespaces[name] = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
        self.log.append(self.namespaces[name])

    def renew(self, process: Process) -> None:
        """What the leader elector of a process writes."""
        self.leases[process.shard.lease] = {
            "metadata": {"name": process.shard.lease, "annotations": dict(process.shard.annotations)},
            "spec": {"holderIdentity": process.shard.name, "leaseDurationSeconds": 10, "renewTime": "now"},
        }

    async def list(self, resource: Resource, _namespace: str | None = None) -> AsyncIterator[Object]:
        """All objects of one kind."""
        await asyncio.sleep(0)
        found = self.namespaces if resource == NAMESPACE else self.leases
        assert resource in (NAMESPACE, LEASE)
        for obj in copy.deepcopy(list(found.values())):
            yield obj


class Work:
    """A controller that only counts."""

    def __init__(self) -> None:
        self.queue = WorkQueue()
        self.shard: Shard | None = None
        self.resumed: list[set[str]] = []

    def resume(self, _cache: Cache, namespaces: Collection[str]) -> None:
        """Note what is begun with."""
        self.resumed.append(set(namespaces))


class Process:
    """One process of a shard, with a cache of its own."""

    def __init__(self, server: Server, name: str, clock: Any = lambda: 0.0) -> None:
        self.server = server
        self.cache = Cache()
        self.store = self.cache.register(NAMESPACE, Projection())
        self.shard = Shard(
            cast("Reader", server), self.cache,
            name=name, label=LABEL, annotation=SEEN, namespace="system", lease="op", clock=clock, poll=0.01,
        )  # fmt: skip
        self.work = Work()
        self.shard.add(self.work)

    def sync(self) -> None:
        """Deliver everything."""
        objects = [self.store.decode(encoded(obj)) for obj in self.server.namespaces.values()]
        self.store.replace(objects, str(self.server.version))

    def deliver(self) -> None:
        """Deliver the next change as a watch event."""
        for obj in self.server.log:
            if int(obj["metadata"]["resourceVersion"]) > self.store.version:
                self.store.observe("MODIFIED", self.store.decode(encoded(obj)))
                return

    async def step(self) -> None:
        """One round of `run`, and a renewal of the Lease before and after it."""
        pending = self.shard._assign()
        self.server.renew(self)
        if pending:
            await self.shard._take(pending)
        self.server.renew(self)


def encoded(obj: Object) -> bytes:
    """As the API server sends it."""
    import msgspec

    return msgspec.json.encode(obj)


def serving(processes: Iterable[Process], name: str) -> list[str]:
    """The shards that reconcile a namespace."""
    return [process.shard.name for process in processes if process.shard.serves(name)]


@given(
    st.dictionaries(st.sampled_from([LABEL, "team", "x/y"]), st.sampled_from(["", "a", "b", "zz", "main"])),
    st.sets(st.sampled_from(["a", "b", "c", "zz"])),
)
def test_every_namespace_has_exactly_one_shard(labels: dict[str, str], others: set[str]) -> None:
    """Whatever its labels are, of all shards that there may be."""
    shards = {MAIN, *others, labels.get(LABEL) or MAIN}
    assert [name for name in shards if shard_of(labels, LABEL) == name] == [labels.get(LABEL) or MAIN]


Step = tuple[int, str, str | None]
"""A label that an administrator writes (actor 3), or what process 0 to 2 does: its next watch event for a
label, a round for none."""


@settings(max_examples=300)
@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from(["n1", "n2"]), st.sampled_from(["a", "b", None])),
        max_size=60,
    )
)
def test_no_namespace_ever_has_two_writers(steps: list[Step]) -> None:
    """Labels, watch events and rounds of the processes in any order; in the end each has its one writer."""
    asyncio.run(played(steps))


async def played(steps: list[Step]) -> None:
    """Carry the steps out, then let everything come to rest."""
    server = Server()
    for name in ("n1", "n2"):
        server.label(name, None)
    processes = [Process(server, name) for name in (MAIN, "a", "b")]
    for process in processes:
        process.sync()
        server.renew(process)
    for actor, name, label in steps:
        if actor == ADMINISTRATOR:
            server.label(name, label)
        elif label is not None:
            processes[actor].deliver()
        else:
            await processes[actor].step()
        assert max(len(serving(processes, each)) for each in server.namespaces) <= 1
    for process in processes:
        process.sync()
    for process in processes * 3:
        await process.step()
        assert max(len(serving(processes, each)) for each in server.namespaces) <= 1
    for name, obj in server.namespaces.items():
        assert serving(processes, name) == [shard_of(obj["metadata"]["labels"], LABEL)]


async def test_a_namespace_is_not_taken_while_a_reconciliation_there_goes_on() -> None:
    """The other process says that it has come so far only when its last write there is over."""
    server = Server()
    server.label("team", None)
    main, other = processes = Process(server, MAIN), Process(server, "a")
    for process in processes:
        process.sync()
        await process.step()
    await main.step()
    assert serving(processes, "team") == [MAIN]
    main.work.queue.add(Key("team", "job"))
    key = await main.work.queue.get()
    assert key is not None
    server.label("team", "a")
    for process in processes:
        process.sync()
        await process.step()
    await other.step()
    assert serving(processes, "team") == []
    assert "Lease system/op is held" in other.shard.waiting
    main.work.queue.done(key)
    await main.step()
    await other.step()
    assert serving(processes, "team") == ["a"]
    assert other.work.resumed == [{"team"}]
    assert other.shard.waiting == ""


async def test_a_process_that_does_not_know_of_shards_keeps_its_namespaces() -> None:
    """In a rollout from one operator to two: the old one serves everything until it gives its Lease up."""
    server = Server()
    server.label("team", "a")
    server.leases["op"] = {
        "metadata": {"name": "op"},
        "spec": {"holderIdentity": "old", "leaseDurationSeconds": 10},
    }
    other = Process(server, "a")
    other.sync()
    await other.step()
    assert serving([other], "team") == []
    server.leases["op"]["spec"]["holderIdentity"] = ""
    await other.step()
    assert serving([other], "team") == ["a"]


async def test_the_namespaces_of_a_dead_process_can_be_moved() -> None:
    """Its Lease counts until it has not been renewed for as long as it says, by our own clock."""
    now = 0.0
    server = Server()
    server.label("team", None)
    main, other = Process(server, MAIN), Process(server, "a", lambda: now)
    main.sync()
    await main.step()
    server.label("team", "a")
    other.sync()
    await other.step()
    now = 9.9
    await other.step()
    assert serving([other], "team") == []
    now = 10.1
    await other.step()
    assert serving([other], "team") == ["a"]
    server.leases["op"]["spec"]["renewTime"] = "later"
    assert OtherLeases().is_held(server.leases["op"])


async def test_a_new_leader_reads_the_namespaces_before_it_begins() -> None:
    """A standby process may be behind by a change that another shard has acted on since."""
    server = Server()
    server.label("team", None)
    main = Process(server, MAIN)
    main.sync()
    server.label("team", "a")
    running = asyncio.create_task(main.shard.run())
    await asyncio.sleep(0.1)
    assert serving([main], "team") == []
    assert main.shard.annotations == {SEEN: ""}
    main.deliver()
    while main.shard.annotations == {SEEN: ""}:
        await asyncio.sleep(0.01)
    assert serving([main], "team") == []
    server.label("mine", None)
    main.deliver()
    while not main.shard.serves("mine"):
        await asyncio.sleep(0.01)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert serving([main], "mine") == []
    assert main.shard.annotations == {SEEN: ""}


async def test_namespaces_without_an_operator_are_named() -> None:
    """By their shard, whose Lease is free or was never made."""
    server = Server()
    server.label("one", None)
    server.label("two", "typo")
    main = Process(server, MAIN)
    main.sync()
    await main.step()
    assert await main.shard.unserved() == {"typo": ["two"]}
