"""Set J: of two or three replicas the leader is killed, stands still, or cannot be reached."""

from __future__ import annotations

import asyncio
import random
import re
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from campaign.case import Case
from campaign.network import own_network
from campaign.own import came
from campaign.replicas import LEASE_NAMESPACE, Replicas
from campaign.violation import ViolationError
from kaiwo.engine.resource import LEASE
from kaiwo.testing.operator import until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence

    from campaign.arena import Arena
    from campaign.network import OwnNetwork
    from campaign.replicas import Replica
    from campaign.scenarios import Scenario
    from kaiwo.engine.resource import Object
    from kaiwo.testing.faults import Fault

    Partition = Callable[[Replicas, OwnNetwork], Awaitable[None]]

SCENARIOS: Final = 3
"""Scenarios for each fault."""

_LATE: Final = 20.0
"""Seconds by which a write of a former leader is late. Another one leads after ten."""

_HEALED: Final = 60.0
"""Seconds until a replica has reached the Lease again."""

_RETRANSMITTED: Final = 30.0
"""Seconds after which the kernel has sent again what nobody acknowledged for as long as a Lease lasts."""

_LONGER_THAN_THE_LEASE: Final = 15.0
_SEEN: Final = 5.0
"""Seconds until every replica has read the Lease again."""


def cases(scenarios: Sequence[Scenario], seed: int) -> Iterator[Case]:
    """A case for each fault and a few scenarios, which the seed chooses."""
    for name, (fault, count) in FAULTS.items():
        chosen = random.Random(f"{seed}-{name}")  # noqa: S311  no secret
        for scenario in chosen.sample(list(scenarios), min(SCENARIOS, len(scenarios))):
            yield Case("J", f"{scenario.name}-{name}", partial(_run, scenario, fault, count), own=True)
    for name, partition in PARTITIONS.items():
        chosen = random.Random(f"{seed}-{name}")  # noqa: S311  no secret
        for scenario in chosen.sample(list(scenarios), min(SCENARIOS, len(scenarios))):
            yield Case("J", f"{scenario.name}-{name}", partial(_run_apart, scenario, partition), own=True)


async def _run(
    scenario: Scenario, fault: Callable[[Replicas], Awaitable[None]], count: int, arena: Arena
) -> None:
    async with Replicas(arena, scenario, count) as replicas:
        await fault(replicas)
        await replicas.check()


async def _run_apart(scenario: Scenario, partition: Partition, arena: Arena) -> None:
    """The leader of three replicas has a network of its own."""
    async with own_network() as network, Replicas(arena, scenario, 3, network) as replicas:
        await partition(replicas, network)
        await replicas.check()


async def _killed_before_a_write(replicas: Replicas) -> None:
    fault = replicas.leader.proxy.hang(**_first_write(replicas))
    await replicas.submit()
    await came(fault)
    await asyncio.to_thread(replicas.leader.process.kill)
    await replicas.successor()


async def _killed_without_an_answer(replicas: Replicas) -> None:
    fault = replicas.leader.proxy.lose_answer(**_first_write(replicas))
    await replicas.submit()
    await came(fault)
    await asyncio.to_thread(replicas.leader.process.kill)
    await replicas.successor()


async def _killed_in_turn(replicas: Replicas) -> None:
    await asyncio.to_thread(replicas.leader.process.kill)
    await replicas.submit()
    second = await replicas.successor()
    await asyncio.to_thread(second.process.kill)
    await replicas.successor(*(each for each in replicas.all[1:] if each is not second))


async def _stopped(replicas: Replicas) -> None:
    replicas.leader.process.freeze()
    await replicas.submit()
    await replicas.successor()
    await replicas.arena.reaches(replicas.scenario)
    replicas.leader.process.thaw()
    await replicas.leader.leads_no_more()


async def _stopped_with_a_late_write(replicas: Replicas) -> None:
    """A write that was on its way when the leader stopped reaches the API server after the change."""
    where = _first_write(replicas)
    fault = replicas.leader.proxy.delay(_LATE, **where)
    await replicas.submit()
    await came(fault)
    replicas.leader.process.freeze()
    await replicas.successor()
    await replicas.arena.reaches(replicas.scenario)
    for _ in range(int(2 * _LATE)):
        records = replicas.arena.proxy.records
        if any(
            record.caller == replicas.leader.name
            and record.method == where["method"]
            and re.search(where["path"], record.path)
            for record in records
        ):
            break
        await asyncio.sleep(1)
    else:
        raise ViolationError("fault", "the late write never reached the API server")
    replicas.leader.process.thaw()
    await replicas.leader.leads_no_more()


async def _stopped_in_turn(replicas: Replicas) -> None:
    first, second = replicas.all
    first.process.freeze()
    await replicas.successor(second)
    await replicas.submit()
    first.process.thaw()
    await first.leads_no_more()
    second.process.freeze()
    await replicas.successor(first, terms=1)
    second.process.thaw()
    await second.leads_no_more()


async def _silent(replicas: Replicas) -> None:
    await _cut_off(replicas, lambda leader: leader.proxy.hang(times=None))


async def _reset(replicas: Replicas) -> None:
    await _cut_off(replicas, lambda leader: leader.proxy.reset(times=None))


async def _without_answers(replicas: Replicas) -> None:
    await _cut_off(replicas, lambda leader: leader.proxy.lose_answer(times=None))


