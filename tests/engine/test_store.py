"""The cache: what reconcilers read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaiwo.engine.cached_object import Projection, path_tree, prune
from kaiwo.engine.resource import CONFIG_MAP, JOB, NODE, POD
from kaiwo.engine.store import Cache, CacheEvent

if TYPE_CHECKING:
    from kaiwo.engine.resource import Object
    from kaiwo.engine.store import Store


def job(name: str = "j", version: int = 1, uid: str = "", **more: Any) -> Object:
    """A Job as the API server lists it: without apiVersion and kind, with managedFields."""
    return {
        "metadata": {
            "name": name,
            "namespace": "ns",
            "uid": uid or f"uid-{name}",
            "resourceVersion": str(version),
            "generation": 2,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "managedFields": [
                {"manager": "kaiwo", "fieldsV1": {"f:spec": {"f:parallelism": {}}}},
                {"manager": "kueue", "fieldsV1": {"f:spec": {"f:suspend": {}}}},
            ],
            **more.pop("metadata", {}),
        },
        "spec": {"suspend": True, "parallelism": 2, "template": {"spec": {"containers": [{"name": "m"}]}}},
        **more,
    }


def owned(uid: str, *, controller: bool = True) -> Object:
    """Metadata with one owner."""
    return {
        "ownerReferences": [
            {"apiVersion": "v1", "kind": "K", "name": "o", "uid": uid, "controller": controller}
        ]
    }


def filled(
    cache: Cache, *objects: Object, version: int = 10, **projection: Any
) -> tuple[Store, list[CacheEvent]]:
    """A store of Jobs after its first list, and the events from then on."""
    store = cache.register(JOB, Projection(**projection))
    store.replace([store.decode(msgspec.json.encode(obj)) for obj in objects], str(version))
    events: list[CacheEvent] = []
    cache.subscribe(JOB, events.append)
    return store, events


def see(store: Store, type_: str, obj: Object) -> None:
    """A watch event."""
    store.observe(type_, store.decode(msgspec.json.encode(obj)))


def test_an_entry_gives_back_the_object_without_managed_fields() -> None:
    """Nothing of an object is lost but managedFields; apiVersion and kind are filled in."""
    cache = Cache()
    filled(cache, job(status={"active": 1}, metadata={"annotations": {"a": "b"}, "finalizers": ["f"]}))
    entry = cache.get(JOB, "ns", "j")
    assert entry is not None
    expected = job(status={"active": 1}, metadata={"annotations": {"a": "b"}, "finalizers": ["f"]})
    del expected["metadata"]["managedFields"]
    assert entry.full() == {"apiVersion": "batch/v1", "kind": "Job", **expected}
    assert entry.part("status") == {"active": 1}
    assert entry.part("spec", "suspend") is True
    assert entry.part("spec", "nothing", "here") is None
    assert entry.part("spec", "suspend", "deeper") is None
    assert (entry.uid, entry.resource_version, entry.generation) == ("uid-j", "1", 2)
    assert entry.annotations == {"a": "b"}
    assert entry.created == "2026-01-01T00:00:00Z"


def test_what_a_reader_changes_stays_with_the_reader() -> None:
    """Two reconcilers that read one object do not see each other's edits."""
    cache = Cache()
    filled(cache, job())
    entry = cache.get(JOB, "ns", "j")
    assert entry is not None
    entry.full()["spec"]["suspend"] = "changed"
    entry.part("spec")["suspend"] = "changed"
    assert entry.part("spec", "suspend") is True


def test_owners_of_fields_are_read_before_managed_fields_go() -> None:
    """A reconciler can see that Kueue, not Kaiwo, decides about suspension."""
    cache = Cache()
    filled(cache, job(), owned_fields=(("spec", "suspend"), ("spec", "replicas")))
    entry = cache.get(JOB, "ns", "j")
    assert entry is not None
    assert entry.managers(("spec", "suspend")) == ("kueue",)
    assert entry.managers(("spec", "replicas")) == ()


def test_a_projection_keeps_only_what_is_named() -> None:
    """Pods cost a dozen fields; metadata is always there."""
    cache = Cache()
    store = cache.register(
        POD, Projection(keep=(("spec", "nodeName"), ("status", "containerStatuses", "*", "ready")))
    )
    pod = {
        "metadata": {
            "name": "p",
            "namespace": "ns",
            "uid": "u",
            "resourceVersion": "3",
            "labels": {"a": "b"},
        },
        "spec": {"nodeName": "n1", "containers": [{"name": "x"}]},
        "status": {"phase": "Running", "containerStatuses": [{"ready": True, "image": "i"}]},
    }
    entry = store.decode(msgspec.json.encode(pod))
    assert entry.full() == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": pod["metadata"],
        "spec": {"nodeName": "n1"},
        "status": {"containerStatuses": [{"ready": True}]},
    }


