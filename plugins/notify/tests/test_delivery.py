"""Messages reach real servers, are tried again, and never hold anything up."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.testing.stream_server import stream_server
from kaiwo_notify import delivery, listener
from kaiwo_notify.addresses import BlockedAddress, check_address
from kaiwo_notify.delivery import DeliveryError, deliver
from kaiwo_notify.listener import Outbox, notify, stop

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from kaiwo.plugin.lifecycle import Transition
    from kaiwo_notify.settings import NotifySettings


@pytest.fixture(autouse=True)
async def clean(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """Short pauses, and no task is left."""
    monkeypatch.setattr(listener, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(Outbox.__init__, "__kwdefaults__", {"clock": time.monotonic, "pause": 0.01})
    yield
    monkeypatch.setattr(listener, "GRACE", 0.0)
    await stop(None)


def slack(receiver: Any, **more: Any) -> dict[str, Any]:
    """A sink at a receiver."""
    return {"name": "chat", "type": "slack", "url": receiver.url, **more}


def by_mail(mailbox: Any, **more: Any) -> dict[str, Any]:
    """A sink at a mail server."""
    to = {
        "host": "127.0.0.1", "port": mailbox.port, "encryption": "none", "sender": "kaiwo@example.org",
        "recipients": ["ops@example.org", "ada@example.org"], **more,
    }  # fmt: skip
    return {"name": "mail", "type": "email", "email": to}


async def sent(settings: NotifySettings, transition: Transition) -> None:
    """Try once."""
    await deliver(settings.sinks[0], settings, transition, 0)


async def test_a_chat_a_webhook_and_a_mailbox_get_a_transition(
    receiver: Any, mailbox: Any, parsed: Any, transition: Callable[..., Transition], secrets: Path
) -> None:
    """Each in its form; the secret URL and the token come from files."""
    (secrets / "chat-url").write_text(f"{receiver.url}\n", encoding="utf-8")
    (secrets / "token").write_text("s3cret\n", encoding="utf-8")
    settings = parsed(
        {"name": "chat", "type": "slack", "urlFile": "chat-url"},
        {"name": "events", "type": "cloudevents", "url": receiver.url, "tokenFile": "token"},
        by_mail(mailbox),
    )
    await notify(transition(), settings)
    await receiver.has(2)
    await stop(None)
    (chat,) = [body for _, body in receiver.requests if "text" in body]
    (headers, event) = next(one for one in receiver.requests if "specversion" in one[1])
    assert "KaiwoJob team/train: FAILED" in chat["text"]
    assert headers["Content-Type"].startswith("application/cloudevents+json")
    assert headers["Authorization"] == "Bearer s3cret"
    assert event["data"]["user"] == "ada"
    ((envelope, mail),) = mailbox.mails
    assert mail["Subject"] == "[kaiwo] KaiwoJob team/train: FAILED"
    assert [line.partition(":")[2].split(">")[0] for line in envelope] == [
        "<kaiwo@example.org", "<ops@example.org", "<ada@example.org",
    ]  # fmt: skip


async def test_a_message_is_tried_again_until_it_is_taken(
    receiver: Any, parsed: Any, transition: Callable[..., Transition]
) -> None:
    """After errors of the server, and in order with those behind it."""
    receiver.answers = [(503, {}), (429, {}), (200, {})]
    settings = parsed(slack(receiver))
    await notify(transition(name="first"), settings)
    await notify(transition(name="second"), settings)
    await receiver.has(4)
    names = [body["text"].split("team/")[1].split(":")[0] for _, body in receiver.requests]
    assert names == ["first", "first", "first", "second"]


async def test_what_is_refused_is_not_tried_again(
    receiver: Any, parsed: Any, transition: Callable[..., Transition], caplog: pytest.LogCaptureFixture
) -> None:
    """The log has the sink and the workload; the next message says that one is missing."""
    receiver.answers = [(404, {}), (200, {})]
    settings = parsed(slack(receiver))
    with caplog.at_level(logging.WARNING):
        await notify(transition(), settings)
        await notify(transition(), settings)
        await receiver.has(2)
    (line,) = [record for record in caplog.records if record.name.startswith("kaiwo_notify")]
    assert line.getMessage() == "sink chat: a message was not taken after 1 tries: HTTP 404"
    assert line.fields["name"] == "train"  # type: ignore[attr-defined]
    assert "1 more messages were left out" in receiver.requests[1][1]["text"]


async def test_a_receiver_that_hangs_delays_neither_the_caller_nor_another_sink(
    receiver: Any, parsed: Any, transition: Callable[..., Transition]
) -> None:
    """Each sink has a queue of its own, which is bounded."""

    async def hang(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    async with stream_server(hang) as port:
        hanging = {"name": "hangs", "type": "slack", "url": f"http://127.0.0.1:{port}/", "perHour": 10_000}
        settings = parsed(hanging, slack(receiver, perHour=10_000))
        began = time.process_time()
        for number in range(listener.CAPACITY + 50):
            await notify(transition(name=f"job-{number}"), settings)
            if number % 50 == 0:
                await receiver.has(number // 2)
        assert time.process_time() - began < 20
        outbox = listener._outboxes["hangs"]
        assert len(outbox._waiting) <= listener.CAPACITY
        assert outbox._limit.left_out > 0
        await receiver.has(listener.CAPACITY)
        await listener._outboxes.pop("hangs").close()


async def test_more_messages_than_allowed_are_counted_and_left_out(
    receiver: Any, parsed: Any, transition: Callable[..., Transition]
) -> None:
    """A thousand failing jobs make no thousand messages."""
    settings = parsed(slack(receiver, perHour=3, rules={"namespaces": ["team"]}))
    for number in range(50):
        await notify(transition(name=f"job-{number}"), settings)
    await receiver.has(3)
    await stop(None)
    assert len(receiver.requests) == 3


async def test_one_namespace_does_not_silence_the_others(
    receiver: Any, parsed: Any, transition: Callable[..., Transition]
) -> None:
    """However many of its workloads fail, as many messages are left as it has had."""
    settings = parsed(slack(receiver, perHour=8))
    for number in range(50):
        await notify(transition(name=f"job-{number}", namespace="noisy"), settings)
    await notify(transition(name="job", namespace="team"), settings)
    await receiver.has(5)
    await stop(None)
    texts = [body["text"] for _, body in receiver.requests]
    assert ["noisy/" in text for text in texts] == [True] * 4 + [False]


async def test_a_full_queue_leaves_out_messages_of_the_namespace_with_the_most(
    parsed: Any, transition: Callable[..., Transition]
) -> None:
    """A storm in one namespace does not push out what others wait for."""
    settings = parsed({"name": "chat", "type": "slack", "url": "http://127.0.0.1:1/", "perHour": 10_000})
    outbox = listener.Outbox("chat")
    for number in range(listener.CAPACITY + 50):
        namespace = "team" if number == 0 else "noisy"
        outbox.add(transition(name=f"job-{number}", namespace=namespace), settings, settings.sinks[0])
    waiting = [message.name for message, _ in outbox._waiting]
    assert waiting == ["job-0", *(f"job-{number}" for number in range(51, listener.CAPACITY + 50))]
    await outbox.close()


async def test_secrets_are_in_no_line_of_the_log(
    parsed: Any, transition: Callable[..., Transition], secrets: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Also where the server cannot be reached, or the file is no URL."""
    (secrets / "url").write_text("http://127.0.0.1:1/services/T0/CANARY", encoding="utf-8")
    (secrets / "odd").write_text("ftp://CANARY.example", encoding="utf-8")
    settings = parsed(
        {"name": "chat", "type": "slack", "urlFile": "url"},
        {"name": "odd", "type": "slack", "urlFile": "odd"},
        {"name": "none", "type": "slack", "urlFile": "missing"},
    )
    with caplog.at_level(logging.DEBUG):
        await notify(transition(), settings)
        for outbox in list(listener._outboxes.values()):
            assert outbox._task is not None
            await asyncio.wait({outbox._task}, timeout=20)
    assert "sink chat: a message was not taken after 6 tries" in caplog.text
    assert "sink odd: a message was not taken after 1 tries" in caplog.text
    assert "missing: No such file or directory; mount the Secret with this key" in caplog.text
    assert "CANARY" not in caplog.text


