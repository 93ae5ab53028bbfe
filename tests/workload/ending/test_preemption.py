"""Whom to end: the smallest sufficient set, longest past the deadline first, and nobody in vain."""

from __future__ import annotations

from datetime import timedelta
from itertools import combinations
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kaiwo.testing.builders import NOW
from kaiwo.workload.ending.preemption import Choice, GpuDemand, GpuHolder, GpuRoom, choose
from kaiwo.workload.ending.record import Beneficiary

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

KEY = "amd.com/gpu"


def demand(pods: int = 1, gpus: int = 8, models: frozenset[str] = frozenset()) -> GpuDemand:
    """A job that waits."""
    whom = Beneficiary("KaiwoJob", "team", "urgent", "uid-of-urgent")
    return GpuDemand(whom, KEY, pods, gpus, NOW, "quota", models)


def holder(name: str, past: float, node: str = "a", gpus: int = 8, key: str = KEY) -> GpuHolder:
    """A job that many minutes past its deadline."""
    deadline = NOW - timedelta(minutes=past)
    return GpuHolder("KaiwoJob", "team", name, f"uid-{name}", "1", key, gpus, deadline, {node: gpus})


def chosen(answer: Any) -> list[str]:
    """Names of the victims."""
    assert isinstance(answer, Choice), answer
    return [victim.name for victim in answer.victims]


def quota(free: int, held: Sequence[GpuHolder], need: int) -> Callable[[frozenset[str]], Any]:
    """A queue in which so much is free and these hold the rest."""

    def place(ended: frozenset[str]) -> Mapping[str, str] | None:
        freed = sum(item.gpus for item in held if item.uid in ended)
        return {} if free + freed >= need else None

    return place


FULL = [GpuRoom("a", 0), GpuRoom("b", 0), GpuRoom("c", 0)]


@pytest.mark.parametrize(
    ("wanted", "holders", "rooms", "names"),
    [
        pytest.param(
            demand(), [holder("late", 5), holder("later", 50, "b")], FULL, ["later"],
            id="longest past the deadline",
        ),
        pytest.param(
            demand(gpus=2),
            [holder("one", 50, "a", 1), holder("two", 40, "b", 1), holder("both", 5, "c", 2)],
            FULL, ["both"], id="one is better than two",
        ),
        pytest.param(
            demand(gpus=2),
            [holder("one", 50, "a", 1), holder("two", 40, "a", 1), holder("three", 60, "b", 1)],
            FULL, ["one", "two"], id="GPUs of one pod are on one node",
        ),
        pytest.param(
            demand(pods=2), [holder("x", 5), holder("y", 9, "b"), holder("z", 7, "c")], FULL, ["y", "z"],
            id="two pods need two nodes",
        ),
        pytest.param(
            demand(pods=2), [holder("x", 5), holder("y", 9, "b")],
            [GpuRoom("a", 0), GpuRoom("b", 0), GpuRoom("c", 8)], ["y"], id="what is free counts",
        ),
        pytest.param(
            demand(gpus=8), [holder("x", 5, "a", 6), holder("y", 9, "b", 8)],
            [GpuRoom("a", 2), GpuRoom("b", 0)], ["y"], id="of equal size the longer past",
        ),
        pytest.param(
            demand(models=frozenset({"mi300x"})), [holder("x", 50), holder("y", 9, "b")],
            [GpuRoom("a", 0, "mi250"), GpuRoom("b", 0, "mi300x")], ["y"], id="only nodes of its models",
        ),
    ],
)  # fmt: skip
def test_the_fewest_and_longest_overdue_holders_are_chosen(
    wanted: GpuDemand, holders: list[GpuHolder], rooms: list[GpuRoom], names: list[str]
) -> None:
    """By size first, then by how long the deadline has passed; on nodes where its pods fit."""
    answer = choose(wanted, holders, rooms)
    assert chosen(answer) == names
    assert isinstance(answer, Choice)
    assert sum(answer.nodes.values()) == wanted.pods


