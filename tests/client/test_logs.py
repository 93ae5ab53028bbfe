"""Logs of workloads from a server that breaks connections wherever it likes."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from aiohttp import web

from kaiwo.client import logs
from kaiwo.client.errors import ClientError
from kaiwo.client.log_follower import LogOptions
from kaiwo.client.pods import NoContainer, NoPods
from kaiwo.engine.client import Client
from kaiwo.engine.credentials import static
from kaiwo.engine.errors import Forbidden

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from kaiwo.engine.resource import Object

_START = 1_800_000_000


def line(millisecond: int, text: str = "") -> bytes:
    """A line as a kubelet sends it with its time."""
    moment = datetime.fromtimestamp(_START + millisecond // 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{millisecond % 1000:03d}000000Z {text or millisecond}".encode()


class LogServer:
    """An API server with one workload, its pods, and their logs.

    Attributes:
        logs: lines by (pod, container, instance).
        cuts: bytes after which the next answers break off; then they are whole.
        refusals: answers instead of the next logs: status and message.
        requests: queries of the logs that were asked for.
    """

    def __init__(self) -> None:
        self.workload: Object = {
            "apiVersion": "kaiwo.silogen.ai/v1alpha1",
            "kind": "KaiwoJob",
            "metadata": {"name": "train", "namespace": "team", "uid": "u", "resourceVersion": "1"},
            "status": {"status": "RUNNING"},
        }
        self.pods: dict[str, Object] = {}
        self.logs: dict[tuple[str, str, int], list[bytes]] = {}
        self.cuts: list[int] = []
        self.refusals: list[tuple[int, str]] = []
        self.requests: list[dict[str, str]] = []
        self._version = 1
        self._events: list[tuple[int, str, Object]] = []
        self._news = asyncio.Condition()

    def pod(self, name: str, *, running: bool = True, restarts: int = 0, phase: str = "") -> Object:
        """Make a pod with the container main, or change it; its restarts name its instance."""
        current: Object = {"startedAt": f"t{restarts}"}
        state: Object = {"running": current} if running else {"terminated": {**current, "exitCode": 0}}
        return {
            "metadata": {"name": name, "namespace": "team", "uid": name, "creationTimestamp": name},
            "spec": {"restartPolicy": "OnFailure", "containers": [{"name": "main"}, {"name": "side"}]},
            "status": {
                "phase": phase or "Running",
                "containerStatuses": [{"name": "main", "restartCount": restarts, "state": state}],
            },
        }

    async def put(self, pod: Object) -> None:
        """Create or change a pod."""
        self.pods[pod["metadata"]["name"]] = pod
        await self._tell("MODIFIED", pod)

    async def remove(self, name: str) -> None:
        """Delete a pod and its logs."""
        self.logs = {key: lines for key, lines in self.logs.items() if key[0] != name}
        await self._tell("DELETED", self.pods.pop(name))

    async def status(self, word: str) -> None:
        """Change the workload's status."""
        self.workload = {**self.workload, "status": {"status": word}}
        await self._tell("MODIFIED", self.workload)

    async def write(self, *lines: bytes, pod: str = "a", instance: int = 0) -> None:
        """Let a container write lines."""
        self.logs.setdefault((pod, "main", instance), []).extend(lines)
        async with self._news:
            self._news.notify_all()

    async def _tell(self, event: str, obj: Object) -> None:
        self._version += 1
        obj["metadata"]["resourceVersion"] = str(self._version)
        self._events.append((self._version, event, obj))
        async with self._news:
            self._news.notify_all()

    async def list_pods(self, request: web.Request) -> web.StreamResponse:
        """GET pods, or watch them."""
        if "watch" in request.query:
            return await self._watch(request, lambda obj: "spec" in obj)
        body = {"metadata": {"resourceVersion": str(self._version)}, "items": list(self.pods.values())}
        return web.json_response(body)

    async def get_workload(self, request: web.Request) -> web.StreamResponse:
        """GET the workload."""
        del request
        return web.json_response(self.workload)

    async def watch_workload(self, request: web.Request) -> web.StreamResponse:
        """Watch the workload."""
        return await self._watch(request, lambda obj: "spec" not in obj)

    async def _watch(self, request: web.Request, wanted: Any) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        seen = int(request.query["resourceVersion"])
        while True:
            for version, event, obj in list(self._events):
                if version > seen and wanted(obj):
                    await response.write(msgspec.json.encode({"type": event, "object": obj}) + b"\n")
                seen = max(seen, version)
            async with self._news:
                await self._news.wait_for(lambda: self._version > seen)  # noqa: B023  of this round

    async def log(self, request: web.Request) -> web.StreamResponse:
        """GET a log as a kubelet serves it."""
        query, name = dict(request.query), request.match_info["pod"]
        self.requests.append(query)
        if self.refusals:
            status, message = self.refusals.pop(0)
            return web.json_response({"kind": "Status", "message": message, "code": status}, status=status)
        if name not in self.pods:
            return web.json_response({"kind": "Status", "code": 404, "details": {"name": name}}, status=404)
        instance = self.pods[name]["status"]["containerStatuses"][0]["restartCount"]
        key = (name, query["container"], instance - ("previous" in query))
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        left = self.cuts.pop(0) if self.cuts else None
        since = query.get("sinceTime", "")
        at = 0
        if "tailLines" in query:
            at = max(0, len(self.logs.get(key, ())) - int(query["tailLines"]))
        while True:
            found = self.logs.get(key, [])
            body = b"".join(each + b"\n" for each in found[at:] if each[:19].decode() >= since[:19])
            at = len(found)
            if left is not None and len(body) >= left:
                await response.write(body[:left])
                assert request.transport is not None
                request.transport.close()
                return response
            left = None if left is None else left - len(body)
            if body:
                await response.write(body)
            if "follow" not in query or not self._runs(name, instance):
                return response
            async with self._news:
                await self._news.wait()

    def _runs(self, name: str, instance: int) -> bool:
        if name not in self.pods:
            return False
        status = self.pods[name]["status"]["containerStatuses"][0]
        return status["restartCount"] == instance and "running" in status["state"]

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Client]:
        """A client of this server."""
        application = web.Application()
        pods, kind = (
            "/api/v1/namespaces/team/pods",
            "/apis/kaiwo.silogen.ai/v1alpha1/namespaces/team/kaiwojobs",
        )
        application.router.add_get(pods, self.list_pods)
        application.router.add_get(f"{pods}/{{pod}}/log", self.log)
        application.router.add_get(kind, self.watch_workload)
        application.router.add_get(f"{kind}/train", self.get_workload)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        try:
            async with Client(static(f"http://127.0.0.1:{runner.addresses[0][1]}")) as client:
                yield client
        finally:
            await runner.cleanup()