async def test_a_redirect_is_not_followed(
    receiver: Any, parsed: Any, transition: Callable[..., Transition]
) -> None:
    """It would lead to a place that nobody has written."""
    receiver.answers = [(307, {"Location": receiver.url})]
    with pytest.raises(DeliveryError, match="HTTP 307"):
        await sent(parsed(slack(receiver)), transition())
    assert len(receiver.requests) == 1


@pytest.mark.parametrize(
    ("url", "more", "words"),
    [
        ("http://169.254.169.254/latest", {}, "link-local or metadata"),
        ("http://[::ffff:169.254.169.254]/", {}, "link-local or metadata"),
        ("http://10.0.0.1/", {"allowPrivateEndpoints": False}, "private address"),
        ("http://127.0.0.1:1/", {"allowPrivateEndpoints": False}, "loopback"),
        ("http://localhost:1/", {"allowPrivateEndpoints": False}, "loopback"),
        ("http://example.org/", {"allowHttp": False}, "allowHttp is false"),
    ],
)
async def test_messages_go_to_allowed_addresses_only(
    parsed: Any, transition: Callable[..., Transition], url: str, more: dict[str, Any], words: str
) -> None:
    """Whoever may edit KaiwoConfig cannot send through the operator to the network of the nodes."""
    settings = parsed({"name": "chat", "type": "slack", "url": url}, **more)
    with pytest.raises(DeliveryError, match=words) as caught:
        await sent(settings, transition())
    assert not caught.value.again


