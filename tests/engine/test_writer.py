"""The writer against a real API server: little is written, nothing twice, nobody else's."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.engine.cached_object import CachedObject, Projection
from kaiwo.engine.errors import ChangedBack, Conflict, ConnectionBroken
from kaiwo.engine.reflector import Reflector
from kaiwo.engine.repeated_writes import MANY
from kaiwo.engine.resource import CONFIG_MAP, DEPLOYMENT, JOB, SERVICE
from kaiwo.engine.store import Cache
from kaiwo.engine.writer import NameConflict, Writer, Written, render_hash

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Object, Resource
    from kaiwo.testing.fault_proxy import FaultProxy

pytestmark = pytest.mark.cluster

APPLIED = "example.com/applied"
KINDS = (CONFIG_MAP, JOB, DEPLOYMENT, SERVICE)


class Bench:
    """A writer that goes through the fault proxy, and its cache."""

    def __init__(self, client: Client, cache: Cache, namespace: str) -> None:
        self.writer = Writer(client, cache, field_manager="kaiwo", applied_annotation=APPLIED)
        self.cache = cache
        self.namespace = namespace

    def entry(self, resource: Resource, name: str) -> CachedObject:
        """A cached object."""
        found = self.cache.get(resource, self.namespace, name)
        assert found is not None
        return found

    async def until(self, resource: Resource, name: str, done: Callable[[CachedObject | None], Any]) -> None:
        """Wait for the cache."""
        changed = asyncio.Event()
        self.cache.subscribe(resource, lambda _: changed.set())
        async with asyncio.timeout(20):
            while not done(self.cache.get(resource, self.namespace, name)):
                changed.clear()
                await changed.wait()


@pytest.fixture
async def bench(through: Client, namespace: str) -> AsyncIterator[Bench]:
    """A writer with a cache that is kept up to date."""
    cache = Cache()
    owned = Projection(owned_fields=(("spec", "replicas"), ("spec", "suspend")))
    reflectors = [
        Reflector(through, cache.register(kind, owned, namespaces=(namespace,)), namespace) for kind in KINDS
    ]
    tasks = [asyncio.create_task(reflector.run()) for reflector in reflectors]
    async with asyncio.timeout(20):
        for reflector in reflectors:
            await reflector.settled.wait()
    yield Bench(through, cache, namespace)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.fixture
async def owner(client: Client, config_map: Callable[..., Object]) -> Object:
    """An object that owns others."""
    return await client.create(CONFIG_MAP, config_map("owner"))


def deployment(namespace: str, owner: Object, **spec: Any) -> Object:
    """A Deployment of a given owner."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d", "namespace": namespace, "ownerReferences": [reference(owner)]},
        "spec": {
            "selector": {"matchLabels": {"app": "d"}},
            "template": {
                "metadata": {"labels": {"app": "d"}},
                "spec": {
                    "containers": [
                        {
                            "name": "main",
                            "image": "i",
                            "env": [{"name": "A", "value": "1"}],
                            "ports": [{"containerPort": 80}],
                            "resources": {"limits": {"cpu": "1.5", "memory": "1024Mi"}},
                        }
                    ]
                },
            },
            **spec,
        },
    }


def job(namespace: str, owner: Object, name: str = "j") -> Object:
    """A suspended Job of a given owner."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace, "ownerReferences": [reference(owner)]},
        "spec": {
            "suspend": True,
            "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "m", "image": "i"}]}},
        },
    }


def reference(owner: Object) -> Object:
    """A controller reference."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


async def test_an_unchanged_object_is_not_written_again(
    bench: Bench, proxy: FaultProxy, namespace: str, owner: Object
) -> None:
    """The API server's defaults and spellings are no reason to write."""
    wanted = deployment(namespace, owner)
    first = await bench.writer.apply(DEPLOYMENT, wanted)
    assert isinstance(first, Written)
    assert first.changed
    before = len(proxy.writes())
    for _ in range(3):
        again = await bench.writer.apply(DEPLOYMENT, wanted)
        assert isinstance(again, Written)
        assert not again.changed
    assert len(proxy.writes()) == before == 1


