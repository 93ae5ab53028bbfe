"""What one of several operators does, and what it says of namespaces that none serves."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from kaiwo.host import sharding
from kaiwo.host.settings import Settings
from kaiwo.host.sharding import Sharding

if TYPE_CHECKING:
    from kaiwo.engine.manager import Manager


@pytest.mark.parametrize(
    ("shard", "lease", "whole"), [("", "op", True), ("main", "op", True), ("a", "op-a", False)]
)
def test_one_process_does_what_is_done_once_in_a_cluster(shard: str, lease: str, *, whole: bool) -> None:
    """The main one, whose Lease has the name that it had before there were shards."""
    of = Sharding(Settings(shard=shard, lease_name="op"))
    assert (of.lease, of.whole) == (lease, whole)


def test_without_shards_everything_is_served_and_the_lease_says_nothing() -> None:
    """No label has a meaning then."""
    alone = Sharding(Settings())
    assert alone.serves("any")
    assert alone.annotations() == {}
    assert alone.condition(1) is None


async def test_a_shard_that_nobody_leads_is_reported_until_somebody_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At the second look, because a Lease is free for a moment in each rollout."""
    monkeypatch.setattr(sharding, "INTERVAL", 0)
    looks: list[dict[str, list[str]]] = [
        {"b": ["x"]}, {}, {"a": ["t7", *(f"t{n}" for n in range(6))]}, {"a": ["t1"], "b": ["x"]}, {},
    ]  # fmt: skip
    seen: list[str] = []
    main = Sharding(Settings(shard="main"))

    async def unserved() -> dict[str, list[str]]:
        if not looks:
            await asyncio.Event().wait()
        return looks.pop(0)

    def changed() -> None:
        condition = main.condition(3)
        seen.append(condition.message if condition is not None else "")

    main.on_change(changed)
    main._shard = cast("Any", SimpleNamespace(unserved=unserved))
    running = asyncio.create_task(main.run(cast("Manager", SimpleNamespace(leading=True))))
    while len(seen) < 2:
        await asyncio.sleep(0)
    running.cancel()
    assert seen[0].startswith("no operator leads shard a, which namespaces t1 belong to. Start its operator")
    assert seen[1:] == [""]
