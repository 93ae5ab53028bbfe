"""What is remembered of the objects that were written, however long the process runs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from kaiwo.plugin.kit.api_errors import Invalid
from kaiwo_kueue.kinds import CLUSTER_QUEUE, LOCAL_QUEUE, RESOURCE_FLAVOR
from kaiwo_kueue.objects import ConfigOwner, DesiredObject
from kaiwo_kueue.sync_actions import ApplyObject
from kaiwo_kueue.sync_executor import SyncExecutor

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaiwo_kueue.objects import LiveObject


class Server:
    """Takes every write, and keeps each object with the generation that it had last."""

    def __init__(self, refusal: Exception | None = None) -> None:
        self.generation = 0
        self.refusal = refusal

    def in_use(self, kind: Any) -> Any:
        """The kind as it is served."""
        return SimpleNamespace(version="v1beta2", api_version=kind.api_version)

    async def apply(self, _: Any, body: Any, **__: Any) -> Any:
        """Store an object."""
        if self.refusal is not None:
            raise self.refusal
        self.generation += 1
        name = body["metadata"]["name"]
        return {**body, "metadata": {"name": name, "uid": f"uid-{name}", "generation": self.generation}}


def executor(server: Server) -> SyncExecutor:
    """An executor in front of a server."""
    cache = SimpleNamespace(assume=lambda *_: None)
    return SyncExecutor(SimpleNamespace(client=server, cache=cache))  # type: ignore[arg-type]


async def write(syncing: SyncExecutor, desired: DesiredObject, live: LiveObject | None) -> list[str]:
    """Write an object; the reasons of the problems."""
    syncing.begin()
    action = ApplyObject(desired, live, owned=True, why="")
    return [problem.reason for problem in await syncing.run([action], ConfigOwner())]


async def test_many_changes_of_one_queue_take_the_memory_of_one(live: Callable[..., LiveObject]) -> None:
    """A quota that follows the nodes changes thousands of times in the life of a process."""
    syncing = executor(Server())
    before: LiveObject | None = None
    for number in range(100):
        desired = DesiredObject(CLUSTER_QUEUE, "q", {"cohortName": f"c{number}"})
        assert await write(syncing, desired, before) == []
        before = live(desired, uid="uid-q")
    assert len(syncing._kept) == 1


async def test_objects_that_are_gone_take_no_memory() -> None:
    """LocalQueues come and go with the namespaces of users."""
    syncing = executor(Server())
    for number in range(100):
        desired = DesiredObject(LOCAL_QUEUE, f"q{number}", {"clusterQueue": "q"}, namespace="team")
        assert await write(syncing, desired, None) == []
        syncing.forget_all_but({f"uid-q{number}"})
    assert list(syncing._kept) == ["uid-q99"]


async def test_refusals_of_one_flavor_take_the_memory_of_one(live: Callable[..., LiveObject]) -> None:
    """Kueue refuses each of its changes while a queue lists it; the last one is what is still wanted."""
    refusal = Invalid(422, "Invalid", "spec.nodeLabels: field is immutable")
    syncing = executor(Server(refusal))
    last = ""
    for number in range(20):
        desired = DesiredObject(RESOURCE_FLAVOR, "f", {"nodeLabels": {"pool": f"p{number}"}})
        last = desired.digest
        assert await write(syncing, desired, live(desired, uid="uid-f")) == ["ResourceFlavorReplacing"]
    assert syncing.refused == {("uid-f", last)}
    syncing.forget_all_but(set())
    assert syncing.refused == set()


async def test_what_the_api_server_does_not_keep_is_written_once(live: Callable[..., LiveObject]) -> None:
    """Also where the queue had that content before and another one between: it is written again once."""
    server = Server()
    syncing = executor(server)
    wanted, other = (DesiredObject(CLUSTER_QUEUE, "q", {"cohortName": name}) for name in ("a", "b"))
    for desired in (wanted, other, wanted):
        assert await write(syncing, desired, live(desired, uid="uid-q", applied="")) == []
    there = live(wanted, uid="uid-q", generation=server.generation, normal_spec={})
    assert await write(syncing, wanted, there) == ["NotKept"]
    assert server.generation == 3