async def test_a_field_that_is_no_longer_rendered_is_removed(
    bench: Bench, namespace: str, owner: Object
) -> None:
    """The live object still contains all desired fields; the hash shows that one was removed."""
    wanted = deployment(namespace, owner, minReadySeconds=5)
    await bench.writer.apply(DEPLOYMENT, wanted)
    del wanted["spec"]["minReadySeconds"]
    outcome = await bench.writer.apply(DEPLOYMENT, wanted)
    assert isinstance(outcome, Written)
    assert outcome.changed
    assert "minReadySeconds" not in outcome.live["spec"]


async def test_our_fields_are_restored_and_those_of_others_left(
    bench: Bench, client: Client, namespace: str, owner: Object
) -> None:
    """Somebody edits the child: what is ours comes back, what is theirs stays."""
    wanted = deployment(namespace, owner)
    await bench.writer.apply(DEPLOYMENT, wanted)
    edit = {
        "metadata": {"labels": {"theirs": "x"}},
        "spec": {"replicas": 4, "selector": {"matchLabels": {"app": "d"}}},
    }
    await client.merge_patch(DEPLOYMENT, namespace, "d", edit, field_manager="scaler")
    image = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "evil"}]}}}}
    edited = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d", "namespace": namespace},
    }
    await client.apply(DEPLOYMENT, {**edited, **image}, field_manager="editor")
    await bench.until(
        DEPLOYMENT,
        "d",
        lambda e: e and e.part("spec", "template", "spec", "containers")[0]["image"] == "evil",
    )
    assert bench.entry(DEPLOYMENT, "d").managers(("spec", "replicas")) == ("scaler",)
    outcome = await bench.writer.apply(DEPLOYMENT, wanted)
    assert isinstance(outcome, Written)
    assert outcome.live["spec"]["template"]["spec"]["containers"][0]["image"] == "i"
    assert outcome.live["spec"]["replicas"] == 4
    assert outcome.live["metadata"]["labels"] == {"theirs": "x"}


async def test_a_write_that_somebody_undoes_again_and_again_has_to_wait(
    bench: Bench, proxy: FaultProxy, client: Client, namespace: str, owner: Object
) -> None:
    """Another controller wants another value of our field; another content is still written at once."""
    wanted = deployment(namespace, owner, minReadySeconds=1)
    await bench.writer.apply(DEPLOYMENT, wanted)
    await client.merge_patch(DEPLOYMENT, namespace, "d", {"spec": {"minReadySeconds": 9}})

    def theirs(entry: CachedObject | None) -> bool:
        return entry is not None and entry.part("spec", "minReadySeconds") == 9

    for _ in range(MANY):
        await bench.until(DEPLOYMENT, "d", theirs)
        await bench.writer.apply(DEPLOYMENT, wanted)
        await client.merge_patch(DEPLOYMENT, namespace, "d", {"spec": {"minReadySeconds": 9}})
    await bench.until(DEPLOYMENT, "d", theirs)
    sent = len(proxy.writes())
    with pytest.raises(ChangedBack, match=r"^somebody changes Deployment d back after each write$") as error:
        await bench.writer.apply(DEPLOYMENT, wanted)
    assert 0 < error.value.retry_after <= 1
    assert len(proxy.writes()) == sent
    wanted["spec"]["minReadySeconds"] = 2
    outcome = await bench.writer.apply(DEPLOYMENT, wanted)
    assert outcome.live["spec"]["minReadySeconds"] == 2


async def test_a_creation_that_somebody_undoes_again_and_again_has_to_wait(
    bench: Bench, proxy: FaultProxy, client: Client, namespace: str, owner: Object
) -> None:
    """Somebody deletes each Job that is created: the next one starts pods only after a pause."""
    for _ in range(MANY):
        await bench.writer.create_once(JOB, job(namespace, owner))
        await client.delete(JOB, namespace, "j", propagation="Background")
        await bench.until(JOB, "j", lambda entry: entry is None)
    sent = len(proxy.writes())
    with pytest.raises(ChangedBack, match="somebody deletes Job j after each creation"):
        await bench.writer.create_once(JOB, job(namespace, owner))
    assert len(proxy.writes()) == sent


