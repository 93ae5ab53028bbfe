"""Why writes fail, and when the cause has ended."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import msgspec
import pytest

from kaiwo.engine import failing_writes
from kaiwo.engine.errors import ApiError, ConnectionBroken, Forbidden, Invalid, ServerUnavailable, WriteCause
from kaiwo.engine.failing_writes import FailingWrites
from kaiwo.engine.transport import HttpRequest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from kaiwo.engine.errors import EngineError

NO_RIGHT = Forbidden(403, "Forbidden", 'jobs.batch "a" is forbidden: User "x" cannot create resource "jobs"')
WEBHOOK = ServerUnavailable(500, "InternalError", 'failed calling webhook "mjob.kb.io": connection refused')
QUOTA = Forbidden(403, "Forbidden", 'jobs.batch "a" is forbidden: exceeded quota: q')


def create(namespace: str = "team", resource: str = "jobs.batch", body: bytes = b"{}") -> HttpRequest:
    """A POST."""
    plural = resource.partition(".")[0]
    path = f"/apis/batch/v1/namespaces/{namespace}/{plural}?fieldManager=kaiwo"
    return HttpRequest("create", resource, "POST", path, body, mutating=True)


class Server:
    """Answers dry runs; the clock runs with them."""

    def __init__(self) -> None:
        self.errors: dict[str, EngineError] = {}
        self.requests: list[HttpRequest] = []
        self.ended: list[frozenset[WriteCause]] = []
        self.now = 1000.0
        self.writes = FailingWrites(self.send, clock=lambda: self.now)
        self.writes.on_change(self.ended.append)

    async def send(self, request: HttpRequest) -> bytes:
        """Answer one request."""
        self.requests.append(request)
        error = self.errors.get(request.resource)
        if error is not None:
            raise error
        return b"{}"

    def fail(self, request: HttpRequest, error: ApiError | ConnectionBroken) -> WriteCause | None:
        """Let a write fail; the cause that the error is marked with."""
        error.write_cause = None
        self.writes.on_write(request, error)
        return error.write_cause

    @asynccontextmanager
    async def probing(self) -> AsyncIterator[None]:
        """Send dry runs while this lasts."""
        task = asyncio.create_task(self.writes.run())
        yield
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def pass_time(self, seconds: float) -> None:
        """Let the clock jump, and the dry runs that are due be sent."""
        self.now += seconds
        await asyncio.sleep(0.15)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    """An API server whose dry runs follow each other without the pauses of real ones."""
    monkeypatch.setattr(failing_writes, "SPACING", 0.001)
    monkeypatch.setattr(failing_writes, "LONGEST_SLEEP", 0.01)
    return Server()


def test_only_what_stops_all_writes_like_it_is_a_cause(server: Server) -> None:
    """An invalid object, a quota and a name that is taken concern that object alone."""
    assert server.fail(create(), NO_RIGHT) == WriteCause("Forbidden", "create", "jobs.batch", "team")
    assert server.fail(create(), WEBHOOK) == WriteCause("Webhook", "create", "jobs.batch", "mjob.kb.io")
    assert server.fail(create(), ConnectionBroken("reset")) == WriteCause("Unreachable")
    away = ServerUnavailable(503, "", "etcd is away")
    assert server.fail(create(), away) == WriteCause("ServerError", "create", "jobs.batch", "team")
    assert server.fail(create(), QUOTA) is None
    assert server.fail(create(), Invalid(422, "Invalid", "spec: Required value")) is None
    assert server.fail(create(resource="events"), NO_RIGHT) is None
    assert len(server.writes.messages) == 4


async def test_one_dry_run_stands_for_all_writes_with_one_cause(server: Server) -> None:
    """However many objects are rejected, a cause costs one request per interval, which changes nothing."""
    server.errors["jobs.batch"] = WEBHOOK
    async with server.probing():
        for number in range(100):
            server.fail(create(f"team-{number}"), WEBHOOK)
        await server.pass_time(failing_writes.INTERVAL)
        assert len(server.requests) == 1
        await server.pass_time(failing_writes.INTERVAL)
        assert len(server.requests) == 2
    request = server.requests[0]
    assert request.path.endswith("?fieldManager=kaiwo&dryRun=All")
    assert not request.mutating


async def test_the_end_of_a_cause_is_published(server: Server) -> None:
    """Whoever waits learns it with the next dry run; any other answer than before is an end, too."""
    server.errors["jobs.batch"] = WEBHOOK
    cause = server.fail(create(), WEBHOOK)
    assert cause is not None
    async with server.probing():
        await server.pass_time(failing_writes.INTERVAL)
        assert cause in server.writes
        server.errors["jobs.batch"] = QUOTA
        await server.pass_time(failing_writes.INTERVAL)
    assert cause not in server.writes
    assert server.ended == [frozenset(), frozenset({cause})]


async def test_causes_that_end_together_are_published_together(server: Server) -> None:
    """Rights return at once: a status is not written while the right to its object is taken for missing."""
    server.errors = {"jobs.batch": NO_RIGHT, "kaiwojobs": NO_RIGHT}
    first = server.fail(create(), NO_RIGHT)
    async with server.probing():
        await server.pass_time(2.0)
        second = server.fail(create(resource="kaiwojobs"), NO_RIGHT)
        server.errors.clear()
        await server.pass_time(2.0)
    assert server.ended[-1] == {first, second}


async def test_an_api_server_that_goes_away_ends_no_cause(server: Server) -> None:
    """That a dry run gets no answer says nothing about the webhook."""
    cause = server.fail(create(), WEBHOOK)
    assert cause is not None
    server.errors["jobs.batch"] = ConnectionBroken("refused")
    async with server.probing():
        await server.pass_time(failing_writes.INTERVAL)
    assert server.requests
    assert cause in server.writes


async def test_a_dry_run_that_succeeds_where_the_write_fails_is_sent_less_and_less_often(
    server: Server,
) -> None:
    """A webhook that tells the two apart causes no write every few seconds."""
    async with server.probing():
        pauses = []
        for _ in range(6):
            server.fail(create(), WEBHOOK)
            before = server.now
            while server.writes.messages:
                await server.pass_time(failing_writes.INTERVAL)
            pauses.append(server.now - before)
    assert pauses[0] == failing_writes.INTERVAL
    assert pauses[-1] >= failing_writes.LONGEST_INTERVAL


async def test_a_cause_that_really_ended_and_comes_back_is_a_new_one(server: Server) -> None:
    """After a write that succeeded, the next outage is noticed to be over as soon as the first."""
    async with server.probing():
        for _ in range(3):
            server.fail(create(), WEBHOOK)
            await server.pass_time(failing_writes.INTERVAL)
            assert not server.writes.messages
            server.writes.on_write(create(), None)


def test_a_write_that_succeeds_ends_its_cause_at_once(server: Server) -> None:
    """No dry run is needed to learn what is known; another namespace proves nothing about a right."""
    no_right, unreachable = server.fail(create(), NO_RIGHT), server.fail(create(), ConnectionBroken("reset"))
    assert no_right is not None
    server.writes.on_write(create("other"), None)
    assert unreachable not in server.writes
    assert no_right in server.writes
    server.writes.on_write(create(), None)
    assert no_right not in server.writes


async def test_a_cause_that_ends_at_once_does_not_end_the_dry_runs_for_later_ones(server: Server) -> None:
    """One write fails and the next one succeeds before anything else runs, as when a connection is reset."""
    async with server.probing():
        await asyncio.sleep(0)
        server.fail(create(), ConnectionBroken("reset"))
        server.writes.on_write(create(), None)
        await asyncio.sleep(0)
        cause = server.fail(create(), WEBHOOK)
        await server.pass_time(failing_writes.INTERVAL)
    assert server.requests
    assert server.ended[-1] == {cause}


async def test_a_dry_run_of_a_delete_deletes_nothing(server: Server) -> None:
    """The options of a DELETE are read from its body."""
    options = msgspec.json.encode({"preconditions": {"uid": "u"}})
    path = "/apis/batch/v1/namespaces/team/jobs/a"
    server.fail(HttpRequest("delete", "jobs.batch", "DELETE", path, options, mutating=True), NO_RIGHT)
    async with server.probing():
        await server.pass_time(failing_writes.INTERVAL)
    [request] = server.requests
    assert msgspec.json.decode(request.body or b"") == {"preconditions": {"uid": "u"}, "dryRun": ["All"]}


async def test_large_requests_of_many_namespaces_are_not_all_kept(server: Server) -> None:
    """Beyond a bound a cause is tried by a write itself, which waits twice as long each time it fails."""
    server.errors["jobs.batch"] = NO_RIGHT
    bodies = [bytes(1024 * 1024) for _ in range(32)]
    writes = [create(f"team-{number}", body=body) for number, body in enumerate(bodies)]
    causes = [server.fail(write, NO_RIGHT) for write in writes]
    async with server.probing():
        await server.pass_time(failing_writes.INTERVAL)
        sent = len(server.requests)
        assert 0 < sent * 1024 * 1024 <= failing_writes.MOST_BYTES
        assert [cause in server.writes.messages for cause in causes] == [True] * sent + [False] * (32 - sent)
        server.fail(writes[-1], NO_RIGHT)
        await server.pass_time(failing_writes.INTERVAL)
        assert causes[-1] in server.writes.messages
        await server.pass_time(failing_writes.INTERVAL)
        assert causes[-1] not in server.writes.messages
    assert not any(request.path.startswith(writes[-1].path) for request in server.requests)
