"""Sends one message once. What it raises says whether another try can help, and holds no secret."""

from __future__ import annotations

import asyncio
import contextlib
import os
import smtplib
import socket
import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from kaiwo.plugin.kit.addresses import is_loopback_host
from kaiwo_notify import messages
from kaiwo_notify.addresses import BlockedAddress, check_address

if TYPE_CHECKING:
    from collections.abc import Mapping
    from email.message import EmailMessage

    from kaiwo.plugin.lifecycle import Transition
    from kaiwo_notify.settings import Email, NotifySettings, Sink

FOLDER_VARIABLE: Final = "KAIWO_NOTIFY_SECRETS"
DEFAULT_FOLDER: Final = "/etc/kaiwo/notify"
"""Where the Secret of the plugin is mounted. No setting names another folder: KaiwoConfig must not make the
operator send its own token."""

TIMEOUT: Final = 10.0
"""Seconds for one try."""

_LONGEST_SECRET: Final = 4096
_LONGEST_ANSWER: Final = 64 * 1024
_LONGEST_PAUSE: Final = 300.0
_TRY_AGAIN: Final = frozenset({408, 425, 429, *range(500, 600)})
_OK: Final = range(200, 300)
_TEMPORARY: Final = range(400, 500)  # SMTP


class DeliveryError(Exception):
    """A message was not taken.

    Attributes:
        again: whether another try can help.
        pause: seconds that the receiver asks for, 0 for none.
    """

    def __init__(self, text: str, *, again: bool, pause: float = 0.0) -> None:
        super().__init__(text)
        self.again = again
        self.pause = pause


async def deliver(sink: Sink, settings: NotifySettings, transition: Transition, left_out: int) -> None:
    """Send one message.

    Args:
        sink: where to.
        settings: of the plugin.
        transition: what is reported.
        left_out: messages that were left out before it.

    Raises:
        DeliveryError: it was not taken.
    """
    try:
        async with asyncio.timeout(TIMEOUT):
            if sink.email is not None:
                message = messages.mail(transition, sink.email, left_out)
                await asyncio.to_thread(_send_mail, sink.email, settings, message)
            else:
                await _post(sink, settings, transition, left_out)
    except TimeoutError as error:
        raise DeliveryError(f"no answer within {TIMEOUT:g} s", again=True) from error
    except BlockedAddress as error:
        raise DeliveryError(str(error), again=False) from error


def secret(name: str) -> str:
    """The text of a file in the folder of secrets.

    Raises:
        DeliveryError: it cannot be read; later it may be there.
    """
    path = Path(os.environ.get(FOLDER_VARIABLE) or DEFAULT_FOLDER) / name
    try:
        with path.open("rb") as file:
            text = file.read(_LONGEST_SECRET + 1).decode()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "is not a text"
        raise DeliveryError(f"{path}: {why}; mount the Secret with this key", again=True) from None
    text = text.strip()
    if not text or len(text) > _LONGEST_SECRET or not text.isprintable():
        raise DeliveryError(f"{path}: expected one line of text", again=True)
    return text


# -- HTTP


class _CheckedResolver(AbstractResolver):
    """Resolves names, and refuses all of a name of which one address is blocked."""

    def __init__(self, *, private: bool, loopback: bool) -> None:
        self._resolver = aiohttp.ThreadedResolver()
        self._private, self._loopback = private, loopback

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        found = await self._resolver.resolve(host, port, family)
        for item in found:
            check_address(item["host"], private=self._private, loopback=self._loopback)
        return found

    async def close(self) -> None:
        await self._resolver.close()


async def _post(sink: Sink, settings: NotifySettings, transition: Transition, left_out: int) -> None:
    url = sink.url or secret(sink.url_file or "")
    host = _checked_host(url, settings)
    body, headers = _request(sink, transition, left_out)
    resolver = _CheckedResolver(private=settings.allow_private_endpoints, loopback=is_loopback_host(host))
    connector = aiohttp.TCPConnector(resolver=resolver, use_dns_cache=False, limit=1, force_close=True)
    try:
        async with (
            aiohttp.ClientSession(connector=connector, trust_env=False) as session,
            # A redirect would lead to a place that nobody has written.
            session.post(url, data=body, headers=headers, allow_redirects=False) as answer,
        ):
            await answer.content.read(_LONGEST_ANSWER)
    except BlockedAddress:
        raise
    except (aiohttp.ClientError, OSError, ValueError) as error:
        if isinstance(error.__cause__, BlockedAddress):
            raise error.__cause__ from None
        # The text of the error may have the URL, which may be a secret.
        raise DeliveryError(f"{type(error).__name__}", again=True) from None
    if answer.status not in _OK:
        raise DeliveryError(
            f"HTTP {answer.status}", again=answer.status in _TRY_AGAIN, pause=_pause(answer.headers)
        )