class Followed:
    """What following gave so far."""

    def __init__(self, api: Client, server: LogServer, **options: Any) -> None:
        self.lines: list[logs.LogLine] = []
        self.notes: list[str] = []
        self._options = options
        self._task = asyncio.ensure_future(self._follow(api, server))

    async def _follow(self, api: Client, server: LogServer) -> None:
        options = LogOptions(**self._options)
        followed = logs.each_line(logs.follow_batches(api, server.workload, options, self.notes.append))
        async with aclosing(followed):
            async for each in followed:
                self.lines.append(each)

    @property
    def texts(self) -> list[str]:
        """The texts of all lines."""
        return [each.text.decode() for each in self.lines]

    async def has(self, count: int) -> None:
        """Wait for a number of lines."""
        async with asyncio.timeout(20):
            while len(self.lines) < count:
                if self._task.done():
                    self._task.result()
                    raise AssertionError(f"ended after {self.texts}")
                await asyncio.sleep(0.01)

    async def end(self) -> None:
        """Wait for the end."""
        async with asyncio.timeout(20):
            await self._task


async def finish(server: LogServer, *pods: str) -> None:
    """Let pods and the workload end."""
    for name in pods:
        restarts = server.pods[name]["status"]["containerStatuses"][0]["restartCount"]
        await server.put(server.pod(name, running=False, restarts=restarts, phase="Succeeded"))
    await server.status("COMPLETE")


