"""The queues that workloads name, as the cache changes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from kaiwo.api.crds import KAIWO_JOB
from kaiwo.engine.store import Cache, CacheEvent
from kaiwo.workload.labels import ADOPTED
from kaiwo_kueue.demand import Demand

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaiwo.engine.cached_object import CachedObject
    from kaiwo.plugin.controllers import ControllerHost


@pytest.fixture
def handlers() -> list[Callable[[CacheEvent], None]]:
    """Who follows the workloads."""
    return []


@pytest.fixture
def demand(handlers: list[Callable[[CacheEvent], None]]) -> Demand:
    """The demand of a host whose cache is played by `see`."""
    cache = SimpleNamespace(subscribe=lambda _, handler: handlers.append(handler))
    manager = SimpleNamespace(watch=lambda _: None, cache=cache)
    return Demand(cast("ControllerHost", SimpleNamespace(manager=manager, namespaces=())))


@pytest.fixture
def see(demand: Demand, handlers: list[Callable[[CacheEvent], None]]) -> Callable[..., None]:
    """Let the cache report a workload: ``see("a", queue="q")``; without a status word it has not ended."""
    del demand

    def report(
        name: str, *, queue: str | None = None, word: str = "", deleted: bool = False, **labels: str
    ) -> None:
        entry = cached(name, queue, word, labels)
        type_ = "DELETED" if deleted else "MODIFIED"
        handlers[0](CacheEvent(cast("Any", type_), KAIWO_JOB, entry, None if deleted else entry))

    return report


def cached(name: str, queue: str | None, word: str, labels: dict[str, str]) -> CachedObject:
    """A KaiwoJob of the namespace "team" in a cache."""
    cache = Cache()
    cache.register(KAIWO_JOB).replace([], "1")
    obj: dict[str, Any] = {
        "apiVersion": KAIWO_JOB.api_version,
        "kind": "KaiwoJob",
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": f"uid-{name}",
            "resourceVersion": "2",
            "labels": labels,
        },
        "spec": {} if queue is None else {"clusterQueue": queue},
        "status": {"status": word},
    }
    cache.assume(KAIWO_JOB, obj)
    found = cache.get(KAIWO_JOB, "team", name)
    assert found is not None
    return found


def test_a_queue_is_wanted_as_long_as_a_workload_names_it(demand: Demand, see: Callable[..., None]) -> None:
    """Until the last one has ended, was deleted, or names another."""
    for name in ("a", "b", "c"):
        see(name, queue="q")
    see("a", queue="q")
    assert demand.pairs("main") == {("team", "q")}
    see("a", queue="q", word="COMPLETE")
    see("b", queue="q", deleted=True)
    assert demand.pairs("main") == {("team", "q")}
    see("c", queue="other")
    assert demand.pairs("main") == {("team", "other")}
    see("c", queue="other", deleted=True)
    assert demand.pairs("main") == frozenset()


def test_without_a_name_it_is_the_default_queue(demand: Demand, see: Callable[..., None]) -> None:
    """Whatever its name is at the moment."""
    see("a")
    assert demand.pairs("main") == {("team", "main")}
    assert demand.pairs("renamed") == {("team", "renamed")}


def test_an_adopted_object_is_in_no_default_queue(demand: Demand, see: Callable[..., None]) -> None:
    """Only the queue that it names itself is wanted for it."""
    see("a", **{ADOPTED: "uid-of-a-job"})
    assert demand.pairs("main") == frozenset()
    see("b", queue="q", **{ADOPTED: "uid-of-b-job"})
    assert demand.pairs("main") == {("team", "q")}


def test_listeners_are_called_when_a_queue_is_named_for_the_first_time(
    demand: Demand, see: Callable[..., None]
) -> None:
    """Not for each workload, and again once nobody had named it."""
    calls: list[None] = []
    demand.on_change(lambda: calls.append(None))
    see("a", queue="q")
    see("b", queue="q")
    assert len(calls) == 1
    see("a", queue="q", word="FAILED")
    see("b", queue="q", word="FAILED")
    assert len(calls) == 1
    see("c", queue="q")
    assert len(calls) == 2