_Json = st.recursive(
    st.integers(0, 3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner),
)
_Paths = st.lists(
    st.lists(st.sampled_from(["a", "b", "c", "*"]), min_size=1, max_size=3).map(tuple), max_size=4
)


@given(_Json, _Paths)
def test_a_shorter_path_keeps_all_below_it(value: Any, paths: list[tuple[str, ...]]) -> None:
    """Naming a part and also something inside it keeps the whole part."""
    obj = {"a": value}
    assert prune(obj, path_tree([("a",), *(("a", *path) for path in paths)])) == obj


def test_two_readers_share_one_store_that_keeps_what_either_needs() -> None:
    """A second controller never narrows what the first one reads."""
    cache = Cache()
    cache.register(JOB, Projection(keep=(("status",),), labels=("x",)))
    store = cache.register(JOB, Projection(keep=(("spec", "suspend"),), owned_fields=(("spec", "suspend"),)))
    assert store.projection.keep == (("status",), ("spec", "suspend"))
    assert store.projection.labels == ("x",)
    assert cache.register(JOB, Projection()).projection.keep == ()
    with pytest.raises(ValueError, match="another reader"):
        cache.register(JOB, namespaces=("other",))


def test_objects_are_found_by_owner_and_by_label() -> None:
    """Children are found without a scan of all objects, also after their labels change."""
    cache = Cache()
    store, _ = filled(
        cache,
        job("a", metadata={**owned("o1"), "labels": {"run": "1"}}),
        job("b", metadata={**owned("o1", controller=False), "labels": {"run": "2"}}),
        job("c"),
        labels=("run",),
    )
    assert [e.name for e in cache.owned_by("o1", JOB)] == ["a", "b"]
    assert [e.name for e in cache.owned_by("o1")] == ["a", "b"]
    assert [e.name for e in cache.labelled(JOB, "run", "1")] == ["a"]
    see(store, "MODIFIED", job("a", 11, metadata={"labels": {"run": "2"}}))
    assert [e.name for e in cache.owned_by("o1")] == ["b"]
    assert cache.labelled(JOB, "run", "1") == []
    assert sorted(e.name for e in cache.labelled(JOB, "run", "2")) == ["a", "b"]
    see(store, "DELETED", job("b", 12))
    assert cache.owned_by("o1") == []
    with pytest.raises(KeyError, match="declare it"):
        cache.labelled(JOB, "other", "1")


def test_the_controller_of_an_object_is_known() -> None:
    """An owner that merely depends is not the controller."""
    cache = Cache()
    filled(cache, job("a", metadata=owned("o1")), job("b", metadata=owned("o1", controller=False)))
    assert [getattr(e.controller, "uid", None) for e in cache.list(JOB)] == ["o1", None]


def test_duplicate_and_stale_events_change_nothing() -> None:
    """A repeated watch event causes no reconciliation."""
    cache = Cache()
    store, events = filled(cache, job(version=5))
    see(store, "MODIFIED", job(version=11))
    see(store, "MODIFIED", job(version=11))
    see(store, "MODIFIED", job(version=7))
    assert [(e.type, e.latest.resource_version) for e in events] == [("MODIFIED", "11")]


def test_a_list_finds_deletes_that_nobody_reported() -> None:
    """What a new list does not name is gone, and subscribers get its deletion."""
    cache = Cache()
    store, events = filled(cache, job("a"), job("b"))
    store.replace([store.decode(msgspec.json.encode(job("a")))], "20")
    assert [(e.type, e.latest.name) for e in events] == [("DELETED", "b")]


def test_a_list_of_the_same_version_changes_nothing() -> None:
    """A quiet cluster is listed again without a reconciliation."""
    cache = Cache()
    store, events = filled(cache, job("a"), job("b"), version=10)
    store.replace([store.decode(msgspec.json.encode(job(name))) for name in ("a", "b")], "10")
    assert events == []
    assert {entry.name for entry in cache.list(JOB)} == {"a", "b"}


def test_a_witnessed_deletion_differs_from_an_inferred_one() -> None:
    """Only who saw the last state may say how a run ended."""
    cache = Cache()
    store, events = filled(cache, job("a"), job("b"))
    see(store, "DELETED", job("a", 11, status={"succeeded": 1}))
    store.replace([], "20")
    assert [(e.latest.name, e.witnessed) for e in events] == [("a", True), ("b", False)]
    assert events[0].latest.part("status") == {"succeeded": 1}


