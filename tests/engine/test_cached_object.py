"""How objects are kept: whatever has happened to one, it reads the same."""

from __future__ import annotations

import gc
import tracemalloc
import weakref
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaiwo.engine.cached_object import ObjectDecoder, Projection
from kaiwo.engine.resource import JOB

if TYPE_CHECKING:
    from kaiwo.engine.cached_object import CachedObject
    from kaiwo.engine.resource import Object

KEYS = ("metadata", "managedFields", "labels", "spec", "status", "conditions", "apiVersion", "kind", "a")
Json = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=3),
    max_leaves=10,
)
Paths = st.lists(st.sampled_from(KEYS), min_size=1, max_size=4).map(tuple)


def job(**more: Any) -> Object:
    """A Job as the API server sends it."""
    managed = [{"manager": "kueue", "fieldsV1": {"f:spec": {"f:suspend": {}}}}]
    metadata = {"name": "j", "namespace": "ns", "resourceVersion": "1", "managedFields": managed}
    return {"metadata": metadata, **more}


def entry_of(obj: Object, *keep: tuple[str, ...]) -> CachedObject:
    """An entry that has not been read yet."""
    decoder = ObjectDecoder(JOB, Projection(keep, owned_fields=(("spec", "suspend"),)))
    return decoder.decode(msgspec.json.encode(obj))


@given(Json, Json, Paths, st.lists(Paths, max_size=2))
def test_an_entry_reads_the_same_fresh_read_before_cleaned_and_packed(
    spec: Any, status: Any, path: tuple[str, ...], keep: list[tuple[str, ...]]
) -> None:
    """What a reader sees depends on the object and the projection, not on who has read it before."""
    obj = job(spec=spec, status=status, metadata={**job()["metadata"], "annotations": {"a": "x" * 2000}})
    fresh, read, cleaned, packed = (entry_of(obj, *keep) for _ in range(4))
    whole = read.full()
    cleaned.clean()
    packed.pack()
    assert fresh.part(*path) == read.part(*path) == cleaned.part(*path) == packed.part(*path)
    assert fresh.full() == whole == cleaned.full() == packed.full()
    assert "managedFields" not in whole["metadata"]
    assert whole["apiVersion"] == "batch/v1"


@pytest.mark.parametrize("before", ["nothing", "part", "full", "clean"])
def test_the_managers_of_a_field_are_known_at_any_time(before: str) -> None:
    """Also after managedFields are gone."""
    entry = entry_of(job(spec={"suspend": True}))
    read = {"part": lambda: entry.part("spec"), "full": entry.full, "clean": entry.clean}
    read.get(before, lambda: None)()
    assert entry.managers(("spec", "suspend")) == ("kueue",)


def test_what_is_not_kept_goes_also_when_nobody_reads() -> None:
    """Of ten thousand objects only the latest few hold their managedFields."""
    decoder = ObjectDecoder(JOB, Projection())
    objects = [decoder.decode(msgspec.json.encode(job(spec={"a": 1}))) for _ in range(1000)]
    assert sum(b"managedFields" in obj._body for obj in objects) < 200
    assert objects[0].full() == objects[-1].full()


def test_a_version_that_was_replaced_is_not_kept() -> None:
    """Remembering which objects are new keeps none of them alive."""
    entry = entry_of(job())
    gone = weakref.ref(entry)
    del entry
    gc.collect()
    assert gone() is None


def test_the_members_of_a_map_are_equal_where_their_json_is() -> None:
    """Two versions are compared without decoding what is the same in both."""
    old, new = (entry_of(job(status={"ready": ready, "conditions": [{"a": 1}]})) for ready in (0, 1))
    before, after = old.members("status"), new.members("status")
    assert before["conditions"] == after["conditions"]
    assert before["ready"] != after["ready"]
    assert old.members("spec", "template") == {}
    assert entry_of(job(status="odd")).members("status") == {}


def test_what_rests_is_packed_and_what_changes_is_not() -> None:
    """Of 50,000 Jobs nearly all rest; the others are read many times within a moment."""
    decoder = ObjectDecoder(JOB, Projection())
    jobs = [
        decoder.decode(msgspec.json.encode(job(spec={"args": [f"--lr={number / 7}"] * 200})))
        for number in range(300)
    ]
    tracemalloc.start()
    try:
        resting = enumerate(jobs[:100])
        wrong = [n for n, entry in resting if entry.full()["spec"]["args"][0] != f"--lr={n / 7}"]
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert not wrong
    assert kept < 10 * jobs[0].size  # reading a packed object does not unpack it for good
    assert [entry.packed for entry in jobs] == [True] * 172 + [False] * 128


@pytest.mark.parametrize("keep", [(), (("spec",),)], ids=["whole", "a part"])
def test_a_cached_object_takes_no_more_memory_than_its_json(keep: tuple[tuple[str, ...], ...]) -> None:
    """The buffer of an encoder is up to half as large again: 100 MB for the objects of 50,000 workloads."""
    entries = [entry_of(job(spec={"args": ["x" * (2000 + number)]}), *keep) for number in range(100)]
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        lengths = sum(entry.size for entry in entries)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert lengths <= after - before <= lengths * 1.1