async def test_a_status_that_somebody_replaces_again_and_again_has_to_wait(
    bench: Bench, proxy: FaultProxy, client: Client, namespace: str
) -> None:
    """Two operators would write in turn for ever, whatever each of them says."""
    metadata = {"name": "s", "namespace": namespace}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": [{"port": 80}]}}
    bench.cache.assume(SERVICE, await client.create(SERVICE, service))

    async def write(second: int) -> bool:
        condition = {"type": "Ours", "status": "True", "reason": f"Second{second}", "message": ""}
        status = {"conditions": [condition | {"lastTransitionTime": f"2026-01-01T00:00:{second:02}Z"}]}
        entry = bench.entry(SERVICE, "s")
        return (await bench.writer.patch_status(entry, status, own_conditions=("Ours",))).changed

    for second in range(MANY + 1):
        assert await write(second)
        theirs = await client.patch_status(bench.entry(SERVICE, "s"), {"conditions": None})
        bench.cache.assume(SERVICE, json.loads(theirs))
    sent = len(proxy.writes())
    words = rf"^somebody replaces the status of Service {namespace}/s after each write$"
    with pytest.raises(ChangedBack, match=words) as error:
        await write(MANY + 1)
    assert 0 < error.value.retry_after <= 1
    assert len(proxy.writes()) == sent


async def test_a_job_is_created_once_however_often_it_is_requested(
    bench: Bench, proxy: FaultProxy, namespace: str, owner: Object
) -> None:
    """The second call finds the first one's Job, before any watch event has come."""
    wanted = job(namespace, owner)
    outcomes = [await bench.writer.create_once(JOB, wanted) for _ in range(3)]
    assert [isinstance(o, Written) and o.changed for o in outcomes] == [True, False, False]
    assert len(proxy.writes()) == 1
    assert bench.entry(JOB, "j").controller is not None


async def test_a_missing_response_does_not_create_a_second_job(
    bench: Bench, proxy: FaultProxy, client: Client, namespace: str, owner: Object
) -> None:
    """Crash or lost answer between write and note: the next attempt finds what is there."""
    proxy.lose_answer(method="POST", path="/jobs$")
    dropped = proxy.drop_event("ADDED", name="j", path="/jobs$")
    with pytest.raises(ConnectionBroken):
        await bench.writer.create_once(JOB, job(namespace, owner))
    await dropped.wait()
    outcome = await bench.writer.create_once(JOB, job(namespace, owner))
    assert isinstance(outcome, Written)
    assert not outcome.changed
    assert len([item async for item in client.list(JOB, namespace)]) == 1


@pytest.mark.parametrize("known", [True, False])
async def test_an_object_of_somebody_else_is_never_touched(
    bench: Bench,
    client: Client,
    proxy: FaultProxy,
    namespace: str,
    owner: Object,
    config_map: Callable[..., Object],
    known: bool,
) -> None:
    """Whether it is cached or not, whether created or applied: it stays as it is, and is named."""
    other = await client.create(CONFIG_MAP, config_map("other"))
    if not known:
        bench = Bench(bench.writer._client, Cache(), namespace)
    for kind, theirs in (
        (JOB, job(namespace, other)),
        (CONFIG_MAP, config_map("c", {"x": "1"}, owner=other)),
    ):
        live = await client.create(kind, theirs)
        name = live["metadata"]["name"]
        if known:
            await bench.until(kind, name, bool)
        wanted = {
            **theirs,
            "metadata": {**theirs["metadata"], "ownerReferences": [reference(owner)]},
        }
        before = len(proxy.writes())
        for outcome in (await bench.writer.create_once(kind, wanted), await bench.writer.apply(kind, wanted)):
            assert isinstance(outcome, NameConflict)
            assert outcome.owner is not None
            assert outcome.owner["name"] == "other"
            assert not outcome.deleting
        landed = [record for record in proxy.writes()[before:] if record.code < 300]
        assert landed == []
        now = await client.get(kind, namespace, name)
        assert now["metadata"]["ownerReferences"][0]["uid"] == other["metadata"]["uid"]