@pytest.mark.parametrize(
    ("holders", "rooms", "why"),
    [
        pytest.param([holder("x", 5)], [GpuRoom("b", 8)], "NotNeeded", id="it can run"),
        pytest.param([], FULL, "NoCandidates", id="nobody is past the deadline"),
        pytest.param([holder("x", 5, gpus=4)], FULL, "WouldNotHelp", id="too few GPUs on the node"),
        pytest.param(
            [holder("x", 5, "a", 4), holder("y", 5, "b", 4)], FULL, "WouldNotHelp", id="on two nodes"
        ),
        pytest.param([holder("x", 5, "gone")], FULL, "WouldNotHelp", id="on a node that is not usable"),
        pytest.param([holder("x", 5, key="nvidia.com/gpu")], FULL, "NoCandidates", id="another vendor"),
    ],
)  # fmt: skip
def test_nobody_is_ended_in_vain(holders: list[GpuHolder], rooms: list[GpuRoom], why: str) -> None:
    """Also where ending somebody would free as many GPUs as are asked for, but not where they are needed."""
    assert choose(demand(), holders, rooms) == why


def test_a_queue_that_would_not_give_the_quota_ends_nobody() -> None:
    """Its quota is smaller than the demand, or others of the cohort hold it."""
    held = [holder("x", 5), holder("y", 9, "b")]
    assert choose(demand(), held, FULL, lambda _: None) == "WouldNotHelp"
    assert chosen(choose(demand(), held, FULL, quota(-8, held, 8))) == ["y", "x"]


def test_nodes_are_those_of_the_flavor_that_the_queue_would_give() -> None:
    """Quota of one pool and room in another do not add up."""
    held = [holder("x", 50, "a"), holder("y", 9, "b")]
    rooms = [GpuRoom("a", 0, labels={"pool": "1"}), GpuRoom("b", 0, labels={"pool": "2"})]

    def place(ended: frozenset[str]) -> Mapping[str, str] | None:
        return {"pool": "2"} if "uid-y" in ended else None

    assert chosen(choose(demand(), held, rooms, place)) == ["y"]


NODES = st.lists(st.integers(0, 8), min_size=1, max_size=4)
HOLDERS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(1, 8), st.integers(1, 500)), min_size=0, max_size=7
)


@settings(max_examples=150, deadline=None)
@given(NODES, HOLDERS, st.integers(1, 3), st.integers(1, 8), st.integers(0, 20), st.randoms())
def test_the_smallest_sufficient_set(
    free: list[int],
    held: list[tuple[int, int, int]],
    pods: int,
    gpus: int,
    unused: int,
    order: Any,
) -> None:
    """Compared with all sets: sufficient, as small as can be, first by deadlines, whatever the order."""
    rooms = [GpuRoom(f"n{i}", gpus_free) for i, gpus_free in enumerate(free)]
    holders = [holder(f"h{i}", past, f"n{node}", size) for i, (node, size, past) in enumerate(held)]
    wanted = demand(pods, gpus)
    place = quota(unused, holders, wanted.gpus)
    ranked = sorted(holders, key=lambda item: (item.deadline, item.name))

    def enough(some: Sequence[GpuHolder]) -> bool:
        by_node = {room.name: room.free for room in rooms}
        for item in some:
            for node, count in item.on_nodes.items():
                if node in by_node:
                    by_node[node] += count
        fits = sum(count // gpus for count in by_node.values()) >= pods
        return fits and place(frozenset(item.uid for item in some)) is not None

    sets = [some for size in range(len(ranked) + 1) for some in combinations(ranked, size) if enough(some)]
    answer = choose(wanted, holders, rooms, place)
    if not sets:
        assert answer in ("WouldNotHelp", "NoCandidates")
    elif not sets[0]:
        assert answer == "NotNeeded"
    else:
        assert chosen(answer) == [item.name for item in sets[0]]
    order.shuffle(holders)
    order.shuffle(rooms)
    assert choose(wanted, holders, rooms, place) == answer


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(1, 8)), min_size=1, max_size=60), st.integers(1, 12)
)
def test_nobody_can_be_spared_where_there_are_too_many_sets(held: list[tuple[int, int]], pods: int) -> None:
    """Hundreds of candidates: what is chosen is sufficient, and each of them is needed."""
    rooms = [GpuRoom(f"n{i}", 0) for i in range(41)]
    holders = [holder(f"h{i}", i, f"n{node}", size) for i, (node, size) in enumerate(held)]
    answer = choose(demand(pods, 2), holders, rooms, most_sets=20)
    if not isinstance(answer, Choice):
        assert choose(demand(pods, 2), holders, rooms) == answer
        return
    for spared in answer.victims:
        rest = [item for item in answer.victims if item is not spared]
        assert choose(demand(pods, 2), rest, rooms) in ("WouldNotHelp", "NoCandidates")