async def test_a_name_that_resolves_to_a_blocked_address_is_blocked(
    parsed: Any, transition: Callable[..., Transition], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The address that was checked is the one that is connected to: the name is resolved once."""
    resolved: list[str] = []

    async def resolve(_: object, host: str, port: int = 0, family: int = 0) -> list[dict[str, Any]]:
        resolved.append(host)
        return [
            {"hostname": host, "host": "127.0.0.1", "port": port, "family": family, "proto": 0, "flags": 0}
        ]

    monkeypatch.setattr(delivery.aiohttp.ThreadedResolver, "resolve", resolve)
    settings = parsed({"name": "chat", "type": "slack", "url": "http://rebind.example/"})
    with pytest.raises(DeliveryError, match="loopback"):
        await sent(settings, transition())
    assert resolved == ["rebind.example"]


async def test_mail_servers_are_checked_too(
    parsed: Any, mailbox: Any, transition: Callable[..., Transition]
) -> None:
    """The same policy, at the connection."""
    settings = parsed(by_mail(mailbox), allowPrivateEndpoints=False)
    with pytest.raises(DeliveryError, match="loopback"):
        await sent(settings, transition())
    assert mailbox.mails == []


@pytest.mark.parametrize(("reply", "again"), [("451 later", True), ("550 no", False)])
async def test_answers_of_a_mail_server_say_whether_to_try_again(
    parsed: Any, mailbox: Any, transition: Callable[..., Transition], reply: str, *, again: bool
) -> None:
    """4xx is for a while, 5xx for good."""
    mailbox.replies = [reply]
    with pytest.raises(DeliveryError, match=f"SMTP {reply[:3]}") as caught:
        await sent(parsed(by_mail(mailbox)), transition())
    assert caught.value.again is again


async def test_a_mail_server_without_encryption_gets_nothing(
    parsed: Any, mailbox: Any, transition: Callable[..., Transition], secrets: Path
) -> None:
    """A password is not sent to whoever answers without TLS."""
    (secrets / "password").write_text("hunter2", encoding="utf-8")
    sink = by_mail(mailbox, encryption="starttls", username="kaiwo", passwordFile="password")
    with pytest.raises(DeliveryError, match="no encryption"):
        await sent(parsed(sink), transition())
    assert mailbox.mails == []


async def test_a_sink_that_is_taken_out_of_the_settings_sends_no_more(
    receiver: Any, parsed: Any, transition: Callable[..., Transition]
) -> None:
    """An edit of KaiwoConfig counts from the next transition on."""
    await notify(transition(), parsed(slack(receiver)))
    await receiver.has(1)
    await notify(transition(), parsed())
    await notify(transition(), None)
    assert listener._outboxes == {}
    assert len(receiver.requests) == 1


def test_the_reason_names_the_setting_that_allows_private_addresses() -> None:
    """An address may have a zone."""
    with pytest.raises(BlockedAddress, match=r"spec\.plugins\.notify\.allowPrivateEndpoints is false"):
        check_address("10.1.2.3", private=False)
    with pytest.raises(BlockedAddress, match="link-local"):
        check_address("fe80::1%eth0", private=True)
