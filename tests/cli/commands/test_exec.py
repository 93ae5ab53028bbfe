"""``kaiwo exec`` against a server that answers as an API server and its kubelets do."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_EXIT = (
    b'\x03{"status":"Failure","reason":"NonZeroExitCode","message":"failed",'
    b'"details":{"causes":[{"reason":"ExitCode","message":"42"}]}}'
)


def _pod(name: str, *, ready: bool = True, phase: str = "Running") -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "team", "uid": name, "creationTimestamp": name},
        "spec": {"containers": [{"name": "main"}, {"name": "side"}]},
        "status": {"phase": phase, "conditions": [{"type": "Ready", "status": "True" if ready else "False"}]},
    }


class ExecServer:
    """An API server in a thread, with the job train.

    Attributes:
        pods: the job's pods.
        says: messages of the command; then it closes.
        refusal: status and message instead of an upgrade.
        asked: pod and container of each command.
        heard: what the command got as input.
    """

    def __init__(self) -> None:
        self.pods = [_pod("a")]
        self.says: tuple[bytes, ...] = (b"\x01out\n", b"\x02err\n", _EXIT)
        self.refusal: tuple[int, str] | None = None
        self.asked: list[tuple[str, str, str]] = []
        self.heard = b""
        self.url = ""
        self._loop = asyncio.new_event_loop()
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self._started.wait()

    def close(self) -> None:
        """Stop."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        application = web.Application()
        kinds = "/apis/kaiwo.silogen.ai/v1alpha1/namespaces/team"
        application.router.add_get(f"{kinds}/kaiwojobs/train", self._job)
        application.router.add_get(f"{kinds}/kaiwoservices/train", self._missing)
        application.router.add_get("/api/v1/namespaces/team/pods", self._list)
        application.router.add_get("/api/v1/namespaces/team/pods/{pod}/exec", self._exec)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        self._loop.run_until_complete(runner.setup())
        self._loop.run_until_complete(web.TCPSite(runner, "127.0.0.1", 0).start())
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        self._started.set()
        self._loop.run_forever()
        self._loop.run_until_complete(runner.cleanup())
        self._loop.close()

    async def _job(self, _: web.Request) -> web.Response:
        metadata = {"name": "train", "namespace": "team", "uid": "u", "resourceVersion": "1"}
        kind = {"apiVersion": "kaiwo.silogen.ai/v1alpha1", "kind": "KaiwoJob"}
        return web.json_response({**kind, "metadata": metadata, "status": {"status": "RUNNING"}})

    async def _missing(self, _: web.Request) -> web.Response:
        body = {"kind": "Status", "code": 404, "details": {"name": "train"}}
        return web.json_response(body, status=404)

    async def _list(self, _: web.Request) -> web.Response:
        return web.json_response({"metadata": {"resourceVersion": "1"}, "items": self.pods})

    async def _exec(self, request: web.Request) -> web.StreamResponse:
        if self.refusal is not None:
            status, message = self.refusal
            return web.json_response({"kind": "Status", "code": status, "message": message}, status=status)
        query = request.query
        self.asked.append((request.match_info["pod"], query["container"], " ".join(query.getall("command"))))
        socket = web.WebSocketResponse(protocols=("v5.channel.k8s.io",))
        await socket.prepare(request)
        async for message in socket:
            if message.data == b"\xff\x00":
                break
            self.heard += message.data[1:]
        for said in self.says:
            await socket.send_bytes(said)
        await socket.close()
        return socket


@pytest.fixture
def server(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ExecServer]:
    """A server that the kubeconfig points to."""
    made = ExecServer()
    config = home / "config"
    config.write_text(
        f"""
apiVersion: v1
kind: Config
current-context: one
clusters: [{{name: one, cluster: {{server: "{made.url}"}}}}]
contexts: [{{name: one, context: {{cluster: one, user: one, namespace: team}}}}]
users: [{{name: one, user: {{}}}}]
"""
    )
    monkeypatch.setenv("KUBECONFIG", str(config))
    yield made
    made.close()


def test_the_commands_exit_code_is_the_programs(server: ExecServer, cli: Any) -> None:
    """Input, both outputs and the code of the command."""
    answer = cli("exec", "train", "-c", "side", "--", "python", "-c", "x y", stdin=b"input")
    assert (answer.code, answer.out, answer.err) == (42, "out\n", "err\n")
    assert server.asked == [("a", "side", "python -c x y")]
    assert server.heard == b"input"


def test_the_first_pod_that_is_ready_is_taken(server: ExecServer, cli: Any) -> None:
    """Without a terminal nobody is asked; --pod chooses."""
    server.pods = [_pod("a", ready=False), _pod("b"), _pod("c")]
    cli("exec", "train", "--command", "date")
    cli("exec", "train", "--pod", "c", "--", "date")
    assert server.asked == [("b", "main", "/bin/sh -c date"), ("c", "main", "date")]
    answer = cli("exec", "train", "--pod", "nope", "--", "date")
    assert (answer.code, answer.err) == (
        1,
        'error: pod "nope" is none of job/train\nhint: its pods: a, b, c\n',
    )


def test_a_connection_that_breaks_is_no_success(server: ExecServer, cli: Any) -> None:
    """The exit code is 1, and the message says that the command may still run."""
    server.says = (b"\x01half",)
    answer = cli("exec", "train", "--", "date")
    assert answer.code == 1
    assert "error: the connection to pod a broke; the command may still run" in answer.err


def test_a_missing_right_is_named(server: ExecServer, cli: Any) -> None:
    """In the API server's words."""
    server.refusal = (403, 'pods "a" is forbidden: cannot create resource "pods/exec"')
    answer = cli("exec", "train", "--", "date")
    assert answer.code == 1
    assert 'cannot create resource "pods/exec"' in answer.err


def test_without_a_running_pod_the_reason_is_given(server: ExecServer, cli: Any) -> None:
    """Ended, or not started."""
    server.pods = [_pod("a", phase="Succeeded")]
    answer = cli("exec", "train", "--", "date")
    assert answer.code == 1
    assert answer.err.splitlines() == [
        "error: no pod of job/train runs any more; a has ended (Succeeded)",
        "hint: kaiwo logs job/train -n team",
    ]


def test_wrong_usage_sends_nothing(server: ExecServer, cli: Any) -> None:
    """Two commands, or an unknown container."""
    assert cli("exec", "train", "--command", "date", "--", "date").code == 2
    assert cli("exec", "train", "-c", "nope", "--", "date").code == 3
    assert server.asked == []