async def test_following_ends_when_the_workload_has() -> None:
    """All lines came, those before and those after the start, with pod, container and time."""
    server = LogServer()
    await server.put(server.pod("a"))
    await server.write(line(0, "one"))
    async with server.serving() as api:
        followed = Followed(api, server)
        await followed.has(1)
        await server.write(line(5, "two"), line(5, "two"), line(6, ""))
        await followed.has(4)
        await finish(server, "a")
        await followed.end()
    assert followed.texts == ["one", "two", "two", "6"]
    assert followed.lines[0].pod == "a"
    assert followed.lines[0].container == "main"
    assert followed.lines[0].timestamp == "2027-01-15T08:00:00.000000000Z"


@pytest.mark.parametrize("cut", range(0, 130, 7))
async def test_a_connection_that_breaks_anywhere_loses_and_repeats_nothing(cut: int) -> None:
    """Cut at every few bytes, twice."""
    server = LogServer()
    await server.put(server.pod("a"))
    lines = [line(number * 400) for number in range(4)]
    await server.write(*lines[:3])
    server.cuts = [cut, cut + 40]
    async with server.serving() as api:
        followed = Followed(api, server)
        await followed.has(3 if cut < 90 else 2)
        await server.write(lines[3])
        await finish(server, "a")
        await followed.end()
    assert followed.texts == ["0", "400", "800", "1200"]
    assert not server.cuts or cut + 40 > 3 * 36
    assert followed.notes == []


async def test_following_goes_on_over_a_restart() -> None:
    """What the container wrote last, while there was no connection, is read from its previous log."""
    server = LogServer()
    await server.put(server.pod("a"))
    await server.write(line(0, "one"))
    async with server.serving() as api:
        followed = Followed(api, server)
        await followed.has(1)
        server.refusals = [(503, "kubelet restarts")] * 2
        server.logs["a", "main", 0].append(line(100, "last words"))
        server.logs["a", "main", 1] = [line(5000, "again")]
        await server.put(server.pod("a", restarts=1))
        await followed.has(3)
        await finish(server, "a")
        await followed.end()
    assert followed.texts == ["one", "last words", "again"]
    assert any("previous" in query for query in server.requests)


async def test_new_pods_join_and_deleted_ones_leave() -> None:
    """A pod that replaces another one is followed from its first line, whatever `tail` says."""
    server = LogServer()
    await server.put(server.pod("a"))
    await server.write(line(0, "one"), line(1, "two"))
    async with server.serving() as api:
        followed = Followed(api, server, tail=1)
        await followed.has(1)
        await server.remove("a")
        await server.write(line(9000, "three"), line(9000, "four"), pod="b")
        await server.put(server.pod("b"))
        await followed.has(3)
        await finish(server, "b")
        await followed.end()
    assert [(each.pod, each.text) for each in followed.lines] == [
        ("a", b"two"),
        ("b", b"three"),
        ("b", b"four"),
    ]


async def test_following_waits_for_pods_and_says_why() -> None:
    """The reason is the status's."""
    server = LogServer()
    server.workload["status"] = {"status": "PENDING", "message": "queue is full"}
    async with server.serving() as api:
        followed = Followed(api, server)
        await asyncio.sleep(0.3)
        await server.write(line(0, "one"))
        await server.put(server.pod("a"))
        await followed.has(1)
        await finish(server, "a")
        await followed.end()
    assert followed.notes == ["waiting for logs: job/train has no pod yet (PENDING: queue is full)"]


