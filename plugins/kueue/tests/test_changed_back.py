"""Queues and namespaces that somebody else changes back."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.plugin.kit.api_errors import Conflict, Forbidden, NotFound
from kaiwo_kueue.kinds import CLUSTER_QUEUE
from kaiwo_kueue.objects import ConfigOwner, DesiredObject
from kaiwo_kueue.sync_actions import ApplyObject
from kaiwo_kueue.sync_executor import SyncExecutor

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaiwo_kueue.objects import LiveObject

QUEUE = DesiredObject(CLUSTER_QUEUE, "kaiwo", {"cohort": "ours"})


class Server:
    """Takes every write and counts them."""

    def __init__(self, refusal: Exception | None = None) -> None:
        self.writes: list[str] = []
        self.refusal = refusal

    def in_use(self, kind: Any) -> Any:
        """The kind as it is served."""
        return SimpleNamespace(version="v1beta1", api_version=kind.api_version)

    async def apply(self, kind: Any, body: Any, **_: Any) -> Any:
        """Store an object."""
        self.writes.append(f"{kind.kind} {body['metadata']['name']}")
        metadata = {"name": body["metadata"]["name"], "uid": "u", "generation": len(self.writes)}
        return {**body, "metadata": metadata}

    async def merge_patch(self, _: Any, __: Any, name: str, *___: Any, **____: Any) -> Any:
        """Patch a namespace, unless that is refused."""
        if self.refusal is not None:
            raise self.refusal
        self.writes.append(f"Namespace {name}")
        return {"metadata": {"name": name}}


def executor(server: Server) -> SyncExecutor:
    """An executor in front of a server."""
    cache = SimpleNamespace(assume=lambda *_: None)
    return SyncExecutor(SimpleNamespace(client=server, cache=cache))  # type: ignore[arg-type]


async def test_a_queue_that_somebody_changes_back_is_written_ever_more_rarely(
    live: Callable[..., LiveObject],
) -> None:
    """KaiwoQueueConfig says so; another content of the queue is written at once."""
    server = Server()
    syncing = executor(server)
    theirs = live(DesiredObject(CLUSTER_QUEUE, "kaiwo", {"cohort": "theirs"}))
    found = []
    for _ in range(50):
        syncing.begin()
        found = await syncing.run([ApplyObject(QUEUE, theirs, owned=True, why="")], ConfigOwner())
    assert len(server.writes) == 10
    assert syncing.failed
    [problem] = found
    assert (problem.reason, problem.severity) == ("ChangedBack", "FAILED")
    assert problem.message == "ClusterQueue kaiwo: somebody changes it back after each write"
    other = DesiredObject(CLUSTER_QUEUE, "kaiwo", {"cohort": "third"})
    assert await syncing.run([ApplyObject(other, theirs, owned=True, why="")], ConfigOwner()) == []
    assert len(server.writes) == 11


async def test_a_namespace_whose_label_somebody_removes_is_labelled_ever_more_rarely() -> None:
    """As a tool does that owns all labels of its namespaces."""
    server = Server()
    syncing = executor(server)
    namespace: Any = SimpleNamespace(name="team", uid="u", resource=None)
    found = []
    for _ in range(50):
        found = await syncing.label([namespace], {"kueue-managed": "true"})
    assert server.writes == ["Namespace team"] * 10
    assert [problem.reason for problem in found] == ["ChangedBack"]
    assert found[0].message == "namespace team: somebody removes kueue-managed after each write"


@pytest.mark.parametrize(
    ("refusal", "problem"),
    [
        (NotFound(404, "NotFound", 'namespaces "team" not found'), None),
        (Conflict(409, "Conflict", "the UID in the precondition does not match"), None),
        (Forbidden(403, "Forbidden", "no"), "namespace team cannot be labelled kueue-managed=true: no"),
    ],
)
async def test_a_namespace_that_is_deleted_meanwhile_is_no_failure(
    refusal: Exception, problem: str | None
) -> None:
    """Its event comes next; any other refusal is reported, and the label written again."""
    syncing = executor(Server(refusal))
    namespace: Any = SimpleNamespace(name="team", uid="u", resource=None)
    found = await syncing.label([namespace], {"kueue-managed": "true"})
    assert [item.message for item in found] == ([problem] if problem else [])
    assert syncing.failed
