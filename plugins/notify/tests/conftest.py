"""Receivers of messages: real servers for HTTP and SMTP on loopback, and transitions to report."""

from __future__ import annotations

import asyncio
import contextlib
import email
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from kaiwo.plugin.lifecycle import Transition
from kaiwo.testing.stream_server import stream_server
from kaiwo_notify.settings import NotifySettings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from email.message import Message
    from pathlib import Path


def transition(**fields: Any) -> Transition:
    """A job of ada's that failed; other arguments replace its fields."""
    known: dict[str, Any] = {
        "kind": "KaiwoJob", "namespace": "team", "name": "train", "uid": "0a1b", "before": "RUNNING",
        "after": "FAILED", "reason": "OOMKilled", "message": "container main used more memory than its limit",
        "at": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), "user": "ada",
    }  # fmt: skip
    return Transition(**{**known, **fields})


@pytest.fixture(name="transition")
def transition_fixture() -> Callable[..., Transition]:
    """Makes transitions."""
    return transition


def parsed(*sinks: dict[str, Any], **more: Any) -> NotifySettings:
    """Settings as they stand in KaiwoConfig; private addresses and http are allowed."""
    return NotifySettings.parse(
        {"sinks": list(sinks), "allowPrivateEndpoints": True, "allowHttp": True, **more}
    )


@pytest.fixture(name="parsed")
def parsed_fixture() -> Callable[..., NotifySettings]:
    """Reads settings."""
    return parsed


@pytest.fixture
def secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of secrets."""
    monkeypatch.setenv("KAIWO_NOTIFY_SECRETS", str(tmp_path))
    return tmp_path


class HttpReceiver:
    """A server that answers each request with the next of its answers, and the last one for ever.

    Attributes:
        url: where it listens.
        requests: headers and JSON of what came.
        answers: status and headers.
    """

    def __init__(self) -> None:
        self.url = ""
        self.requests: list[tuple[dict[str, str], Any]] = []
        self.answers: list[tuple[int, dict[str, str]]] = [(200, {})]
        self.came = asyncio.Event()

    async def answer(self, request: web.Request) -> web.Response:
        """Take one request."""
        self.requests.append((dict(request.headers), await request.json()))
        self.came.set()
        status, headers = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return web.Response(status=status, headers=headers, text="thank you")

    async def has(self, number: int) -> None:
        """Wait until that many requests came."""
        async with asyncio.timeout(20):
            while len(self.requests) < number:
                self.came.clear()
                await self.came.wait()


@pytest.fixture
async def receiver() -> AsyncIterator[HttpReceiver]:
    """A receiver over HTTP."""
    made = HttpReceiver()
    app = web.Application()
    app.router.add_post("/{path:.*}", made.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    made.url = f"http://127.0.0.1:{runner.addresses[0][1]}/hook"
    yield made
    await runner.cleanup()


class MailReceiver:
    """A mail server that knows as much of SMTP as a client without extensions needs.

    Attributes:
        port: where it listens.
        mails: envelopes and messages of what came.
        replies: what is said to the end of DATA; the last one for ever.
    """

    def __init__(self) -> None:
        self.port = 0
        self.mails: list[tuple[list[str], Message]] = []
        self.replies = ["250 taken"]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        with contextlib.suppress(ConnectionError):
            await self._talk(reader, writer)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        def say(text: str) -> None:
            writer.write(f"{text}\r\n".encode())

        say("220 test")
        envelope: list[str] = []
        while line := (await reader.readline()).decode().strip():
            match line.split(" ")[0].upper():
                case "QUIT":
                    say("221 bye")
                    return
                case "DATA":
                    say("354 go on")
                    body = await reader.readuntil(b"\r\n.\r\n")
                    reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
                    if reply.startswith("2"):
                        self.mails.append((envelope, email.message_from_bytes(body[:-5])))
                    envelope = []
                    say(reply)
                case "MAIL" | "RCPT":
                    envelope.append(line)
                    say("250 ok")
                case _:
                    say("250 test")


@pytest.fixture
async def mailbox() -> AsyncIterator[MailReceiver]:
    """A receiver over SMTP."""
    made = MailReceiver()
    async with stream_server(made.serve) as made.port:
        yield made