async def test_a_stream_that_stays_open_after_the_container_ends_is_given_up() -> None:
    """The kubelet died: the end of the workload is the end of its logs."""
    server = LogServer()
    server._runs = lambda *_: True  # type: ignore[method-assign]
    await server.put(server.pod("a"))
    await server.write(line(0, "one"))
    async with server.serving() as api:
        followed = Followed(api, server)
        await followed.has(1)
        await finish(server, "a")
        await followed.end()
    assert followed.texts == ["one"]


async def test_a_container_that_has_not_started_yet_is_waited_for() -> None:
    """400 is no reason to end."""
    server = LogServer()
    server.refusals = [(400, 'container "main" in pod "a" is waiting to start')]
    await server.put(server.pod("a"))
    await server.write(line(0, "one"))
    async with server.serving() as api:
        followed = Followed(api, server)
        await followed.has(1)
        await finish(server, "a")
        await followed.end()
    assert followed.texts == ["one"]


async def test_missing_rights_end_it() -> None:
    """403 ends it."""
    server = LogServer()
    server.refusals = [(403, 'pods "a" is forbidden: cannot get resource "pods/log"')]
    await server.put(server.pod("a"))
    async with server.serving() as api:
        with pytest.raises(Forbidden, match="pods/log"):
            await Followed(api, server).end()


async def test_the_end_of_a_log_is_read_though_the_server_fails_then() -> None:
    """What was written between the end of the stream and the end of the container comes, too."""
    server = LogServer()
    await server.put(server.pod("a"))
    await server.write(line(0, "one"))
    async with server.serving() as api:
        followed = Followed(api, server)
        await followed.has(1)
        server.refusals = [(503, "restarts")] * 3
        ending = asyncio.ensure_future(finish(server, "a"))
        while len(server.refusals) == 3:
            await asyncio.sleep(0.01)
        # Not in the stream, which has ended.
        server.logs["a", "main", 0].append(line(1, "last words"))
        await followed.end()
        await ending
    assert followed.texts == ["one", "last words"]
    assert server.refusals == []


async def test_a_slow_reader_loses_nothing() -> None:
    """No more is read than is taken, and the end waits for the reader."""
    server = LogServer()
    await server.put(server.pod("a"))
    await server.write(*(line(number) for number in range(20_000)))
    got = []
    async with server.serving() as api:
        followed = logs.each_line(logs.follow_batches(api, server.workload, LogOptions()))
        async with aclosing(followed):
            async for each in followed:
                got.append(each.text)
                if len(got) == 5:
                    await finish(server, "a")
                    await asyncio.sleep(0.5)
    assert got == [str(number).encode() for number in range(20_000)]


async def test_reading_takes_pods_in_turn_and_mends_connections() -> None:
    """Reading ends at what is there."""
    server = LogServer()
    for name in ("a", "b"):
        await server.put(server.pod(name))
        await server.write(line(0, f"{name} one"), line(1, f"{name} two"), pod=name)
    server.cuts = [50]
    async with server.serving() as api:
        lines = logs.each_line(logs.read_batches(api, server.workload, LogOptions()))
        got = [(each.pod, each.text) async for each in lines]
    assert got == [("a", b"a one"), ("a", b"a two"), ("b", b"b one"), ("b", b"b two")]


async def test_reading_without_pods_or_containers_fails_with_the_reason() -> None:
    """No pod, no such container, no previous log: each with its cause."""
    server = LogServer()
    async with server.serving() as api:

        async def fails(**options: Any) -> ClientError:
            with pytest.raises(ClientError) as caught:
                [each async for each in logs.read_batches(api, server.workload, LogOptions(**options))]
            return caught.value

        assert isinstance(await fails(), NoPods)
        await server.put(server.pod("a"))
        unknown = await fails(container="nope")
        assert isinstance(unknown, NoContainer)
        assert unknown.next_step == "its containers: main, side"
        server.refusals = [(400, "previous terminated container not found")]
        first = await fails(previous=True)
        assert "has not restarted" in str(first)
        assert first.next_step == "kaiwo status job/train -n team"