async def test_an_object_without_owner_is_ours_only_with_our_annotation(
    bench: Bench, client: Client, namespace: str, config_map: Callable[..., Object]
) -> None:
    """Ownerless things (queues) that an administrator made by hand are not taken over."""
    await client.create(CONFIG_MAP, config_map("byhand", {"x": "1"}))
    outcome = await bench.writer.apply(CONFIG_MAP, config_map("byhand", {"x": "2"}))
    assert isinstance(outcome, NameConflict)
    assert outcome.owner is None
    assert (await client.get(CONFIG_MAP, namespace, "byhand"))["data"] == {"x": "1"}
    ours = config_map("ours", {"x": "1"})
    await bench.writer.apply(CONFIG_MAP, ours)
    changed = await bench.writer.apply(CONFIG_MAP, config_map("ours", {"x": "2"}))
    assert isinstance(changed, Written)
    assert changed.live["data"] == {"x": "2"}


async def test_an_object_on_its_way_out_is_waited_for(
    bench: Bench, client: Client, namespace: str, owner: Object
) -> None:
    """The previous run of the same name is still being deleted."""
    old = job(namespace, owner)
    old["metadata"]["finalizers"] = ["example.com/hold"]
    live = await client.create(JOB, old)
    await client.delete(JOB, namespace, "j", propagation="Background")
    await bench.until(JOB, "j", lambda e: e and e.deleted)
    outcome = await bench.writer.create_once(JOB, job(namespace, owner))
    assert isinstance(outcome, NameConflict)
    assert outcome.deleting
    await client.merge_patch(
        JOB, namespace, "j", {"metadata": {"finalizers": None}}, uid=live["metadata"]["uid"]
    )


async def test_a_patch_is_sent_only_when_it_changes_something(
    bench: Bench, proxy: FaultProxy, namespace: str, owner: Object
) -> None:
    """Named keys by merge patch, null for absent, quantities by value."""
    await bench.writer.create_once(JOB, job(namespace, owner))
    same = {
        "spec": {"suspend": True, "activeDeadlineSeconds": None, "parallelism": 1},
        "metadata": {"annotations": {"none": None}},
    }
    before = len(proxy.writes())
    assert not (await bench.writer.patch(bench.entry(JOB, "j"), same)).changed
    assert len(proxy.writes()) == before
    changed = await bench.writer.patch(bench.entry(JOB, "j"), {"spec": {"suspend": False}})
    assert changed.live["spec"]["suspend"] is False
    assert bench.entry(JOB, "j").part("spec", "suspend") is False


async def test_a_status_decided_on_an_old_state_conflicts(
    bench: Bench, client: Client, namespace: str, owner: Object
) -> None:
    """What was decided on an old state does not land on a new one."""
    await bench.writer.create_once(JOB, job(namespace, owner))
    old = bench.entry(JOB, "j")
    await client.merge_patch(JOB, namespace, "j", {"metadata": {"labels": {"a": "b"}}})
    with pytest.raises(Conflict):
        await bench.writer.patch_status(old, {"active": 1})


async def test_a_status_is_one_patch_with_own_conditions_only(
    bench: Bench, client: Client, proxy: FaultProxy, namespace: str, owner: Object
) -> None:
    """Another controller's condition stays; the same status again sends nothing."""
    await bench.writer.apply(DEPLOYMENT, deployment(namespace, owner, replicas=0))
    now = "2026-01-01T00:00:00Z"
    theirs = {"type": "Theirs", "status": "True", "reason": "R", "lastTransitionTime": now}
    await bench.until(DEPLOYMENT, "d", lambda e: e and e.part("status", "observedGeneration"))
    live = await client.get(DEPLOYMENT, namespace, "d")
    await client.merge_patch(
        DEPLOYMENT,
        namespace,
        "d",
        {"status": {"conditions": [*live["status"].get("conditions", []), theirs]}},
        subresource="status",
    )
    await bench.until(DEPLOYMENT, "d", lambda e: e and "Theirs" in str(e.part("status", "conditions")))
    ours = {"type": "Ours", "status": "True", "reason": "R", "lastTransitionTime": now}
    before = len(proxy.writes())
    status = {"conditions": [ours], "readyReplicas": None}
    assert (await bench.writer.patch_status(bench.entry(DEPLOYMENT, "d"), status)).changed
    later = {"conditions": [{**ours, "lastTransitionTime": "2026-02-02T00:00:00Z"}]}
    assert not (await bench.writer.patch_status(bench.entry(DEPLOYMENT, "d"), later)).changed
    assert len(proxy.writes()) == before + 1
    kept = (await client.get(DEPLOYMENT, namespace, "d"))["status"]["conditions"]
    assert {"Theirs", "Ours"} <= {condition["type"] for condition in kept}