def _request(sink: Sink, transition: Transition, left_out: int) -> tuple[bytes, dict[str, str]]:
    """Body and headers."""
    headers = {"User-Agent": "kaiwo-notify"}
    if sink.type == "slack":
        body = messages.encoded(messages.slack(transition, left_out))
        headers["Content-Type"] = "application/json; charset=utf-8"
    else:
        body = messages.encoded(messages.cloud_event(transition, left_out))
        headers["Content-Type"] = "application/cloudevents+json; charset=utf-8"
    if sink.token_file:
        headers["Authorization"] = f"Bearer {secret(sink.token_file)}"
    return body, headers


def _checked_host(url: str, settings: NotifySettings) -> str:
    """The host of a URL that messages may go to; a literal address is checked, because none is resolved.

    Raises:
        DeliveryError: the URL cannot be used.
        BlockedAddress: messages must not go there.
    """
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        _ = parts.port
    except ValueError:
        host, parts = "", urlsplit("")
    if not host or parts.scheme not in ("https", "http"):
        raise DeliveryError("the URL is not an http or https URL", again=False)
    if parts.scheme == "http" and not settings.allow_http:
        raise DeliveryError("the URL is http, and spec.plugins.notify.allowHttp is false", again=False)
    with contextlib.suppress(ValueError):  # of a name, whose addresses the resolver checks
        check_address(host, private=settings.allow_private_endpoints, loopback=is_loopback_host(host))
    return host


def _pause(headers: Mapping[str, str]) -> float:
    """Seconds that the receiver asks for in Retry-After."""
    text = headers.get("Retry-After", "")
    return min(float(text), _LONGEST_PAUSE) if text.isascii() and text.isdigit() else 0.0


# -- SMTP


def _send_mail(to: Email, settings: NotifySettings, message: EmailMessage) -> None:
    """Send a mail; runs in a thread."""
    password = secret(to.password_file) if to.password_file else ""
    context = ssl.create_default_context()
    try:
        with _connected(to, settings, context) as server:
            if to.encryption == "starttls":
                server.starttls(context=context)
            if to.username:
                server.login(to.username, password)
            refused = server.send_message(message)
    except smtplib.SMTPRecipientsRefused as error:
        codes = [code for code, _ in error.recipients.values()]
        again = any(code in _TEMPORARY for code in codes)
        raise DeliveryError(f"SMTP {codes[0] if codes else 0}: no recipient was taken", again=again) from None
    except smtplib.SMTPResponseException as error:
        raise DeliveryError(f"SMTP {error.smtp_code}", again=error.smtp_code in _TEMPORARY) from None
    except smtplib.SMTPNotSupportedError:
        raise DeliveryError("the mail server offers no encryption or no login", again=False) from None
    except (smtplib.SMTPException, OSError) as error:
        raise DeliveryError(type(error).__name__, again=True) from None
    if refused:
        raise DeliveryError(f"{len(refused)} of {len(to.recipients)} recipients were refused", again=False)


def _connected(to: Email, settings: NotifySettings, context: ssl.SSLContext) -> smtplib.SMTP:
    """A connection to the mail server, at an address that was checked."""
    loopback = is_loopback_host(to.host)

    def connect(host: str, port: int, timeout: float) -> socket.socket:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        for *_, place in found:
            check_address(str(place[0]), private=settings.allow_private_endpoints, loopback=loopback)
        return socket.create_connection(found[0][4][:2], timeout)  # type: ignore[arg-type]  # host and port

    class Plain(smtplib.SMTP):
        def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
            return connect(host, port, timeout)

    class Encrypted(smtplib.SMTP_SSL):
        def _get_socket(self, host: str, port: int, timeout: float) -> Any:
            return context.wrap_socket(connect(host, port, timeout), server_hostname=host)

    made = Encrypted if to.encryption == "tls" else Plain
    return made(to.host, to.port, timeout=TIMEOUT)
