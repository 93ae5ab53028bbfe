"""Several operators with one Lease, each behind a proxy of its own, and the record of who wrote when."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from campaign import oracles
from campaign.violation import ViolationError
from kaiwo.engine import credentials, errors
from kaiwo.engine.resource import LEASE
from kaiwo.testing.fault_proxy import FaultProxy
from kaiwo.testing.faults import MUTATING
from kaiwo.testing.operator import COMMAND

if TYPE_CHECKING:
    from collections.abc import Sequence

    from campaign.arena import Arena
    from campaign.network import OwnNetwork
    from campaign.scenarios import Scenario
    from kaiwo.testing.faults import FaultRecord
    from kaiwo.testing.operator import OperatorProcess

LEASE_NAMESPACE: Final = "default"
_TAKE_OVER: Final = 60.0
_PAUSE: Final = 0.2
_LEADS: Final = "this process leads"
_LEADS_NO_MORE: Final = "this process does not lead any more"
_NOT_OF_THE_LEADER: Final = re.compile(r"/leases(/|$)|/events$|/events/")
_DRY_RUN: Final = "dryRun=All"
_CREATED: Final = 201
_SUCCESS: Final = range(200, 300)


@dataclass(slots=True)
class Replica:
    """One of the operators.

    Attributes:
        name: that its requests carry to the gate.
        proxy: between it and the gate; its faults are defined here.
        process: the operator.
    """

    name: str
    proxy: FaultProxy
    process: OperatorProcess

    @property
    def terms(self) -> int:
        """How often it has begun to lead."""
        return sum(line.endswith(_LEADS) for line in self.process.lines)

    async def leads_no_more(self, since: int = 0) -> None:
        """Wait until it says that it does not lead any more."""
        try:
            await asyncio.to_thread(self.process.wait_log, _LEADS_NO_MORE, _TAKE_OVER, since=since)
        except AssertionError:
            raise ViolationError("fault", f"{self.name} never ceased to lead") from None


class Replicas:
    """The operators of a case; the first one leads. Use as an asynchronous context manager.

    The proxy of the case is the gate: all requests that reach the API server come through it, in the order
    in which it answers them.
    """

    def __init__(
        self, arena: Arena, scenario: Scenario, count: int = 2, network: OwnNetwork | None = None
    ) -> None:
        """Prepare.

        Args:
            arena: the case's.
            scenario: of the workload.
            count: how many operators there are.
            network: that the first one runs in; None for the machine's.
        """
        self.arena = arena
        self.scenario = scenario
        self.network = network
        self.all: list[Replica] = []
        self._count = count
        self._stack = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Start all of them; return when the first leads and the others are ready to take over."""
        try:
            for number in range(self._count):
                replica = await self._add(f"replica-{number}", self.network if number == 0 else None)
                if number == 0:
                    await asyncio.to_thread(replica.process.wait_ready)
            for replica in self.all[1:]:
                await asyncio.to_thread(replica.process.wait_log, "this process waits for it")
                await asyncio.to_thread(replica.process.readyz_when_up)
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        """End all of them and remove the Lease."""
        await self._stack.__aexit__(*exc)  # type: ignore[arg-type]
        with contextlib.suppress(errors.NotFound):
            await self.arena.client.delete(LEASE, LEASE_NAMESPACE, self.arena.lease)

    async def _add(self, name: str, network: OwnNetwork | None) -> Replica:
        gate = credentials.static(self.arena.proxy.url, token=name, namespace=LEASE_NAMESPACE)
        host, command = (
            ("127.0.0.1", COMMAND) if network is None else (network.host, network.command(*COMMAND))
        )
        proxy = await self._stack.enter_async_context(FaultProxy(gate, host=host))
        process = self.arena.describe_operator(
            proxy, f"{self.arena.namespace}-{name}", leader_election=True, command=command
        )
        replica = Replica(name, proxy, process.start())
        self._stack.push_async_callback(self._end, replica)
        self.all.append(replica)
        return replica

    @staticmethod
    async def _end(replica: Replica) -> None:
        replica.proxy.clear()
        await asyncio.to_thread(replica.process.close)

    @property
    def leader(self) -> Replica:
        """The one that leads at the start."""
        return self.all[0]

    async def successor(self, *candidates: Replica, terms: int = 0) -> Replica:
        """Wait until one of some replicas, by default all but the first, has begun to lead once more.

        Args:
            candidates: one of them is to lead.
            terms: how often each of them has led before.
        """
        for _ in range(int(_TAKE_OVER / _PAUSE)):
            for replica in candidates or self.all[1:]:
                if replica.terms > terms:
                    return replica
            await asyncio.sleep(_PAUSE)
        raise ViolationError("fault", f"no replica took over within {_TAKE_OVER:g} s")

    async def submit(self) -> None:
        """Create the workload."""
        await self.arena.submit(self.scenario)

    async def holder(self) -> str:
        """Who holds the Lease."""
        lease = await self.arena.client.get(LEASE, LEASE_NAMESPACE, self.arena.lease)
        return str(lease["spec"].get("holderIdentity"))

    async def check(self) -> None:
        """Every oracle, and that one replica wrote at a time."""
        await self.arena.reaches(self.scenario)
        await oracles.all_of(self.arena, self.scenario, rest=2.0)
        for replica in self.all:
            oracles.no_traceback(replica.process)
        logs = "\n".join(replica.process.log for replica in self.all)
        await oracles.no_secret_shown(self.arena.cluster, self.arena.namespace, logs)
        one_writer(self.arena.proxy.records)
        made = self.arena.cluster.references[self.scenario.name].children
        most = max(Counter(name.partition("/")[0] for name in made).values())  # a download is a Job, too
        created_once(self.arena.proxy.records, f"/namespaces/{self.arena.namespace}/", most)


def one_writer(records: Sequence[FaultRecord]) -> None:
    """Whoever wrote held the Lease: the last one whose write to it succeeded before.

    Events are no part of the state of the cluster, and a write that was refused has changed nothing.

    Raises:
        ViolationError: another one wrote.
    """
    holder = ""
    for record in records:
        if record.method not in MUTATING or record.code not in _SUCCESS or _DRY_RUN in record.query:
            continue
        if re.search(r"/leases(/|$)", record.path):
            holder = record.caller
        elif not _NOT_OF_THE_LEADER.search(record.path) and record.caller != holder:
            what = f"{record.method} {record.path}"
            raise ViolationError("leader", f"{record.caller} wrote {what} while {holder} held the Lease")


def created_once(records: Sequence[FaultRecord], inside: str, most: int) -> None:
    """Nothing was created a second time, also not after it was removed.

    Args:
        records: of the requests that reached the API server.
        inside: part of the paths that count.
        most: so many objects belong into one collection.

    Raises:
        ViolationError: something was.
    """
    made = Counter(
        record.path
        for record in records
        if record.method == "POST" and record.code == _CREATED and inside in record.path
        if not _NOT_OF_THE_LEADER.search(record.path) and _DRY_RUN not in record.query
    )
    if twice := [f"{path} {count} times" for path, count in made.items() if count > most]:
        raise ViolationError("O3", f"created too often: {'; '.join(twice)}")