async def test_a_delete_hits_exactly_the_object_that_was_meant(
    bench: Bench, client: Client, namespace: str, config_map: Callable[..., Object]
) -> None:
    """A successor of the same name survives; what is gone already is fine."""
    await client.create(CONFIG_MAP, config_map("a"))
    await bench.until(CONFIG_MAP, "a", bool)
    old = bench.entry(CONFIG_MAP, "a")
    await client.delete(CONFIG_MAP, namespace, "a")
    assert not await bench.writer.delete(old)
    new = await client.create(CONFIG_MAP, config_map("a"))
    assert not await bench.writer.delete(old)
    assert (await client.get(CONFIG_MAP, namespace, "a"))["metadata"]["uid"] == new["metadata"]["uid"]
    await bench.until(CONFIG_MAP, "a", lambda e: e and e.uid == new["metadata"]["uid"])
    assert await bench.writer.delete(bench.entry(CONFIG_MAP, "a"))


@pytest.mark.parametrize(
    ("writes", "lose_answer"), [(0, False), (1, False), (2, False), (1, True), (2, True), (3, True)]
)
async def test_a_crash_between_any_two_writes_ends_in_the_same_state(
    connection: Any,
    proxy: FaultProxy,
    client: Client,
    namespace: str,
    owner: Object,
    config_map: Callable[..., Object],
    writes: int,
    lose_answer: bool,
) -> None:
    """Three writes, cut after each one, answered or not: the restart completes them without a duplicate."""

    async def work(with_client: Client) -> None:
        writer = Writer(with_client, Cache(), field_manager="kaiwo", applied_annotation=APPLIED)
        await writer.apply(CONFIG_MAP, config_map("first", {"x": "1"}, owner=owner))
        await writer.create_once(JOB, job(namespace, owner))
        await writer.apply(CONFIG_MAP, config_map("last", {"x": "1"}, owner=owner))

    from kaiwo.engine.client import Client as Another

    crashed = proxy.crash_after(writes, lose_answer=lose_answer)
    async with Another(proxy.connection, timeout=5.0) as first:
        with pytest.raises(ConnectionBroken):
            await work(first)
    assert crashed.is_set()
    proxy.clear()
    async with Another(connection) as second:
        await work(second)
    assert [item["metadata"]["name"] async for item in client.list(JOB, namespace)] == ["j"]
    names = [item["metadata"]["name"] async for item in client.list(CONFIG_MAP, namespace)]
    assert sorted(set(names) - {"kube-root-ca.crt", owner["metadata"]["name"]}) == ["first", "last"]


async def test_a_kind_that_is_cached_in_part_is_not_written_by_comparison(
    client: Client, namespace: str, config_map: Callable[..., Object]
) -> None:
    """A field that the cache dropped would seem absent: the mistake is an error and not a write."""
    cache = Cache()
    store = cache.register(CONFIG_MAP, Projection(keep=(("status",),)))
    writer = Writer(client, cache, field_manager="kaiwo", applied_annotation=APPLIED)
    made = await writer.create_once(CONFIG_MAP, config_map("a", {"x": "1"}))
    assert isinstance(made, Written)
    store.replace([], "1")
    cache.assume(CONFIG_MAP, made.live)
    entry = cache.get(CONFIG_MAP, namespace, "a")
    assert entry is not None
    with pytest.raises(ValueError, match="must keep the whole object"):
        await writer.apply(CONFIG_MAP, config_map("a", {"x": "2"}))
    with pytest.raises(ValueError, match="must keep the whole object"):
        await writer.patch(entry, {"data": {"x": None}})
    assert not (await writer.patch_status(entry, {})).changed


def test_the_hash_does_not_depend_on_the_order_of_keys() -> None:
    """A render that only orders its keys differently is the same render."""
    assert render_hash({"a": 1, "b": {"c": [1], "d": 2}}) == render_hash({"b": {"d": 2, "c": [1]}, "a": 1})
    assert render_hash({"a": [1, 2]}) != render_hash({"a": [2, 1]})
