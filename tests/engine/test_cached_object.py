"""How objects are kept: whatever has happened to an entry, it reads the same."""

from __future__ import annotations

import gc
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
    """An entry that nobody has read yet."""
    form = ObjectDecoder(JOB, Projection(keep, owned_fields=(("spec", "suspend"),)))
    return form.decode(msgspec.json.encode(obj))


@given(Json, Json, Paths, st.lists(Paths, max_size=2))
def test_an_entry_reads_the_same_fresh_read_before_and_settled(
    spec: Any, status: Any, path: tuple[str, ...], keep: list[tuple[str, ...]]
) -> None:
    """What a reader sees depends on the object and the projection, not on who has read it before."""
    obj = job(spec=spec, status=status)
    fresh, read, settled = (entry_of(obj, *keep) for _ in range(3))
    whole = read.full()
    settled.settle()
    assert fresh.part(*path) == read.part(*path) == settled.part(*path)
    assert fresh.full() == whole == settled.full()
    assert "managedFields" not in whole["metadata"]
    assert whole["apiVersion"] == "batch/v1"


@pytest.mark.parametrize("before", ["nothing", "part", "full", "settle"])
def test_the_managers_of_a_field_are_known_at_any_time(before: str) -> None:
    """Also after managedFields are gone."""
    entry = entry_of(job(spec={"suspend": True}))
    read = {"part": lambda: entry.part("spec"), "full": entry.full, "settle": entry.settle}
    read.get(before, lambda: None)()
    assert entry.managers(("spec", "suspend")) == ("kueue",)


def test_what_is_not_read_for_a_while_is_kept_small() -> None:
    """Of ten thousand objects only the latest few take the memory of their JSON."""
    form = ObjectDecoder(JOB, Projection())
    text = msgspec.json.encode(job(spec={"text": "x" * 10_000}))
    entries = [form.decode(text) for _ in range(1000)]
    assert sum(len(entry._body) for entry in entries) < 200 * len(text)
    assert entries[0].full() == entries[-1].full()


def test_a_version_that_was_replaced_is_not_kept() -> None:
    """Remembering which objects are new keeps none of them alive."""
    entry = entry_of(job())
    gone = weakref.ref(entry)
    del entry
    gc.collect()
    assert gone() is None