def waiting(pod: Object, reason: str, message: str = "", *, restarts: int = 0) -> Object:
    """The pod while its container main waits; after a restart it has ended before."""
    status = {
        "name": "main",
        "restartCount": restarts,
        "state": {"waiting": {"reason": reason, "message": message}},
    }
    if restarts:
        status["lastState"] = {"terminated": {"startedAt": f"t{restarts}", "exitCode": 1}}
    return {**pod, "status": {"phase": "Pending", "containerStatuses": [status]}}


async def test_following_says_why_a_container_does_not_start() -> None:
    """Once for each cause, however many pods; without a word it looks as if the program wrote nothing."""
    server = LogServer()
    await server.put(waiting(server.pod("a"), "ContainerCreating"))
    await server.put(waiting(server.pod("b"), "ContainerCreating"))
    async with server.serving() as api:
        followed = Followed(api, server)
        for reason in ("ErrImagePull", "ImagePullBackOff", "ErrImagePull", "ImagePullBackOff"):
            seen = len(followed.notes)
            await server.put(waiting(server.pod("a"), reason, "manifest unknown"))
            async with asyncio.timeout(20):
                while len(followed.notes) == seen < 2:
                    await asyncio.sleep(0.01)
        await server.put(waiting(server.pod("b"), "ImagePullBackOff", "manifest unknown"))
        await server.write(line(0, "one"))
        await server.put(server.pod("a"))
        await followed.has(1)
        await server.write(line(0, "two"), pod="b")
        await server.put(server.pod("b"))
        await followed.has(2)
        await finish(server, "a", "b")
        await followed.end()
    assert followed.notes == [
        "waiting for container main of pod a: ErrImagePull: manifest unknown",
        "waiting for container main of pod a: ImagePullBackOff: manifest unknown",
    ]


async def test_following_says_that_a_container_waits_for_its_restart() -> None:
    """Its last log is shown, and silence of minutes is explained: kubectl would have ended."""
    server = LogServer()
    await server.write(line(0, "boom"), instance=1)
    await server.put(waiting(server.pod("a"), "CrashLoopBackOff", "back-off 5m0s", restarts=1))
    async with server.serving() as api:
        followed = Followed(api, server)
        await followed.has(1)
        async with asyncio.timeout(20):
            while not followed.notes:
                await asyncio.sleep(0.01)
        server.logs["a", "main", 2] = [line(9000, "again")]
        await server.put(server.pod("a", restarts=2))
        await followed.has(2)
        await finish(server, "a")
        await followed.end()
    assert followed.texts == ["boom", "again"]
    assert followed.notes == ["waiting for container main of pod a: CrashLoopBackOff: back-off 5m0s"]


@pytest.mark.parametrize(
    ("restarts", "answer", "said"),
    [
        (0, 400, "has no previous log: it has not restarted"),
        (3, 400, "has no previous log any more: it restarted 3 times, and its node did not keep it"),
        (0, 404, 'has no log: pods "a" not found'),
    ],
)
async def test_a_previous_log_that_is_gone_differs_from_none(restarts: int, answer: int, said: str) -> None:
    """A node removes containers that ended; that something restarted stays in the status."""
    server = LogServer()
    await server.put(server.pod("a", restarts=restarts))
    text = 'pods "a" not found' if answer == 404 else 'previous terminated container "main" not found'
    server.refusals = [(answer, text)]
    async with server.serving() as api:
        found = logs.each_line(logs.read_batches(api, server.workload, LogOptions(previous=True)))
        with pytest.raises(logs.NoLog) as error:
            [each async for each in found]
    assert f"container main of pod a {said}" in str(error.value)