async def _without_lease(replicas: Replicas) -> None:
    """The Lease alone is out of reach; all else works, and must not be used."""
    fault = replicas.leader.proxy.answer(503, path="/leases(/|$)", times=None)
    await replicas.successor()
    await replicas.submit()
    await came(fault)
    await replicas.arena.reaches(replicas.scenario)
    await replicas.leader.leads_no_more()
    replicas.leader.proxy.clear()


async def _cut_off(replicas: Replicas, how: Callable[[Replica], Fault]) -> None:
    """The leader cannot reach the API server until another one has done its work; then it can again."""
    fault = how(replicas.leader)
    stalled = replicas.leader.proxy.stall_stream(times=None)
    await replicas.submit()
    await replicas.successor()
    await came(fault)
    await replicas.arena.reaches(replicas.scenario)
    await came(stalled)
    await replicas.leader.leads_no_more()
    replicas.leader.proxy.clear()


async def _standby_cut_off(replicas: Replicas) -> None:
    """The leader leads on."""
    held = await replicas.holder()
    standby = replicas.all[1]
    fault = standby.proxy.hang(times=None)
    await replicas.submit()
    await replicas.arena.reaches(replicas.scenario)
    await asyncio.sleep(_LONGER_THAN_THE_LEASE)
    await came(fault)
    standby.proxy.clear()
    if await replicas.holder() != held or any(each.terms for each in replicas.all[1:]):
        raise ViolationError("leader", "a replica that was cut off took the Lease of one that worked")


async def _all_cut_off(replicas: Replicas) -> None:
    faults = [replica.proxy.reset(times=None) for replica in replicas.all]
    await replicas.submit()
    for fault in faults:
        await came(fault)
    await replicas.leader.leads_no_more()
    for replica in replicas.all:
        replica.proxy.clear()
        await replica.proxy.cut_watches(30.0)


async def _lease_deleted(replicas: Replicas) -> None:
    """Somebody deletes the Lease, three times; who leads keeps it."""
    client, name = replicas.arena.client, replicas.arena.lease
    held = await replicas.holder()
    for _ in range(3):
        old = await client.get(LEASE, LEASE_NAMESPACE, name)
        await client.delete(LEASE, LEASE_NAMESPACE, name)
        made = await until(
            client, LEASE, LEASE_NAMESPACE, name, partial(_is_another, old["metadata"]["uid"]), timeout=60
        )
        if made is None or made["spec"]["holderIdentity"] != held:
            raise ViolationError("leader", "another replica took the Lease from a leader that works")
        await asyncio.sleep(_SEEN)
    await replicas.submit()


async def _partition(replicas: Replicas, network: OwnNetwork) -> None:
    """Packets of the leader are dropped, both ways, until another one has done its work."""
    await asyncio.to_thread(network.drop)
    await replicas.submit()
    await replicas.successor()
    await replicas.leader.leads_no_more()
    await replicas.arena.reaches(replicas.scenario)
    await _healed(replicas, network)


async def _partition_outwards(replicas: Replicas, network: OwnNetwork) -> None:
    """The leader sees the workload and writes, but nothing leaves its network until another one leads."""
    sent = len(replicas.leader.process.lines)
    await asyncio.to_thread(network.drop, ["OUTPUT"])
    await replicas.submit()
    await replicas.leader.leads_no_more(sent)
    await replicas.successor()
    await _healed(replicas, network)
    await replicas.arena.reaches(replicas.scenario)
    await asyncio.sleep(_RETRANSMITTED)


async def _healed(replicas: Replicas, network: OwnNetwork) -> None:
    """The network works again, and the former leader waits for its turn."""
    leader = replicas.leader
    since, before = len(leader.process.lines), len(replicas.arena.proxy.records)
    await asyncio.to_thread(network.heal)
    try:
        await asyncio.to_thread(leader.process.wait_log, "this process waits for it", _HEALED, since=since)
    except AssertionError:
        raise ViolationError("fault", "the former leader never saw the Lease again") from None
    if not any(record.caller == leader.name for record in replicas.arena.proxy.records[before:]):
        raise ViolationError("fault", "nothing came through the network once it worked again")


def _is_another(uid: str, lease: Object | None) -> bool:
    return lease is not None and lease["metadata"]["uid"] != uid


def _first_write(replicas: Replicas) -> dict[str, Any]:
    """Method and path of the first write for the workload, as a fault takes them."""
    method, path = replicas.arena.cluster.references[replicas.scenario.name].writes[0]
    return {"method": method, "path": re.escape(path.replace("{namespace}", replicas.arena.namespace)) + "$"}


FAULTS: Final[dict[str, tuple[Callable[[Replicas], Awaitable[None]], int]]] = {
    "killed-before-a-write": (_killed_before_a_write, 2),
    "killed-without-an-answer": (_killed_without_an_answer, 2),
    "killed-in-turn": (_killed_in_turn, 3),
    "stopped": (_stopped, 2),
    "stopped-with-a-late-write": (_stopped_with_a_late_write, 2),
    "stopped-in-turn": (_stopped_in_turn, 2),
    "cut-off-silently": (_silent, 3),
    "cut-off-by-resets": (_reset, 2),
    "cut-off-from-answers": (_without_answers, 2),
    "cut-off-from-the-lease": (_without_lease, 2),
    "standby-cut-off": (_standby_cut_off, 2),
    "all-cut-off": (_all_cut_off, 2),
    "lease-deleted": (_lease_deleted, 2),
}
"""By name: what happens, and to how many replicas."""

PARTITIONS: Final[dict[str, Partition]] = {
    "partitioned": _partition,
    "partitioned-outwards": _partition_outwards,
}
"""By name: what happens to the network of the leader."""