def test_a_successor_of_the_same_name_is_a_delete_and_an_add() -> None:
    """Deleted and made again between two lists: both are published, in order."""
    cache = Cache()
    store, events = filled(cache, job(uid="first"))
    store.replace([store.decode(msgspec.json.encode(job(version=15, uid="second")))], "20")
    assert [(e.type, e.latest.uid) for e in events] == [("DELETED", "first"), ("ADDED", "second")]


def test_an_own_write_is_read_at_once_and_not_undone_by_an_older_event() -> None:
    """Read your writes: the response is cached first, and its watch event causes no reconciliation."""
    cache = Cache()
    store, events = filled(cache, job(version=5))
    cache.assume(JOB, job(version=12))
    see(store, "MODIFIED", job(version=11))
    see(store, "MODIFIED", job(version=12))
    entry = cache.get(JOB, "ns", "j")
    assert entry is not None
    assert entry.resource_version == "12"
    assert len(events) == 1


def test_an_answer_that_comes_after_its_deletion_makes_no_ghost() -> None:
    """The watch has seen create and delete already when the answer to the create arrives."""
    cache = Cache()
    store, _ = filled(cache)
    see(store, "ADDED", job(version=11))
    see(store, "DELETED", job(version=12))
    cache.assume(JOB, job(version=11))
    assert cache.get(JOB, "ns", "j") is None


def test_an_own_write_survives_a_list_that_is_older() -> None:
    """A list that began before our create does not delete what we created."""
    cache = Cache()
    store, events = filled(cache)
    cache.assume(JOB, job(version=30))
    store.replace([], "20")
    assert cache.get(JOB, "ns", "j") is not None
    store.replace([], "31")
    assert [e.type for e in events] == ["ADDED", "DELETED"]


def test_data_restored_from_a_backup_replace_newer_ones() -> None:
    """When versions go back, what was known before is forgotten instead of kept for ever."""
    cache = Cache()
    store, _ = filled(cache, job(version=1000), version=1000)
    store.replace([store.decode(msgspec.json.encode(job(version=7)))], "500")
    entry = cache.get(JOB, "ns", "j")
    assert entry is not None
    assert entry.resource_version == "7"


def test_a_restored_object_replaces_a_newer_one_although_others_were_written_since() -> None:
    """Heartbeats alone bring the versions past those from before within a minute."""
    cache = Cache()
    store, events = filled(cache, job(version=1000), version=1000)
    store.replace([store.decode(msgspec.json.encode(job(version=7)))], "1500")
    entry = cache.get(JOB, "ns", "j")
    assert entry is not None
    assert entry.resource_version == "7"
    assert [event.type for event in events] == ["DELETED", "ADDED"]


def test_own_writes_outside_of_what_is_watched_are_not_kept() -> None:
    """No later event would report that they are gone."""
    cache = Cache()
    store = cache.register(CONFIG_MAP, namespaces=("ns",), label_selector="app=x")
    store.replace([], "1", "ns")
    for namespace, labels in (("other", {"app": "x"}), ("ns", {"app": "y"}), ("ns", {})):
        obj = {"metadata": {"name": "c", "namespace": namespace, "resourceVersion": "2", "labels": labels}}
        cache.assume(CONFIG_MAP, obj)
    assert list(cache.list(CONFIG_MAP)) == []
    cache.assume(
        CONFIG_MAP,
        {"metadata": {"name": "c", "namespace": "ns", "resourceVersion": "2", "labels": {"app": "x"}}},
    )
    assert [e.name for e in cache.list(CONFIG_MAP)] == ["c"]


@given(
    st.lists(
        st.tuples(st.sampled_from(["add", "delete", "assume", "list"]), st.sampled_from("ab")), max_size=25
    )
)
def test_whatever_happens_the_cache_ends_like_the_server(steps: list[tuple[str, str]]) -> None:
    """Own answers early, events late: once all events are seen, cache, indexes and truth agree."""
    cache = Cache()
    store, _ = filled(cache, version=0, labels=("run",))
    truth: dict[str, Object] = {}
    pending: list[tuple[str, Object]] = []
    for version, (step, name) in enumerate(steps, start=1):
        if step == "list":
            pending.clear()
            store.replace([store.decode(msgspec.json.encode(o)) for o in truth.values()], str(version))
        elif step == "delete":
            if name in truth:
                last = truth.pop(name)
                last["metadata"]["resourceVersion"] = str(version)
                pending.append(("DELETED", last))
        else:
            meta = {**owned(f"o{version % 2}"), "labels": {"run": str(version % 3)}}
            uid = truth[name]["metadata"]["uid"] if name in truth else f"{name}{version}"
            pending.append(
                ("MODIFIED" if name in truth else "ADDED", job(name, version, uid, metadata=dict(meta)))
            )
            truth[name] = job(name, version, uid, metadata=dict(meta))
            if step == "assume":
                cache.assume(JOB, truth[name])
    for type_, obj in pending:
        see(store, type_, obj)
    assert {e.name: e.version for e in cache.list(JOB)} == {
        n: int(o["metadata"]["resourceVersion"]) for n, o in truth.items()
    }
    for uid in ("o0", "o1"):
        names = {n for n, o in truth.items() if o["metadata"]["ownerReferences"][0]["uid"] == uid}
        assert {e.name for e in cache.owned_by(uid)} == names
    for value in "012":
        names = {n for n, o in truth.items() if o["metadata"]["labels"]["run"] == value}
        assert {e.name for e in cache.labelled(JOB, "run", value)} == names


@pytest.mark.parametrize("raw", [b"", b"[]", b"{}", b'{"metadata":{}}', b'{"metadata":{"name":1}}', b"\xff"])
def test_what_is_no_object_is_refused_with_its_kind(raw: bytes) -> None:
    """A garbled item is an error and never stored."""
    store = Cache().register(NODE)
    with pytest.raises(ValueError, match="nodes"):
        store.decode(raw)


def test_a_kind_that_nobody_registered_reads_as_empty() -> None:
    """Asking about an optional kind needs no special case."""
    cache = Cache()
    assert cache.get(JOB, "ns", "j") is None
    assert list(cache.list(JOB)) == []
    assert cache.owned_by("u", JOB) == []
    assert not cache.synced(JOB)
    cache.assume(JOB, job())


def test_a_reader_that_fails_harms_neither_the_store_nor_other_readers() -> None:
    """A plugin's subscriber raises: the cache and everybody else go on."""
    cache = Cache()
    store = cache.register(JOB)
    seen: list[str] = []

    def broken(_: CacheEvent) -> None:
        raise ZeroDivisionError

    cache.subscribe(JOB, broken)
    cache.subscribe(JOB, lambda event: seen.append(event.latest.name))
    store.replace([store.decode(msgspec.json.encode(job(name))) for name in ("a", "b")], "9")
    assert seen == ["a", "b"]
    assert store.synced


def config_map(namespace: str, name: str, version: int) -> Object:
    """A ConfigMap as the API server sends it."""
    metadata = {"name": name, "namespace": namespace, "uid": f"{name}-1", "resourceVersion": str(version)}
    return {"metadata": metadata}


def test_a_list_of_one_namespace_says_nothing_about_another_one() -> None:
    """What it does not name is gone there, and only there; also after a restore from a backup."""
    cache = Cache()
    store = cache.register(CONFIG_MAP, namespaces=("a", "b"))
    for namespace in ("a", "b"):
        listed = [store.decode(msgspec.json.encode(config_map(namespace, name, 5))) for name in ("c", "d")]
        store.replace(listed, "9", namespace)
    store.replace([store.decode(msgspec.json.encode(config_map("a", "c", 5)))], "10", "a")
    assert {e.key for e in store} == {("a", "c"), ("b", "c"), ("b", "d")}
    store.replace([], "1", "a")
    assert {e.key for e in store} == {("b", "c"), ("b", "d")}


def test_the_watch_of_one_namespace_is_not_that_of_another_one() -> None:
    """An own write is taken as long as the watch of its own namespace is not past it."""
    cache = Cache()
    store = cache.register(CONFIG_MAP, namespaces=("a", "b"))
    store.replace([], "1", "a")
    store.replace([], "1", "b")
    store.progress("9", "a")
    store.observe("ADDED", store.decode(msgspec.json.encode(config_map("a", "later", 10))))
    cache.assume(CONFIG_MAP, config_map("a", "old", 5))
    cache.assume(CONFIG_MAP, config_map("b", "new", 5))
    assert {e.key for e in store} == {("a", "later"), ("b", "new")}


def test_a_store_is_synced_when_every_namespace_that_can_be_read_is_listed() -> None:
    """One that may not be listed does not hold up the others; where none can be, nothing is known."""
    cache = Cache()
    store = cache.register(CONFIG_MAP, namespaces=("a", "b"))
    store.unreadable.add("b")
    assert not store.synced
    store.replace([], "1", "a")
    assert store.synced
    store.unreadable.discard("b")
    assert not store.synced
    store.replace([], "2", "b")
    assert store.synced
